/* SPDX-License-Identifier: MIT */
/*
 * Decodes finite codes of at most 8 bits to binary32. Shifts turn a code into the binary16 with the same fields, an
 * instruction converts that to binary32, and one exact product corrects the bias. Shifting into a binary32 would also
 * do, but a subnormal code would become a subnormal factor, which is slow on some machines.
 */
#ifndef MXFP_BODY_WIDENER_H
#define MXFP_BODY_WIDENER_H

#include "kernels.h"

enum { F16_EXPONENT_BITS = 5, F16_SIGNIFICAND_BITS = 10, F16_BIAS = 15 };

struct widener {
	uint8_t magnitudes, last_finite;
	uint16_t up, down, fields;
	float scale;
};

static inline void widener_init(struct widener *w, const struct mxfp_format_info *f)
{
	unsigned below = F16_SIGNIFICAND_BITS - f->significand_bits;
	uint32_t exponent = f->kind == MXFP_KIND_FIXED ? -f->significand_bits : (uint32_t)(F16_BIAS - f->bias);
	uint32_t scale = (F32_BIAS + exponent) << F32_SIGNIFICAND_BITS;

	*w = (struct widener){
		.magnitudes = (uint8_t)((1U << (f->bits - 1)) - 1),
		.last_finite = (uint8_t)(f->special == MXFP_SPECIAL_NONE ? INT8_MAX : f->max_code),
		.up = (uint16_t)(16 - f->bits),
		.down = (uint16_t)(F16_EXPONENT_BITS - f->exponent_bits),
	};
	w->fields = (uint16_t)(w->magnitudes << below | (f->kind == MXFP_KIND_FLOAT ? 0x8000 : 0));
	memcpy(&w->scale, &scale, sizeof scale);
}

/* All ones in the bytes of codes that are a NaN or an Inf. */
ALWAYS_INLINE vs8 special_codes(const struct widener *w, vu8 codes)
{
	return (vs8)(codes & w->magnitudes) > (int8_t)w->last_finite;
}

/* The arithmetic shift repeats the sign; `fields` keeps one of its copies. */
ALWAYS_INLINE void widen_words(const struct widener *w, vu16 codes, vf32 x[2])
{
	widen_f16((vu16)((vs16)(codes << w->up) >> w->down) & w->fields, x);
	x[0] *= w->scale;
	x[1] *= w->scale;
}

ALWAYS_INLINE void widen_codes(const struct widener *w, vu8 codes, vf32 x[4])
{
	vu16 words[2];

	widen_bytes(codes, words);
	widen_words(w, words[0], x);
	widen_words(w, words[1], x + 2);
}

/* Decodes codes of FIXED, one per lane. */
ALWAYS_INLINE vf32 widen_integers(const struct widener *w, vu32 codes)
{
	return __builtin_convertvector((vs32)(codes << 24) >> 24, vf32) * w->scale;
}

#endif
