/* SPDX-License-Identifier: MIT */
/*
 * Encodes magnitudes to codes of at most 8 bits, to nearest even, with one fused multiply-add. Let P be the power of
 * two at or below the magnitude, but at least the format's smallest normal number, and M its significand bits. The last
 * place of P is the magnitude's quantum times 2^-(23 - M), so magnitude * 2^-(23 - M) + P, rounded once to
 * binary32, has n, the magnitude divided by its quantum, in its low bits. The exponent of P and n make the code. A
 * larger normal_field divides by a power of two, as in encode.h.
 */
#ifndef MXFP_BODY_NEAREST_H
#define MXFP_BODY_NEAREST_H

#include "kernels.h"

struct nearest {
	unsigned significand_bits;
	uint32_t normal_field; /* binary32 exponent field of the smallest normal number */
	uint32_t max;          /* the largest number, as binary32 */
	uint32_t past;         /* the smallest magnitude that rounds past `max`, as binary32 */
	uint32_t flushed;      /* the largest magnitude that rounds to 0, as binary32 */
	uint32_t smallest;     /* the smallest number but 0, as binary32 */
	uint8_t max_code, sign_code;
	bool clamps; /* numbers past the largest become the largest */
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
		.smallest = power_bits(emin - (int)f->significand_bits),
		.max_code = (uint8_t)f->max_code, /* of formats of at most 8 bits */
		.sign_code = (uint8_t)(fixed || f->bits > 8 ? 0 : 1 << (f->bits - 1)),
		.clamps = f->special == MXFP_SPECIAL_NONE || (f->bits <= 8 && overflow == MXFP_OVERFLOW_SAT),
	};
	/* Codes of normal numbers, and those of FIXED from 1 on, are the top bits of the binary32 with another bias. */
	e->max = (f->max_code << below) + ((e->normal_field - 1) << F32_SIGNIFICAND_BITS);
	e->past = e->max + (UINT32_C(1) << (below - 1)) + (f->max_code % 2 == 0);
}

/* P. */
ALWAYS_INLINE vu32 power_below(vu32 magnitude, uint32_t normal_field)
{
	return max_u32(magnitude & F32_INF, splat(normal_field << F32_SIGNIFICAND_BITS));
}

ALWAYS_INLINE vu32 round_at(const struct nearest *e, vu32 magnitude, vu32 power)
{
	uint32_t field = F32_BIAS - (F32_SIGNIFICAND_BITS - e->significand_bits);

	return (vu32)fma_f32((vf32)magnitude, (vf32)splat(field << F32_SIGNIFICAND_BITS), (vf32)power);
}

/* The codes of magnitudes that do not exceed the largest number. */
ALWAYS_INLINE vu32 nearest_codes(const struct nearest *e, vu32 magnitude, uint32_t normal_field)
{
	vu32 power = power_below(magnitude, normal_field), rounded = round_at(e, magnitude, power);
	vu32 fields = rounded >> splat(F32_SIGNIFICAND_BITS - e->significand_bits);

	return fields + (rounded - power) - (normal_field << e->significand_bits);
}

/* fl32(magnitude - nearest), where `nearest` is the nearest number of the format, at most `max`. */
ALWAYS_INLINE vf32 nearest_error(const struct nearest *e, vu32 magnitude, uint32_t max, uint32_t normal_field)
{
	uint32_t field = F32_BIAS + (F32_SIGNIFICAND_BITS - e->significand_bits);
	vu32 clamped = min_u32(magnitude, splat(max)), power = power_below(clamped, normal_field);
	vf32 n = (vf32)round_at(e, clamped, power) - (vf32)power;

	return fma_f32(n, (vf32)splat(F32_SIGN | field << F32_SIGNIFICAND_BITS), (vf32)magnitude);
}

/* Combines the codes of magnitudes with signs, both one per byte. */
ALWAYS_INLINE vu8 signed_bytes(const struct nearest *e, bool negate, vu8 codes, vs8 signs)
{
	vu8 negative = (vu8)(signs < 0);

	return negate ? (codes ^ negative) - negative : codes | (negative & e->sign_code);
}

/* Codes of FNUZ, whose zero has no sign. */
ALWAYS_INLINE vu8 without_signed_zeros(const struct nearest *e, vu8 codes)
{
	return codes & (vu8)(codes != e->sign_code);
}

/* Rounds to a format that is the top `bits` bits of binary32: those bits of the result are the code, except for NaN. */
ALWAYS_INLINE vu32 rounded_top_bits(vu32 x, unsigned bits)
{
	unsigned below = 32 - bits;

	return x + ((UINT32_C(1) << (below - 1)) - 1) + (x >> below & 1);
}

#endif
