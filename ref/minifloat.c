/* SPDX-License-Identifier: MIT */
/*
 * One number in any element format.
 *
 * A finite code represents an integer n times a quantum 2^q. Below the smallest normal number q is fixed; above it q
 * grows with the exponent so that n has significand_bits + 1 bits. Rounding is then an integer division by a power of
 * two, n = floor(value / 2^q), and the remainder decides whether n is incremented. Codes of one sign have the same order
 * as their values, so n + 1 carries into the exponent field by itself, and overflow is detected by one comparison of
 * codes. In FIXED formats every number is below the smallest normal one.
 */
#include "minifloat.h"

/* binary32 (IEEE 754), the format of sources and of decoded values. */
enum { F32_SIGNIFICAND_BITS = 23, F32_BIAS = 127, F32_QUIET = 0x00400000 };

#define F32_HIDDEN (UINT32_C(1) << F32_SIGNIFICAND_BITS)

struct mxfp_exact mxfp_f32_unpack(uint32_t bits)
{
	uint32_t magnitude = bits & ~MXFP_F32_SIGN;
	uint32_t fraction = magnitude & (F32_HIDDEN - 1);
	int field = (int)(magnitude >> F32_SIGNIFICAND_BITS);
	struct mxfp_exact v = {bits != magnitude, field - F32_BIAS - F32_SIGNIFICAND_BITS, fraction | F32_HIDDEN};

	if (field == 0) {
		v.exponent = 1 - F32_BIAS - F32_SIGNIFICAND_BITS;
		for (v.significand = fraction; v.significand < F32_HIDDEN; v.significand <<= 1)
			v.exponent--;
	}
	return v;
}

/* A mask of the bits of a code without the sign bit. */
static uint32_t magnitude_mask(const struct mxfp_format_info *f)
{
	unsigned bits = f->kind == MXFP_KIND_EXPONENT ? f->bits : f->bits - 1;

	return (UINT32_C(1) << bits) - 1;
}

static uint32_t sign_bit(const struct mxfp_format_info *f)
{
	return f->kind == MXFP_KIND_FLOAT ? UINT32_C(1) << (f->bits - 1) : 0;
}

/* The top stored bit of the significand, which makes a NaN quiet. */
static uint32_t quiet_bit(const struct mxfp_format_info *f)
{
	return UINT32_C(1) << (f->significand_bits - 1);
}

static uint32_t inf_code(const struct mxfp_format_info *f)
{
	return f->max_code + 1;
}

/* Formats wider than a byte keep a NaN's payload and never saturate. */
static bool is_wide(const struct mxfp_format_info *f)
{
	return f->bits > 8;
}

/* The bits of the binary32 significand * 2^exponent, where significand < 2^24 and the result is exact and does not
   overflow. */
static uint32_t f32_pack(uint32_t significand, int exponent)
{
	if (significand == 0)
		return 0;
	while (significand < F32_HIDDEN && exponent > 1 - F32_BIAS - F32_SIGNIFICAND_BITS) {
		significand <<= 1;
		exponent--;
	}
	/* 2^-127 and smaller powers must be shifted right to the subnormal quantum. */
	while (exponent < 1 - F32_BIAS - F32_SIGNIFICAND_BITS) {
		significand >>= 1;
		exponent++;
	}
	if (significand < F32_HIDDEN)
		return significand;
	uint32_t field = (uint32_t)(exponent + F32_BIAS + F32_SIGNIFICAND_BITS);

	return field << F32_SIGNIFICAND_BITS | (significand - F32_HIDDEN);
}

/* Whether zero has a sign. */
static bool has_signed_zero(const struct mxfp_format_info *f)
{
	return f->kind == MXFP_KIND_FLOAT && f->special != MXFP_SPECIAL_FNUZ;
}

static uint32_t decode_magnitude(const struct mxfp_format_info *f, uint32_t magnitude)
{
	uint32_t hidden = UINT32_C(1) << f->significand_bits;
	uint32_t field = magnitude >> f->significand_bits, fraction = magnitude & (hidden - 1);

	if (f->special == MXFP_SPECIAL_IEEE && magnitude > f->max_code) {
		if (magnitude == inf_code(f))
			return MXFP_F32_INF;
		return is_wide(f) ? MXFP_F32_NAN | fraction << (F32_SIGNIFICAND_BITS - f->significand_bits) : MXFP_F32_NAN;
	}
	if (f->special == MXFP_SPECIAL_NAN && magnitude > f->max_code)
		return MXFP_F32_NAN;
	if (f->kind == MXFP_KIND_FIXED)
		return f32_pack(magnitude, -(int)f->significand_bits);
	if (f->kind == MXFP_KIND_EXPONENT)
		return f32_pack(F32_HIDDEN, (int)magnitude - f->bias - F32_SIGNIFICAND_BITS);
	if (field == 0)
		return f32_pack(fraction, 1 - f->bias - (int)f->significand_bits);
	return f32_pack(hidden | fraction, (int)field - f->bias - (int)f->significand_bits);
}

uint32_t mxfp_minifloat_decode(const struct mxfp_format_info *f, uint32_t code)
{
	if (f->kind == MXFP_KIND_FIXED) {
		uint32_t sign = code & (UINT32_C(1) << (f->bits - 1));
		uint32_t low = code & magnitude_mask(f);
		uint32_t magnitude = sign ? sign - low : low; /* two's complement; the magnitude of -128 is 128 */

		return decode_magnitude(f, magnitude) | (sign ? MXFP_F32_SIGN : 0);
	}
	if (f->special == MXFP_SPECIAL_FNUZ && (code & sign_bit(f)) != 0 && (code & magnitude_mask(f)) == 0)
		return MXFP_F32_NAN;
	return decode_magnitude(f, code & magnitude_mask(f)) | (code & sign_bit(f) ? MXFP_F32_SIGN : 0);
}

/* Whether n = floor(value / 2^q) must be incremented. remainder / 2^shift is the discarded fraction, in [0, 1). */
static bool rounds_up(enum mxfp_round mode, bool negative, bool odd, uint64_t remainder, unsigned shift,
                      uint32_t random)
{
	uint64_t half = shift == 0 ? 0 : shift <= 63 ? UINT64_C(1) << (shift - 1) : UINT64_MAX;

	if (remainder == 0)
		return false;
	switch (mode) {
	case MXFP_ROUND_RNE:
		return remainder > half || (remainder == half && odd);
	case MXFP_ROUND_RNA:
		return remainder >= half;
	case MXFP_ROUND_RHZ:
		return remainder > half;
	case MXFP_ROUND_RTZ:
		return false;
	case MXFP_ROUND_RTP:
		return !negative;
	case MXFP_ROUND_RTN:
		return negative;
	case MXFP_ROUND_SR:
		/* random < remainder / 2^shift * 2^32, exactly. The remainder of a binary32 has at most 24 bits, so
		   with a shift of more than 56 only random = 0 satisfies this. */
		if (shift > 56)
			return random == 0;
		return (uint64_t)random << (shift > 32 ? shift - 32 : 0) < remainder << (shift < 32 ? 32 - shift : 0);
	}
	return false;
}

/* floor(log2) of a nonzero significand: 23 for an unpacked binary32, else by binary search. */
static int top_bit(uint64_t significand)
{
	int top = 0;

	if (significand >> F32_SIGNIFICAND_BITS == 1)
		return F32_SIGNIFICAND_BITS;
	for (int step = 32; step > 0; step /= 2)
		if (significand >> step != 0) {
			significand >>= step;
			top += step;
		}
	return top;
}

/* The rounded code in an exponent format, where the gap below 2^(k+1) is 2^k and ties round up in magnitude under
   rne. It may exceed the largest code. */
static int64_t round_exponent(const struct mxfp_format_info *f, struct mxfp_exact v, const struct mxfp_rounding *r,
                              uint32_t random)
{
	int top = top_bit(v.significand);
	uint64_t fraction = v.significand - (UINT64_C(1) << top);
	int64_t code = (int64_t)v.exponent + top + f->bias;

	if (code < 0)
		return 0; /* below 2^-127, whatever the mode */
	return code + rounds_up(r->mode, false, true, fraction, (unsigned)top, random);
}

/* The rounded code of the magnitude, which may exceed the largest code. */
static int64_t round_magnitude(const struct mxfp_format_info *f, struct mxfp_exact v, const struct mxfp_rounding *r,
                               uint32_t random)
{
	int top = top_bit(v.significand) + v.exponent;
	int emin = 1 - f->bias, field = 0;
	int quantum = emin - (int)f->significand_bits;

	if (f->kind == MXFP_KIND_FIXED) {
		quantum = -(int)f->significand_bits;
	} else if (top > emin) {
		field = top - emin; /* one less than the exponent field; the hidden bit adds one */
		quantum += field;
	}
	int shift = quantum - v.exponent;
	if (f->kind == MXFP_KIND_FIXED && top >= (int)f->bits)
		return (int64_t)f->max_code + 1; /* far beyond the largest: n below would overflow */
	if (shift > 63) /* far below half of the smallest number: only the remainder is nonzero */
		return rounds_up(r->mode, v.negative, false, v.significand, (unsigned)shift, random);
	uint64_t n = shift <= 0 ? v.significand << -shift : v.significand >> shift;
	uint64_t remainder = shift <= 0 ? 0 : v.significand & ((UINT64_C(1) << shift) - 1);
	if (rounds_up(r->mode, v.negative, n & 1, remainder, shift <= 0 ? 0 : (unsigned)shift, random))
		n++;
	return ((int64_t)field << f->significand_bits) + (int64_t)n;
}

static uint32_t with_sign(const struct mxfp_format_info *f, uint32_t magnitude, bool negative)
{
	if (!negative)
		return magnitude;
	if (f->kind == MXFP_KIND_FIXED)
		return (UINT32_C(1) << f->bits) - magnitude;
	return magnitude | sign_bit(f);
}

static uint32_t zero_code(const struct mxfp_format_info *f, bool negative, const struct mxfp_rounding *r)
{
	return negative && has_signed_zero(f) && !r->no_negative_zero ? sign_bit(f) : 0;
}

/* Whether overflow gives Inf or NaN instead of the largest value. */
static bool overflows(const struct mxfp_format_info *f, const struct mxfp_rounding *r)
{
	return f->special != MXFP_SPECIAL_NONE && (is_wide(f) || r->overflow == MXFP_OVERFLOW_OVF);
}

/* Whether the mode never rounds a finite value of this sign away from zero. */
static bool toward_zero(enum mxfp_round mode, bool negative)
{
	return mode == MXFP_ROUND_RTZ || (mode == MXFP_ROUND_RTP && negative) || (mode == MXFP_ROUND_RTN && !negative);
}

/* Inf if the format has one, else NaN: both are the code after that of the largest value, which under FNUZ is the sign bit. */
static uint32_t overflow_code(const struct mxfp_format_info *f, bool negative)
{
	return with_sign(f, f->max_code + 1, negative);
}

static uint32_t encode_nan(const struct mxfp_format_info *f, uint32_t x)
{
	bool negative = (x & MXFP_F32_SIGN) != 0;
	uint32_t fraction = x & (F32_HIDDEN - 1);

	switch (f->special) {
	case MXFP_SPECIAL_IEEE:
		if (!is_wide(f))
			return with_sign(f, inf_code(f) | quiet_bit(f), negative);
		return with_sign(f, inf_code(f) | quiet_bit(f) | fraction >> (F32_SIGNIFICAND_BITS - f->significand_bits),
		                 negative);
	case MXFP_SPECIAL_NAN:
		return magnitude_mask(f) | (negative ? sign_bit(f) : 0);
	case MXFP_SPECIAL_FNUZ:
		return sign_bit(f);
	case MXFP_SPECIAL_NONE:
		break;
	}
	return f->max_code; /* positive whatever the sign of the NaN, as in PTX */
}

/* Formats without a sign have no code for a negative number. */
static bool is_unsigned(const struct mxfp_format_info *f)
{
	return f->kind == MXFP_KIND_UFLOAT || f->kind == MXFP_KIND_EXPONENT;
}

uint32_t mxfp_minifloat_round(const struct mxfp_format_info *f, struct mxfp_exact v, const struct mxfp_rounding *r,
                              uint32_t random, struct mxfp_counts *counts)
{
	if (v.negative && is_unsigned(f)) {
		counts->overflowed++;
		return magnitude_mask(f); /* NaN */
	}
	bool exponent_only = f->kind == MXFP_KIND_EXPONENT;
	int64_t code = exponent_only ? round_exponent(f, v, r, random) : round_magnitude(f, v, r, random);
	if (code > (int64_t)f->max_code) {
		if (overflows(f, r) && !toward_zero(r->mode, v.negative)) {
			counts->overflowed++;
			return overflow_code(f, v.negative);
		}
		counts->saturated++;
		return with_sign(f, f->max_code, v.negative);
	}
	if (code == 0 && !exponent_only) {
		counts->flushed++;
		return zero_code(f, v.negative, r);
	}
	return with_sign(f, (uint32_t)code, v.negative);
}

uint32_t mxfp_minifloat_encode(const struct mxfp_format_info *f, uint32_t x, int shift, const struct mxfp_rounding *r,
                               uint32_t random, struct mxfp_counts *counts)
{
	uint32_t magnitude = x & ~MXFP_F32_SIGN;
	bool negative = x != magnitude;

	if (magnitude > MXFP_F32_INF) {
		counts->nan++;
		return encode_nan(f, x);
	}
	if (magnitude == MXFP_F32_INF) {
		counts->inf++;
		if (negative && is_unsigned(f))
			return magnitude_mask(f); /* NaN */
		if (overflows(f, r))
			return overflow_code(f, negative);
		counts->saturated++;
		return with_sign(f, f->max_code, negative);
	}
	if (magnitude == 0)
		return zero_code(f, negative, r);
	struct mxfp_exact v = mxfp_f32_unpack(x);
	v.exponent -= shift;
	return mxfp_minifloat_round(f, v, r, random, counts);
}
