/* SPDX-License-Identifier: MIT */
/* Structured sparsity n:m along K: doc/numerics.md, section 7. */
#ifndef MXFP_SPARSE_H
#define MXFP_SPARSE_H

#include <stddef.h>

#include "export.h"
#include "format.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* n of every m elements are kept. n = m = 0: dense. */
struct mxfp_sparsity {
	unsigned n, m;
};

#ifdef __cplusplus
}
#endif
#endif
