/* SPDX-License-Identifier: MIT */
/*
 * Each operation computes its exact result, or one that differs only below the rounding position (a jammed bit), and
 * rounds it once with the f32 row of the format table.
 */
#include "f32.h"

#include "minifloat.h"

static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE, .overflow = MXFP_OVERFLOW_OVF};

static bool is_inf_times_zero(uint32_t a, uint32_t b)
{
	return (mxfp_f32_is_inf(a) && mxfp_f32_is_zero(b)) || (mxfp_f32_is_zero(a) && mxfp_f32_is_inf(b));
}

uint32_t mxfp_f32_round(struct mxfp_exact v)
{
	struct mxfp_counts counts = {0};

	return mxfp_minifloat_round(mxfp_format_get_info(MXFP_FORMAT_F32), v, &rne, 0, &counts);
}

/* Shifts a nonzero significand so that its top bit is bit 62. */
static void normalize(struct mxfp_exact *v)
{
	for (int step = 32; step > 0; step /= 2)
		if (v->significand >> (63 - step) == 0) {
			v->significand <<= step;
			v->exponent -= step;
		}
}

/* Shifts right by n and jams the discarded bits into bit 0. */
static uint64_t shift_right_jam(uint64_t a, int n)
{
	if (n > 63)
		return a != 0;
	return n == 0 ? a : a >> n | ((a & ((UINT64_C(1) << n) - 1)) != 0);
}

/*
 * Rounded sum of two nonzero exact values of at most 48 significant bits. With the top bit at bit 62, both have at least
 * 14 trailing zero bits, so an alignment shift of up to 14 is exact. Beyond 14, cancellation shortens the sum by at most
 * one bit, so a jammed bit 0 is far below the rounding position of 24 bits.
 */
static uint32_t add_exact(struct mxfp_exact a, struct mxfp_exact b)
{
	normalize(&a);
	normalize(&b);
	if (a.exponent < b.exponent || (a.exponent == b.exponent && a.significand < b.significand)) {
		struct mxfp_exact swap = a;
		a = b;
		b = swap;
	}
	b.significand = shift_right_jam(b.significand, a.exponent - b.exponent);
	if (a.negative == b.negative)
		a.significand += b.significand;
	else
		a.significand -= b.significand;
	return a.significand == 0 ? 0 : mxfp_f32_round(a);
}

static struct mxfp_exact multiply_exact(uint32_t a, uint32_t b)
{
	struct mxfp_exact x = mxfp_f32_unpack(a), y = mxfp_f32_unpack(b);

	x.negative ^= y.negative;
	x.exponent += y.exponent;
	x.significand *= y.significand;
	return x;
}

uint32_t mxfp_f32_add_exact(uint32_t a, struct mxfp_exact b)
{
	if (mxfp_f32_is_nan(a))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(a))
		return a;
	if (b.significand == 0)
		return mxfp_f32_is_zero(a) ? 0 : a;
	return mxfp_f32_is_zero(a) ? mxfp_f32_round(b) : add_exact(mxfp_f32_unpack(a), b);
}

uint32_t mxfp_f32_add(uint32_t a, uint32_t b)
{
	if (mxfp_f32_is_nan(a) || mxfp_f32_is_nan(b) || (mxfp_f32_is_inf(a) && mxfp_f32_is_inf(b) && a != b))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(a) || mxfp_f32_is_inf(b))
		return mxfp_f32_is_inf(a) ? a : b;
	if (mxfp_f32_is_zero(a) && mxfp_f32_is_zero(b))
		return a & b; /* -0 only if both are */
	if (mxfp_f32_is_zero(a) || mxfp_f32_is_zero(b))
		return mxfp_f32_is_zero(a) ? b : a;
	return add_exact(mxfp_f32_unpack(a), mxfp_f32_unpack(b));
}

uint32_t mxfp_f32_sub(uint32_t a, uint32_t b)
{
	return mxfp_f32_add(a, b ^ MXFP_F32_SIGN);
}

uint32_t mxfp_f32_mul(uint32_t a, uint32_t b)
{
	uint32_t sign = (a ^ b) & MXFP_F32_SIGN;

	if (mxfp_f32_is_nan(a) || mxfp_f32_is_nan(b) || is_inf_times_zero(a, b))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(a) || mxfp_f32_is_inf(b))
		return sign | MXFP_F32_INF;
	if (mxfp_f32_is_zero(a) || mxfp_f32_is_zero(b))
		return sign;
	return mxfp_f32_round(multiply_exact(a, b));
}

uint32_t mxfp_f32_div(uint32_t a, uint32_t b)
{
	uint32_t sign = (a ^ b) & MXFP_F32_SIGN;

	if (mxfp_f32_is_nan(a) || mxfp_f32_is_nan(b) || (mxfp_f32_is_inf(a) && mxfp_f32_is_inf(b)) ||
	    (mxfp_f32_is_zero(a) && mxfp_f32_is_zero(b)))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(a) || mxfp_f32_is_zero(b))
		return sign | MXFP_F32_INF;
	if (mxfp_f32_is_zero(a) || mxfp_f32_is_inf(b))
		return sign;
	/* 24 bits shifted by 38, divided by 24 bits: a quotient of at least 38 bits, and the remainder as a jammed bit. */
	struct mxfp_exact x = mxfp_f32_unpack(a), y = mxfp_f32_unpack(b);
	uint64_t dividend = x.significand << 38;
	x.negative ^= y.negative;
	x.exponent -= y.exponent + 38;
	x.significand = dividend / y.significand | (dividend % y.significand != 0);
	return mxfp_f32_round(x);
}

uint32_t mxfp_f32_fma(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t sign = (a ^ b) & MXFP_F32_SIGN;

	if (mxfp_f32_is_nan(a) || mxfp_f32_is_nan(b) || mxfp_f32_is_nan(c) || is_inf_times_zero(a, b))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(a) || mxfp_f32_is_inf(b))
		return mxfp_f32_is_inf(c) && c != (sign | MXFP_F32_INF) ? MXFP_F32_NAN : sign | MXFP_F32_INF;
	if (mxfp_f32_is_inf(c))
		return c;
	if (mxfp_f32_is_zero(a) || mxfp_f32_is_zero(b))
		return mxfp_f32_is_zero(c) ? sign & c : c;
	struct mxfp_exact product = multiply_exact(a, b);
	return mxfp_f32_is_zero(c) ? mxfp_f32_round(product) : add_exact(product, mxfp_f32_unpack(c));
}

uint32_t mxfp_f32_scale(uint32_t a, int exponent)
{
	if (mxfp_f32_is_nan(a))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(a) || mxfp_f32_is_zero(a))
		return a;
	struct mxfp_exact v = mxfp_f32_unpack(a);
	v.exponent += exponent;
	return mxfp_f32_round(v);
}

/* Maps bit patterns to integers with the same order. */
static int64_t order(uint32_t a)
{
	int64_t magnitude = a & ~MXFP_F32_SIGN;

	return a & MXFP_F32_SIGN ? -magnitude : magnitude;
}

int mxfp_f32_compare(uint32_t a, uint32_t b)
{
	return (order(a) > order(b)) - (order(a) < order(b));
}

uint32_t mxfp_f32_min(uint32_t a, uint32_t b)
{
	return mxfp_f32_compare(b, a) < 0 ? b : a;
}
