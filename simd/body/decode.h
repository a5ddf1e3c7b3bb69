/* SPDX-License-Identifier: MIT */
/*
 * Decodes codes of any element format to binary32, one per lane; every result is exact. A number below the format's
 * smallest normal number is an integer times the format's quantum, and the product is a normal binary32, so the
 * floating-point state does not matter. Codes of formats with binary32's exponent range are its top bits, unchanged.
 */
#ifndef MXFP_BODY_DECODE_H
#define MXFP_BODY_DECODE_H

#include "kernels.h"
#include "scale.h"

enum decoder_kind { DECODER_TOP_BITS, DECODER_FLOAT, DECODER_FNUZ, DECODER_FIXED, DECODER_EXPONENT };

struct decoder {
	enum decoder_kind kind;
	unsigned storage_bytes, bits, significand_bits;
	uint32_t magnitudes, sign_code, rebias, last_finite, nan_payload, quiet;
	uint32_t has_inf; /* all ones if the code after the last finite one is Inf */
	float quantum;
};

static inline void decoder_init(struct decoder *d, const struct mxfp_format_info *f)
{
	*d = (struct decoder){
		.kind = f->special == MXFP_SPECIAL_FNUZ      ? DECODER_FNUZ
		        : f->kind == MXFP_KIND_FIXED         ? DECODER_FIXED
		        : f->kind == MXFP_KIND_EXPONENT      ? DECODER_EXPONENT
		        : f->bias == F32_BIAS && f->bits > 8 ? DECODER_TOP_BITS
		                                             : DECODER_FLOAT,
		.storage_bytes = f->storage_bytes,
		.bits = f->bits,
		.significand_bits = f->significand_bits,
		.magnitudes = (UINT32_C(1) << (f->bits - 1)) - 1,
		.sign_code = f->kind == MXFP_KIND_FLOAT ? UINT32_C(1) << (f->bits - 1) : 0,
		.rebias = (uint32_t)(F32_BIAS - f->bias) << F32_SIGNIFICAND_BITS,
		.last_finite = f->special == MXFP_SPECIAL_NONE ? UINT32_MAX >> 1 : f->max_code,
		.nan_payload = f->bits > 8 ? UINT32_MAX : 0,
		.has_inf = f->special == MXFP_SPECIAL_IEEE ? UINT32_MAX : 0,
		.quiet = f->format == MXFP_FORMAT_F32 ? 0 : F32_QUIET, /* encoding quiets it */
	};
	int exponent = f->kind == MXFP_KIND_FIXED ? -(int)f->significand_bits : 1 - f->bias - (int)f->significand_bits;

	if (d->kind == DECODER_FLOAT || d->kind == DECODER_FNUZ || d->kind == DECODER_FIXED) {
		uint32_t bits = (uint32_t)(exponent + F32_BIAS) << F32_SIGNIFICAND_BITS;
		memcpy(&d->quantum, &bits, sizeof bits);
	}
}

ALWAYS_INLINE vu32 decode_float(const struct decoder *d, vu32 code)
{
	vu32 magnitude = code & d->magnitudes;
	unsigned up = F32_SIGNIFICAND_BITS - d->significand_bits;
	vu32 sign = (code & d->sign_code) << (32 - d->bits);
	vu32 normal = (magnitude << up) + d->rebias;
	vu32 subnormal = (vu32)(__builtin_convertvector((vs32)magnitude, vf32) * d->quantum);
	vu32 x = blend((vs32)magnitude < (int32_t)(1 << d->significand_bits), subnormal, normal);
	vs32 special = (vs32)magnitude > (int32_t)d->last_finite;

	if (__builtin_expect(any(special), 0)) {
		vs32 inf = (magnitude == d->last_finite + 1) & (vs32)splat(d->has_inf);
		vu32 nan = F32_NAN | ((magnitude << up) & (F32_HIDDEN - 1) & d->nan_payload);

		x = blend(special, blend(inf, splat(F32_INF), nan), x);
	}
	return x | sign;
}

/* kind is a constant where this is inlined. */
ALWAYS_INLINE vu32 decode_lanes(const struct decoder *d, enum decoder_kind kind, vu32 code)
{
	switch (kind) {
	case DECODER_TOP_BITS: {
		/* tf32 and f32 are already 32-bit words; tf32 has spare bits below. */
		vu32 x = d->storage_bytes == 2 ? code << 16 : code & (UINT32_MAX << (32 - d->bits));
		vs32 nan = (vs32)(x & ~F32_SIGN) > (int32_t)F32_INF;

		return x | ((vu32)nan & d->quiet);
	}
	case DECODER_FLOAT:
		return decode_float(d, code);
	case DECODER_FNUZ: /* whose magnitudes are finite */
		return blend(code == d->sign_code, splat(F32_NAN), decode_float(d, code));
	case DECODER_FIXED: {
		vs32 number = (vs32)(code ^ 0x80) - 0x80;

		return (vu32)(__builtin_convertvector(number, vf32) * d->quantum);
	}
	case DECODER_EXPONENT:
		break;
	}
	vu32 x = blend(code == 0, splat(F32_HIDDEN / 2), code << F32_SIGNIFICAND_BITS);
	return blend(code == MXFP_SCALE_NAN, splat(F32_NAN), x);
}

/* Loads codes i, i + 1, ... of an array into lanes. If fewer than LANES are left, n of them, the other lanes are 0. */
ALWAYS_INLINE vu32 load_codes(const struct decoder *d, const void *array, size_t i, size_t n)
{
	const uint8_t *at = (const uint8_t *)array + i * d->storage_bytes;
	uint8_t part[VECTOR_BYTES] = {0};

	if (n < LANES) {
		memcpy(part, at, n * d->storage_bytes);
		at = part;
	}
	return d->storage_bytes == 1 ? load_u8(at) : d->storage_bytes == 2 ? load_u16(at) : load(at);
}

ALWAYS_INLINE void decode_kind(const struct decoder *d, enum decoder_kind kind, const void *codes, size_t n,
                               uint32_t *x)
{
	size_t i = 0;

	for (; n - i >= LANES; i += LANES)
		store(x + i, decode_lanes(d, kind, load_codes(d, codes, i, LANES)));
	if (i == n)
		return;
	store(x + i, decode_lanes(d, kind, load_codes(d, codes, i, n - i)));
	memset(x + n, 0, (i + LANES - n) * sizeof x[0]);
}

/* Decodes n codes to binary32. x has room for n rounded up to LANES; the words from n on become 0. */
static NOINLINE void decode_array(const struct decoder *d, const void *codes, size_t n, uint32_t *x)
{
	switch (d->kind) {
	case DECODER_TOP_BITS:
		decode_kind(d, DECODER_TOP_BITS, codes, n, x);
		break;
	case DECODER_FLOAT:
		decode_kind(d, DECODER_FLOAT, codes, n, x);
		break;
	case DECODER_FNUZ:
		decode_kind(d, DECODER_FNUZ, codes, n, x);
		break;
	case DECODER_FIXED:
		decode_kind(d, DECODER_FIXED, codes, n, x);
		break;
	case DECODER_EXPONENT:
		decode_kind(d, DECODER_EXPONENT, codes, n, x);
		break;
	}
}

/* Decodes n codes of a FLOAT or FIXED format in place, one per word; n is a multiple of LANES. */
static inline void decode_words(const struct decoder *d, uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i += LANES) {
		vu32 code = load(words + i);

		store(words + i, d->kind == DECODER_FIXED ? decode_lanes(d, DECODER_FIXED, code)
		                                          : decode_lanes(d, DECODER_FLOAT, code));
	}
}

#endif
