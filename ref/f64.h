/* SPDX-License-Identifier: MIT */
/* binary64 arithmetic on bit patterns: round to nearest even, subnormals, overflow to Inf; every NaN result is
   7FF8000000000000. Sums over rows, and what is computed from them once a row, are defined by these operations. */
#ifndef MXFP_REF_F64_H
#define MXFP_REF_F64_H

#include <stdbool.h>
#include <stdint.h>

#define MXFP_F64_SIGN UINT64_C(0x8000000000000000)
#define MXFP_F64_INF UINT64_C(0x7FF0000000000000)
#define MXFP_F64_NAN UINT64_C(0x7FF8000000000000)
#define MXFP_F64_ONE UINT64_C(0x3FF0000000000000)

static inline bool mxfp_f64_is_nan(uint64_t bits)
{
	return (bits & ~MXFP_F64_SIGN) > MXFP_F64_INF;
}

static inline bool mxfp_f64_is_inf(uint64_t bits)
{
	return (bits & ~MXFP_F64_SIGN) == MXFP_F64_INF;
}

static inline bool mxfp_f64_is_zero(uint64_t bits)
{
	return (bits & ~MXFP_F64_SIGN) == 0;
}

uint64_t mxfp_f64_add(uint64_t a, uint64_t b);
uint64_t mxfp_f64_sub(uint64_t a, uint64_t b);
uint64_t mxfp_f64_mul(uint64_t a, uint64_t b);
uint64_t mxfp_f64_div(uint64_t a, uint64_t b);

/* a * b + c, rounded once. */
uint64_t mxfp_f64_fma(uint64_t a, uint64_t b, uint64_t c);

/* -1, 0 or 1 if a < b, a = b or a > b; -0 = +0. Neither may be NaN. */
int mxfp_f64_compare(uint64_t a, uint64_t b);

/* The binary64 of a binary32 (exact) and of an integer; the binary32 of a binary64. */
uint64_t mxfp_f64_from_f32(uint32_t a);
uint64_t mxfp_f64_from_u64(uint64_t n);
uint32_t mxfp_f64_to_f32(uint64_t a);

/* The binary32 nearest to 1 / a and to 1 / sqrt(a), rounded once. Those of +-0 are +-Inf; 1 / sqrt(a) of a negative
   number is NaN. */
uint32_t mxfp_f64_reciprocal_f32(uint64_t a);
uint32_t mxfp_f64_rsqrt_f32(uint64_t a);

#endif
