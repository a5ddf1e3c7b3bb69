/* SPDX-License-Identifier: MIT */
/* binary32 arithmetic on bit patterns: round to nearest even, subnormals, overflow to Inf; every NaN result is 7FC00000.
   NVFP4 scales and the rule `mse` are defined by these operations. */
#ifndef MXFP_REF_F32_H
#define MXFP_REF_F32_H

#include <stdint.h>

#include "minifloat.h"

/* A nonzero exact value, rounded. */
uint32_t mxfp_f32_round(struct mxfp_exact v);

uint32_t mxfp_f32_add(uint32_t a, uint32_t b);
uint32_t mxfp_f32_sub(uint32_t a, uint32_t b);
uint32_t mxfp_f32_mul(uint32_t a, uint32_t b);
uint32_t mxfp_f32_div(uint32_t a, uint32_t b);

/* a + b, rounded once; b has at most 48 bits and any exponent, and is +0 if its significand is 0. */
uint32_t mxfp_f32_add_exact(uint32_t a, struct mxfp_exact b);

/* a * b + c, rounded once. */
uint32_t mxfp_f32_fma(uint32_t a, uint32_t b, uint32_t c);

/* a * 2^exponent. */
uint32_t mxfp_f32_scale(uint32_t a, int exponent);

/* -1, 0 or 1 if a < b, a = b or a > b; -0 = +0. Neither may be NaN. */
int mxfp_f32_compare(uint32_t a, uint32_t b);

/* min(a, b); neither may be NaN. */
uint32_t mxfp_f32_min(uint32_t a, uint32_t b);

#endif
