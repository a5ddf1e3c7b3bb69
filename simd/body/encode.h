/* SPDX-License-Identifier: MIT */
/*
 * Encodes to any element format in any rounding mode, one number per lane: ref/minifloat.c in vectors of 32-bit
 * integers. The arithmetic is the same (n = significand >> shift, the remainder decides whether n is incremented), with
 * two differences. A magnitude is first clamped to the power of two just past the format's range, which also rounds to
 * a code past the largest and keeps n small. And the binary32 exponent field at which the format's normal numbers begin
 * is a vector argument: a block of scale 2^s raises it by s, which divides x by 2^s exactly. It must be at least 1, so
 * that every binary32 subnormal is subnormal in the format too.
 */
#ifndef MXFP_BODY_ENCODE_H
#define MXFP_BODY_ENCODE_H

#include "kernels.h"

/* A format and the options of a call. Flags are all ones or 0. */
struct encoder {
	unsigned significand_bits;
	uint32_t normal_field; /* binary32 exponent field of the smallest normal number, before a block adds its s */
	uint32_t span;         /* fields from there to the first power of two past the largest number */
	uint32_t max_code, past_code, sign_code;
	uint32_t nan_code, nan_sign, nan_payload;
	uint32_t unsigned_code; /* the code of a negative number in a format without sign; 0 in others */
	uint32_t negate;        /* codes are two's complement in a byte */
	uint32_t keep_zero_sign;
	uint32_t overflows;     /* numbers past the largest become past_code */
};

/* Counts per lane. They are sums of masks, so they count down from 0. */
struct lane_counts {
	vs32 saturated, overflowed, flushed, nan, inf;
};

static inline void encoder_init(struct encoder *e, const struct mxfp_format_info *f, const struct mxfp_rounding *r)
{
	bool fixed = f->kind == MXFP_KIND_FIXED, exponent = f->kind == MXFP_KIND_EXPONENT, wide = f->bits > 8;
	bool has_nan = f->special != MXFP_SPECIAL_NONE, fnuz = f->special == MXFP_SPECIAL_FNUZ;
	uint32_t magnitudes = (UINT32_C(1) << (exponent ? f->bits : f->bits - 1)) - 1;
	/* FIXED has one quantum, like numbers below the smallest normal one, and its largest number is below 2. */
	int emin = fixed ? 0 : 1 - f->bias;

	*e = (struct encoder){
		.significand_bits = f->significand_bits,
		.normal_field = (uint32_t)(emin + F32_BIAS),
		.span = (uint32_t)(f->emax + 1 - emin),
		.max_code = f->max_code,
		.past_code = f->max_code + 1,
		.sign_code = f->kind == MXFP_KIND_FLOAT ? UINT32_C(1) << (f->bits - 1) : 0,
		.nan_payload = wide ? UINT32_MAX : 0,
		.unsigned_code = f->kind == MXFP_KIND_UFLOAT || exponent ? magnitudes : 0,
		.negate = fixed ? UINT32_MAX : 0,
		.keep_zero_sign = r->no_negative_zero || fnuz ? 0 : UINT32_MAX,
		.overflows = has_nan && (wide || r->overflow == MXFP_OVERFLOW_OVF) ? UINT32_MAX : 0,
	};
	e->nan_sign = has_nan ? e->sign_code : 0;
	e->nan_code = f->special == MXFP_SPECIAL_IEEE ? e->past_code | UINT32_C(1) << (f->significand_bits - 1)
	              : fnuz                          ? e->past_code
	              : has_nan                       ? magnitudes
	                                              : f->max_code;
}

ALWAYS_INLINE void lane_counts_add(struct mxfp_counts *to, const struct lane_counts *from)
{
	to->saturated += sum_lanes((vu32)-from->saturated);
	to->overflowed += sum_lanes((vu32)-from->overflowed);
	to->flushed += sum_lanes((vu32)-from->flushed);
	to->nan += sum_lanes((vu32)-from->nan);
	to->inf += sum_lanes((vu32)-from->inf);
}

/* Whether n is incremented; `low` is the remainder of the division by 2^shift, and shift is at least 1. */
ALWAYS_INLINE vs32 rounds_up(enum mxfp_round mode, vs32 negative, vu32 n, vu32 low, vu32 shift, vu32 random)
{
	vu32 half = shift_left(splat(1), min_u32(shift, splat(31)) - 1); /* a remainder has at most 24 bits */

	switch (mode) {
	case MXFP_ROUND_RNE:
		return (vs32)(low + (n & 1)) > (vs32)half;
	case MXFP_ROUND_RNA:
		return (vs32)low >= (vs32)half;
	case MXFP_ROUND_RHZ:
		return (vs32)low > (vs32)half;
	case MXFP_ROUND_RTZ:
		break;
	case MXFP_ROUND_RTP:
		return (low != 0) & ~negative;
	case MXFP_ROUND_RTN:
		return (low != 0) & negative;
	case MXFP_ROUND_SR: {
		/* random < low * 2^(32 - shift), exactly. In integers: random >> (32 - shift) < low, or if shift exceeds 32,
		   random <= (low - 1) >> (shift - 32). */
		vu32 to_32 = splat(32) - min_u32(shift, splat(32)), past_32 = max_u32(shift, splat(32)) - 32;

		return (low != 0) & (shift_right(random, to_32) <= shift_right(low - 1, past_32));
	}
	}
	return (vs32)splat(0);
}

/* Whether the mode never rounds a finite number of this sign away from zero. */
ALWAYS_INLINE vs32 toward_zero(enum mxfp_round mode, vs32 negative)
{
	if (mode == MXFP_ROUND_RTZ)
		return (vs32)splat(UINT32_MAX);
	return mode == MXFP_ROUND_RTP ? negative : mode == MXFP_ROUND_RTN ? ~negative : (vs32)splat(0);
}

/* The codes of finite magnitudes, as if codes continued past the largest. */
ALWAYS_INLINE vu32 round_magnitude(const struct encoder *e, enum mxfp_round mode, vu32 magnitude, vs32 negative,
                                   vu32 normal_field, vu32 random)
{
	vu32 end = normal_field + e->span;
	vu32 cut = min_u32(magnitude, blend((vs32)end > 254, splat(F32_MAX), end << F32_SIGNIFICAND_BITS));
	vu32 field = cut >> F32_SIGNIFICAND_BITS;
	vu32 hidden = (vu32)(field != 0) & F32_HIDDEN;
	vu32 significand = (cut & (F32_HIDDEN - 1)) | hidden;

	field = max_u32(field, splat(1)); /* subnormal numbers have the exponent of field 1 */
	vu32 larger = max_u32(field, normal_field);
	vu32 shift = larger - field + (F32_SIGNIFICAND_BITS - e->significand_bits);
	vu32 n = shift_right(significand, shift);
	vu32 low = significand - shift_left(n, shift);
	vs32 up = rounds_up(mode, negative, n, low, shift, random);
	return ((larger - normal_field) << e->significand_bits) + n - (vu32)up;
}

/* The same for the exponent format, whose codes are binary32 exponent fields. The gap below 2^(k+1) is 2^k, ties round
   up under rne, and everything below 2^-127, half of the smallest normal binary32, has code 0. */
ALWAYS_INLINE vu32 round_exponent(enum mxfp_round mode, vu32 magnitude, vu32 random)
{
	vu32 from_smallest = (vu32)((vs32)magnitude >= (int32_t)(F32_HIDDEN / 2)) & (magnitude << 1) & (F32_HIDDEN - 1);
	vu32 x = blend((vs32)magnitude < (int32_t)F32_HIDDEN, from_smallest, magnitude);
	vu32 n = x >> F32_SIGNIFICAND_BITS, low = x & (F32_HIDDEN - 1);

	return n - (vu32)rounds_up(mode, (vs32)splat(0), splat(1), low, splat(F32_SIGNIFICAND_BITS), random);
}

/* Replaces the codes of Inf and NaN. */
ALWAYS_INLINE vu32 encode_special(const struct encoder *e, vu32 x, vu32 code, struct lane_counts *counts)
{
	vu32 magnitude = x & ~F32_SIGN;
	vs32 negative = (vs32)x < 0, inf = magnitude == F32_INF, nan = (vs32)magnitude > (int32_t)F32_INF;
	vs32 no_code = negative & (vs32)splat(e->unsigned_code != 0 ? UINT32_MAX : 0);
	vu32 limit = splat(e->overflows ? e->past_code : e->max_code);
	vu32 minus = blend((vs32)splat(e->negate), -limit & 0xFF, limit | e->sign_code);
	vu32 of_inf = blend(no_code, splat(e->unsigned_code), blend(negative, minus, limit));
	vu32 payload = (x & (F32_HIDDEN - 1) & e->nan_payload) >> (F32_SIGNIFICAND_BITS - e->significand_bits);
	vu32 of_nan = payload | e->nan_code | ((vu32)negative & e->nan_sign);

	counts->inf += inf;
	counts->nan += nan;
	counts->saturated += inf & ~no_code & (vs32)splat(~e->overflows);
	return blend(nan, of_nan, blend(inf, of_inf, code));
}

/* The codes of binary32 numbers; exponent_only and mode are constants where this is inlined. */
ALWAYS_INLINE vu32 encode_lanes(const struct encoder *e, bool exponent_only, enum mxfp_round mode, vu32 x,
                                vu32 normal_field, vu32 random, struct lane_counts *counts)
{
	vu32 magnitude = x & ~F32_SIGN;
	vs32 negative = (vs32)x < 0, finite = (vs32)magnitude < (int32_t)F32_INF;
	vs32 no_code = negative & (magnitude != 0) & finite & (vs32)splat(e->unsigned_code != 0 ? UINT32_MAX : 0);
	vu32 code = exponent_only ? round_exponent(mode, magnitude, random)
	                          : round_magnitude(e, mode, magnitude, negative, normal_field, random);
	vs32 past = ((vs32)code > (int32_t)e->max_code) & finite & ~no_code;
	vs32 overflows = past & ~toward_zero(mode, negative) & (vs32)splat(e->overflows);

	code = min_u32(code, splat(e->max_code)) - (vu32)overflows;
	counts->overflowed += overflows | no_code;
	counts->saturated += past & ~overflows;
	if (!exponent_only)
		counts->flushed += (code == 0) & (magnitude != 0) & ~no_code;
	vu32 signs = (vu32)negative & e->sign_code & ((vu32)(code != 0) | e->keep_zero_sign);
	vu32 complement = (vu32)negative & e->negate;
	code = (((code ^ complement) - complement) & (0xFF | ~complement)) | signs;
	code = blend(no_code, splat(e->unsigned_code), code);
	if (__builtin_expect(any(~finite), 0))
		code = encode_special(e, x, code, counts);
	return code;
}

/* n numbers and their codes. x and codes have room for n rounded up to LANES, and x is 0 from n on. */
struct encode_span {
	size_t n;
	const uint32_t *x;
	const uint32_t *random; /* only read in mode sr */
	uint32_t *codes;
};

/* binary32 to binary32: NaN becomes quiet, and -0 may become +0. */
ALWAYS_INLINE vu32 encode_f32(const struct encoder *e, vu32 x, struct lane_counts *counts)
{
	vu32 magnitude = x & ~F32_SIGN;
	vs32 nan = (vs32)magnitude > (int32_t)F32_INF;

	counts->nan += nan;
	counts->inf += magnitude == F32_INF;
	return (x | ((vu32)nan & F32_QUIET)) & ((vu32)(magnitude != 0) | ~F32_SIGN | e->keep_zero_sign);
}

static inline void encode_f32_array(const struct encoder *e, struct encode_span *span, struct lane_counts *counts)
{
	for (size_t i = 0; i < span->n; i += LANES)
		store(span->codes + i, encode_f32(e, load(span->x + i), counts));
}

ALWAYS_INLINE void encode_mode(const struct encoder *encoder, bool exponent_only, enum mxfp_round mode,
                               struct encode_span *span, uint32_t normal_field, struct lane_counts *total)
{
	const struct encoder e = *encoder;
	struct lane_counts counts = *total;

	for (size_t i = 0; i < span->n; i += LANES) {
		vu32 random = mode == MXFP_ROUND_SR ? load(span->random + i) : splat(0);

		store(span->codes + i, encode_lanes(&e, exponent_only, mode, load(span->x + i), splat(normal_field), random,
		                                    &counts));
	}
	*total = counts;
}

/* Encodes to any format but the exponent format; normal_field is the encoder's plus the s of a block's scale. */
static NOINLINE void encode_array(const struct encoder *e, enum mxfp_round mode, struct encode_span *span,
                                  uint32_t normal_field, struct lane_counts *counts)
{
	switch (mode) {
#define MXFP_ROUND(id, value, name, meaning) \
	case MXFP_ROUND_##id: \
		encode_mode(e, false, MXFP_ROUND_##id, span, normal_field, counts); \
		break;
#include "option.def"
	}
}

#endif
