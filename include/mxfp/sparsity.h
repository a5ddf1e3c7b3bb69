/* SPDX-License-Identifier: MIT */
/* Patterns of structured sparsity n:m: of every m consecutive elements of a row, n are kept. */
#ifndef MXFP_SPARSITY_H
#define MXFP_SPARSITY_H

#include <stddef.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of every m elements n are kept. n = m = 0: dense. */
struct mxfp_sparsity {
	unsigned n, m;
};

/* Returns pattern i, from 0, of those that the library knows (4:16, 4:12, 4:8, 2:8, 2:4, 1:4, 1:2), or NULL. */
MXFP_API const struct mxfp_sparsity *mxfp_sparsity_pattern(size_t i);

#ifdef __cplusplus
}
#endif
#endif
