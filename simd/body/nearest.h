/* SPDX-License-Identifier: MIT */
/*
 * Magnitudes to codes of at most 8 bits, to nearest even, with one fused multiply-add: let P be the power of two at or
 * below the magnitude, but not below the smallest normal number of the format. Then magnitude * 2^-(23 - M) + P,
 * rounded once to binary32, ends in n, the magnitude divided by its quantum, because the last place of P is that
 * quantum times 2^-(23 - M). The exponent of P and n make the code. A larger normal_field divides by a power of two, as
 * in encode.h.
 */
#ifndef MXFP_BODY_NEAREST_H
#define MXFP_BODY_NEAREST_H

#include "kernels.h"

struct nearest {
	unsigned significand_bits;
	uint32_t normal_field; /* binary32 exponent field of the smallest normal number */
	uint32_t max;          /* the largest number, as binary32 */
	uint32_t past;         /* the least magnitude that rounds past it, as binary32 */
	uint32_t flushed;      /* the largest that rounds to 0 */
	uint8_t sign_code;
	bool clamps; /* what lies past the largest number becomes it */
};

static inline uint32_t power_bits(int exponent)
{
	return exponent > -F32_BIAS ? (uint32_t)(exponent + F32_BIAS) << F32_SIGNIFICAND_BITS
	                            : F32_HIDDEN >> (1 - F32_BIAS - exponent);
}

static inline void nearest_init(struct nearest *e, const struct mxfp_format_info *f, enum mxfp_overflow overflow)
{
	bool fixed = f->kind == MXFP_KIND_FIXED;
	int emin = fixed ? 0 : 1 - f->bias;
	unsigned below = F32_SIGNIFICAND_BITS - f->significand_bits;

	*e = (struct nearest){
		.significand_bits = f->significand_bits,
		.normal_field = (uint32_t)(emin + F32_BIAS),
		.flushed = power_bits(emin - (int)f->significand_bits - 1),
		.sign_code = (uint8_t)(fixed || f->bits > 8 ? 0 : 1 << (f->bits - 1)),
		.clamps = f->special == MXFP_SPECIAL_NONE || (f->bits <= 8 && overflow == MXFP_OVERFLOW_SAT),
	};
	/* Codes of normal numbers are binary32's top bits with another bias, and so are those of FIXED from 1 on. */
	e->max = (f->max_code << below) + ((e->normal_field - 1) << F32_SIGNIFICAND_BITS);
	e->past = e->max + (UINT32_C(1) << (below - 1)) + (f->max_code % 2 == 0);
}

/* P of magnitudes, and P and n in one. */
ALWAYS_INLINE vu32 power_below(vu32 magnitude, uint32_t normal_field)
{
	return max_u32(magnitude & F32_INF, splat(normal_field << F32_SIGNIFICAND_BITS));
}

ALWAYS_INLINE vu32 round_at(const struct nearest *e, vu32 magnitude, vu32 power)
{
	uint32_t field = F32_BIAS - (F32_SIGNIFICAND_BITS - e->significand_bits);

	return (vu32)fma_f32((vf32)magnitude, (vf32)splat(field << F32_SIGNIFICAND_BITS), (vf32)power);
}

/* The codes of magnitudes up to the largest. */
ALWAYS_INLINE vu32 nearest_codes(const struct nearest *e, vu32 magnitude, uint32_t normal_field)
{
	vu32 power = power_below(magnitude, normal_field), rounded = round_at(e, magnitude, power);
	vu32 fields = rounded >> splat(F32_SIGNIFICAND_BITS - e->significand_bits);

	return fields + (rounded - power) - (normal_field << e->significand_bits);
}

/* fl32(magnitude - the nearest number), the number at most `max`. */
ALWAYS_INLINE vf32 nearest_error(const struct nearest *e, vu32 magnitude, uint32_t max, uint32_t normal_field)
{
	uint32_t field = F32_BIAS + (F32_SIGNIFICAND_BITS - e->significand_bits);
	vu32 clamped = min_u32(magnitude, splat(max)), power = power_below(clamped, normal_field);
	vf32 n = (vf32)round_at(e, clamped, power) - (vf32)power;

	return fma_f32(n, (vf32)splat(F32_SIGN | field << F32_SIGNIFICAND_BITS), (vf32)magnitude);
}

/* Codes in bytes, with signs in others. */
ALWAYS_INLINE vu8 signed_bytes(const struct nearest *e, bool negate, vu8 codes, vs8 signs)
{
	vu8 negative = (vu8)(signs < 0);

	return negate ? (codes ^ negative) - negative : codes | (negative & e->sign_code);
}

/* For formats that are binary32's top bits: these bits are the code, but of a NaN. */
ALWAYS_INLINE vu32 rounded_top_bits(vu32 x, unsigned bits)
{
	unsigned below = 32 - bits;

	return x + ((UINT32_C(1) << (below - 1)) - 1) + (x >> below & 1);
}

#endif
