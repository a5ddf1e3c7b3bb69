/* SPDX-License-Identifier: MIT */
/* The oracle's rounding; its tables and decoding are in oracle.c. */
#include "oracle/oracle.h"

#include <assert.h>

enum { PRECISION = 64 };

static bool is_signed(const struct mxfp_format_info *f)
{
	return f->kind == MXFP_KIND_FLOAT || f->kind == MXFP_KIND_FIXED;
}

int oracle_has_overflow_modes(const struct mxfp_format_info *f)
{
	return f->bits <= 8 && f->special != MXFP_SPECIAL_NONE;
}

static bool overflows(const struct mxfp_format_info *f, enum mxfp_overflow overflow)
{
	return f->bits > 8 || (overflow == MXFP_OVERFLOW_OVF && f->special != MXFP_SPECIAL_NONE);
}

/* Puts the sign to a magnitude's code, and the code where its format stores it. */
static uint32_t with_sign(const struct mxfp_format_info *f, bool negative, uint32_t magnitude)
{
	if (f->kind == MXFP_KIND_FIXED)
		return (negative ? -magnitude : magnitude) & 0xFF;
	if (negative && f->kind == MXFP_KIND_FLOAT)
		magnitude |= UINT32_C(1) << (f->bits - 1);
	return f->format == MXFP_FORMAT_TF32 ? magnitude << (32 - f->bits) : magnitude;
}

static uint32_t zero_code(const struct mxfp_format_info *f, bool negative, bool no_negative_zero)
{
	return with_sign(f, negative && !no_negative_zero && f->kind == MXFP_KIND_FLOAT && f->special != MXFP_SPECIAL_FNUZ, 0);
}

static uint32_t infinity_magnitude(const struct mxfp_format_info *f)
{
	return ((UINT32_C(1) << f->exponent_bits) - 1) << f->significand_bits;
}

/* The canonical NaN: Inf's code with the quiet bit, all magnitude bits, or the sign bit; a format without one has its
   largest value. */
static uint32_t nan_magnitude(const struct mxfp_format_info *f)
{
	if (f->special == MXFP_SPECIAL_IEEE)
		return infinity_magnitude(f) | UINT32_C(1) << (f->significand_bits - 1);
	if (f->special == MXFP_SPECIAL_NAN)
		return infinity_magnitude(f) | ((UINT32_C(1) << f->significand_bits) - 1);
	if (f->special == MXFP_SPECIAL_FNUZ)
		return 0x80;
	return f->max_code;
}

static uint32_t encode_nan(const struct mxfp_format_info *f, uint32_t x)
{
	uint32_t payload = f->bits > 8 ? (x & UINT32_C(0x7FFFFF)) >> (23 - f->significand_bits) : 0;

	/* "+max (PTX's rule)": no sign where there is no NaN. */
	return with_sign(f, (x & F32_SIGN) != 0 && f->special != MXFP_SPECIAL_NONE, nan_magnitude(f) | payload);
}

/* What has no representable magnitude: Inf or NaN where the mode has it so, else the largest value. */
static uint32_t past_largest(const struct mxfp_format_info *f, bool negative, bool overflow,
                             struct mxfp_counts *counts)
{
	if (!overflow) {
		counts->saturated++;
		return with_sign(f, negative, f->max_code);
	}
	return with_sign(f, negative,
	                 f->special == MXFP_SPECIAL_IEEE ? infinity_magnitude(f) : nan_magnitude(f));
}

/* Whether the mode can give a magnitude larger than |x|. */
static bool may_round_away(enum mxfp_round mode, bool negative)
{
	return !(mode == MXFP_ROUND_RTZ || (mode == MXFP_ROUND_RTP && negative) ||
	         (mode == MXFP_ROUND_RTN && !negative));
}

/* The largest c with magnitude[c] <= |x|. */
static uint32_t search(const struct oracle *o, mpfr_srcptr x)
{
	uint32_t low = 0, high = o->n + 1;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (mpfr_cmpabs(o->magnitude[middle], x) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Nearest: by `half`, the sign of fraction - 1/2. */
static bool nearest_is_above(const struct oracle *o, uint32_t below, enum mxfp_round mode, int half)
{
	if (half != 0)
		return half > 0;
	if (mode == MXFP_ROUND_RNE) /* powers of two, having no significand, send the tie up */
		return o->format->kind == MXFP_KIND_EXPONENT || below % 2 != 0;
	return mode == MXFP_ROUND_RNA;
}

/* Whether |x|, which lies at or above magnitude[below] and below the next, goes to the next. */
static bool goes_up(const struct oracle *o, mpfr_srcptr x, uint32_t below, enum mxfp_round mode, uint32_t random)
{
	MPFR_DECL_INIT(fraction, PRECISION);
	MPFR_DECL_INIT(gap, PRECISION);
	bool up;

	if (mpfr_cmpabs(x, o->magnitude[below]) == 0)
		return false;
	int inexact = mpfr_abs(fraction, x, MPFR_RNDN);
	inexact |= mpfr_sub(fraction, fraction, o->magnitude[below], MPFR_RNDN);
	inexact |= mpfr_sub(gap, o->magnitude[below + 1], o->magnitude[below], MPFR_RNDN);
	inexact |= mpfr_div(fraction, fraction, gap, MPFR_RNDN);
	assert(inexact == 0);
	(void)inexact;
	if (mode == MXFP_ROUND_SR) {
		mpfr_mul_2ui(fraction, fraction, 32, MPFR_RNDN);
		up = mpfr_cmp_ui(fraction, random) > 0;
	} else if (mode == MXFP_ROUND_RNE || mode == MXFP_ROUND_RNA || mode == MXFP_ROUND_RHZ) {
		up = nearest_is_above(o, below, mode, mpfr_cmp_d(fraction, 0.5));
	} else {
		up = may_round_away(mode, mpfr_signbit(x));
	}
	return up;
}

uint32_t oracle_round(const struct oracle *o, mpfr_srcptr x, const struct mxfp_rounding *r, uint32_t random,
                      struct mxfp_counts *counts)
{
	const struct mxfp_format_info *f = o->format;
	bool negative = mpfr_signbit(x);

	if (mpfr_zero_p(x))
		return zero_code(f, negative, r->no_negative_zero);
	counts->inf += mpfr_inf_p(x) != 0;
	if (negative && !is_signed(f)) {
		counts->overflowed += mpfr_number_p(x) != 0;
		return nan_magnitude(f);
	}
	if (mpfr_inf_p(x))
		return past_largest(f, negative, overflows(f, r->overflow), counts);
	if (mpfr_cmpabs(x, o->magnitude[0]) < 0) /* only where the least magnitude is not zero */
		return 0;
	uint32_t code = search(o, x);
	if (code < o->n)
		code += goes_up(o, x, code, r->mode, random);
	if (code < o->n) {
		if (code == 0 && mpfr_zero_p(o->magnitude[0])) {
			counts->flushed++;
			return zero_code(f, negative, r->no_negative_zero);
		}
		return with_sign(f, negative, code);
	}
	bool overflow = overflows(f, r->overflow) && may_round_away(r->mode, negative);
	counts->overflowed += overflow;
	return past_largest(f, negative, overflow, counts);
}

uint32_t oracle_encode(const struct oracle *o, uint32_t x, int shift, const struct mxfp_rounding *r,
                       uint32_t random, struct mxfp_counts *counts)
{
	uint32_t magnitude = x & ~F32_SIGN;
	MPFR_DECL_INIT(value, PRECISION);

	if (magnitude > F32_INF) {
		counts->nan++;
		return o->format->format == MXFP_FORMAT_F32 ? x | UINT32_C(0x400000) : encode_nan(o->format, x);
	}
	if (o->format->format == MXFP_FORMAT_F32) {
		assert(shift == 0);
		counts->inf += magnitude == F32_INF;
		return x == F32_SIGN && r->no_negative_zero ? 0 : x;
	}
	oracle_set_f32(value, x);
	mpfr_mul_2si(value, value, -shift, MPFR_RNDN);
	return oracle_round(o, value, r, random, counts);
}
