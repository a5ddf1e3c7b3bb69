/* SPDX-License-Identifier: MIT */
/*
 * Encodes and decodes one number in any element format: doc/numerics.md, sections 1 and 2, in integers.
 *
 * binary32 values are passed as their bit patterns, so that no floating-point instruction, rounding mode or
 * flush-to-zero setting can touch them.
 */
#ifndef MXFP_REF_MINIFLOAT_H
#define MXFP_REF_MINIFLOAT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"

#define MXFP_F32_SIGN UINT32_C(0x80000000)
#define MXFP_F32_INF UINT32_C(0x7F800000)
#define MXFP_F32_MAX UINT32_C(0x7F7FFFFF)
#define MXFP_F32_NAN UINT32_C(0x7FC00000)

static inline bool mxfp_f32_is_nan(uint32_t bits)
{
	return (bits & ~MXFP_F32_SIGN) > MXFP_F32_INF;
}

static inline bool mxfp_f32_is_inf(uint32_t bits)
{
	return (bits & ~MXFP_F32_SIGN) == MXFP_F32_INF;
}

static inline bool mxfp_f32_is_finite(uint32_t bits)
{
	return (bits & ~MXFP_F32_SIGN) < MXFP_F32_INF;
}

static inline bool mxfp_f32_is_zero(uint32_t bits)
{
	return (bits & ~MXFP_F32_SIGN) == 0;
}

/* (-1)^negative * significand * 2^exponent, exact. Bit 0 of the significand may be jammed (sticky): set if any discarded
   lower bit is nonzero, which does not change the rounded result as long as it is below the rounding position. */
struct mxfp_exact {
	bool negative;
	int exponent;
	uint64_t significand;
};

/* A finite nonzero binary32, normalized: bit 23 of the significand is set. */
struct mxfp_exact mxfp_f32_unpack(uint32_t bits);

/* The binary32 value of a code, exact for every element format. Unused high bits of the code are ignored. A NaN gives
   7FC00000 with its sign (bf16, f16, tf32, f32: the payload is kept in the top bits and the quiet bit set). */
uint32_t mxfp_minifloat_decode(const struct mxfp_format_info *format, uint32_t code);

/* Rounds a finite nonzero value into the format. `random` is the random word of stochastic rounding. */
uint32_t mxfp_minifloat_round(const struct mxfp_format_info *format, struct mxfp_exact value,
                              const struct mxfp_rounding *rounding, uint32_t random, struct mxfp_counts *counts);

/* The code of x * 2^-shift for any binary32 x; the product is exact and rounded once. */
uint32_t mxfp_minifloat_encode(const struct mxfp_format_info *format, uint32_t x, int shift,
                               const struct mxfp_rounding *rounding, uint32_t random, struct mxfp_counts *counts);

#endif
