/* SPDX-License-Identifier: MIT */
/* Philox4x32-10, the counter-based generator of stochastic rounding (Salmon, Moraes, Dror, Shaw: "Parallel random
   numbers: as easy as 1, 2, 3", SC11). A word depends only on seed, stream and index, so any element can be computed
   independently. */
#ifndef MXFP_PHILOX_H
#define MXFP_PHILOX_H

#include <stdint.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the random word of element `index`: word index mod 4 of counter {lo(index/4), hi(index/4), lo(stream),
   hi(stream)} under key {lo(seed), hi(seed)}. */
MXFP_API uint32_t mxfp_philox_word(uint64_t seed, uint64_t stream, uint64_t index);

#ifdef __cplusplus
}
#endif
#endif
