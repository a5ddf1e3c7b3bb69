/* SPDX-License-Identifier: MIT */
/*
 * Magnitudes to codes of at most 8 bits, to nearest even, with one fused multiply-add: let P be the power of two at or
 * below the magnitude, but not below the smallest normal number of the format. Then magnitude * 2^-(23 - M) + P,
 * rounded once to binary32, ends in n, the magnitude divided by its quantum, because the last place of P is that
 * quantum times 2^-(23 - M). The exponent of P and n make the code. A larger normal_field divides by a power of two, as
 * in encode_body.h.
 */
#ifndef MXFP_NEAREST_BODY_H
#define MXFP_NEAREST_BODY_H

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

/* The codes of magnitudes up to `max`, which is that of `e` unless the field is another. */
ALWAYS_INLINE vu32 nearest_codes(const struct nearest *e, vu32 magnitude, vu32 normal_field)
{
	unsigned below = F32_SIGNIFICAND_BITS - e->significand_bits;
	vu32 power = max_u32(magnitude & F32_INF, normal_field << F32_SIGNIFICAND_BITS);
	vf32 quantum = (vf32)splat((F32_BIAS - below) << F32_SIGNIFICAND_BITS);
	vu32 rounded = (vu32)fma_f32((vf32)magnitude, quantum, (vf32)power);

	return (rounded >> splat(below)) + (rounded - power) - (normal_field << splat(e->significand_bits));
}

/* Bytes of 4 vectors of codes with the signs of x. */
ALWAYS_INLINE vu8 signed_bytes(const struct nearest *e, bool negate, const vu32 codes[4], const vu32 x[4])
{
	vu8 bytes = low_bytes(codes), negative = (vu8)(sign_bytes(x) < 0);

	return negate ? (bytes ^ negative) - negative : bytes | (negative & e->sign_code);
}

#endif
