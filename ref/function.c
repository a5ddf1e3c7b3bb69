/* SPDX-License-Identifier: MIT */
/*
 * Functions of one number, correctly rounded: doc/numerics.md, section 8.
 *
 * A function is computed in fixed point with an error bound; if both ends of the interval that the bound leaves round to the
 * same binary32, that is the result, else it is computed again with twice the limbs. Exact results are known beforehand; e^t and
 * what is made of it are transcendental for rational t other than 0 (Lindemann), so never a tie, and make check-exhaustive shows
 * that this ends at every argument. Arguments at which the value is a binary32, or the middle of two, times 1 + d are settled
 * before: |d| < 2^-25 cannot reach the next middle, which is 2^-25 of the value away at least.
 *
 * Bounds of errors are in units, 2^-64n for n limbs of fraction, and generous by a factor of 4 or more.
 */
#include "f32.h"
#include "kernels.h"
#include "wide.h"

#define F32_ONE UINT32_C(0x3F800000)
#define F32_HALF UINT32_C(0x3F000000)

/* Bits of integers that bound the ranges of arguments. */
#define F32_6 UINT32_C(0x40C00000)
#define F32_11 UINT32_C(0x41300000)
#define F32_15 UINT32_C(0x41700000)
#define F32_16 UINT32_C(0x41800000)
#define F32_18 UINT32_C(0x41900000)
#define F32_20 UINT32_C(0x41A00000)
#define F32_89 UINT32_C(0x42B20000)
#define F32_100 UINT32_C(0x42C80000)
#define F32_104 UINT32_C(0x42D00000)
#define F32_128 UINT32_C(0x43000000)
#define F32_151 UINT32_C(0x43170000)

enum {
	FIRST_LIMBS = 1, /* and then 2, 4 and 8 */
	ERROR_BITS = 26  /* the bound where nothing else is said: 2^26 units */
};

/* Constants, truncated: 2/pi with two limbs of zeros before it. */
static const struct wide ln2 = {{0, 0xB17217F7D1CF79AB, 0xC9E3B39803F2F6AF, 0x40F343267298B62D, 0x8A0D175B8BAAFA2B,
                                 0xE7B876206DEBAC98, 0x559552FB4AFA1B10, 0xED2EAE35C1382144, 0x27573B291169B825}};
static const struct wide half_pi = {{1, 0x921FB54442D18469, 0x898CC51701B839A2, 0x52049C1114CF98E8, 0x04177D4C76273644,
                                     0xA29410F31C6809BB, 0xDF2A33679A748636, 0x605614DBE4BE286E, 0x9FC26ADADAA3848B}};
static const struct wide sqrt_2_pi = {{0, 0xCC42299EA1B28468, 0x7E59E2805D5C717F, 0xA7053E60A24E0DB1,
                                       0x808E369004C73A5D, 0x3BF158AA88FA7B6E, 0x47EBA75766E9D11B, 0xD6284EF2E17C2A26,
                                       0x4F1D32688BE119FF}};
static const uint64_t two_pi[] = {0, 0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
                                  0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
                                  0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F};

/* The binary64 constants of selu and gelu-tanh: significands of 53 bits. */
#define SELU_SCALE UINT64_C(0x10CFABD6A91132) /* times 2^-52: 1.0507009873554805 */
#define SELU_ALPHA UINT64_C(0x1AC5AFAD782CF1) /* times 2^-52: 1.6732632423543772 */
#define GELU_CUBIC UINT64_C(0x16E4E26D4801F7) /* times 2^-57: 0.044715 */

/* (-1)^negative * w * 2^exponent, where w is off by less than 2^error units; error < 0: exact. */
struct number {
	bool negative;
	int exponent, error;
	struct wide w;
};

typedef void evaluation(struct number *r, uint32_t x, uint32_t parameter, int n);

static bool is_below(uint32_t x, int exponent)
{
	return (x & ~MXFP_F32_SIGN) < (uint32_t)(exponent + 127) << 23;
}

static uint32_t magnitude(uint32_t x)
{
	return x & ~MXFP_F32_SIGN;
}

static bool is_negative(uint32_t x)
{
	return (x & MXFP_F32_SIGN) != 0;
}

/* Rounds s * 2^exponent (1 + d), s of 24 to 48 bits, with d nonzero, of the sign of `direction`, and too small to change
   anything but a tie or the side of s. */
static uint32_t nudged(bool negative, uint64_t s, int exponent, int direction)
{
	return mxfp_f32_round((struct mxfp_exact){negative, exponent - 8, direction > 0 ? (s << 8) + 1 : (s << 8) - 1});
}

/* x/2 (1 + d), likewise. */
static uint32_t half_nudged(uint32_t x, int direction)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);

	return nudged(v.negative, v.significand, v.exponent - 1, direction);
}

static uint32_t round_wide(const struct number *r, const struct wide *w, int n)
{
	int exponent;
	uint64_t top = mxfp_wide_top(w, n, &exponent);

	return mxfp_f32_round((struct mxfp_exact){r->negative, r->exponent + exponent, top});
}

/* Rounds both ends of the interval around r->w; whether they agree. */
static bool is_settled(const struct number *r, int n, uint32_t *bits)
{
	struct wide error, low, high;

	if (r->error < 0) {
		*bits = round_wide(r, &r->w, n);
		return true;
	}
	if (r->error - 64 * n >= 63)
		return false;
	mxfp_wide_set(&error, 1, r->error - 64 * n, n);
	if (!mxfp_wide_less(&error, &r->w, n))
		return false;
	mxfp_wide_sub(&low, &r->w, &error, n);
	mxfp_wide_add(&high, &r->w, &error, n);
	*bits = round_wide(r, &low, n);
	return *bits == round_wide(r, &high, n);
}

/* What even 8 limbs leave open is taken to be the number of 50 bits within the error. No function of one number comes to
   this at any of the 2^32 arguments; powers do where they are exact. */
static uint32_t nearest_short(const struct number *r, int n)
{
	int exponent;
	uint64_t top = mxfp_wide_top(&r->w, n, &exponent);

	return mxfp_f32_round((struct mxfp_exact){r->negative, r->exponent + exponent + 12, (top + (1 << 11)) >> 12});
}

static uint32_t rounded(evaluation *evaluate, uint32_t x, uint32_t parameter)
{
	struct number r;
	uint32_t bits;

	for (int n = FIRST_LIMBS; n <= WIDE_MAX; n *= 2) {
		r = (struct number){.error = ERROR_BITS};
		evaluate(&r, x, parameter, n);
		if (is_settled(&r, n, &bits))
			return bits;
	}
	return nearest_short(&r, WIDE_MAX);
}

static void set_one(struct wide *r, int n)
{
	mxfp_wide_set(r, 1, 0, n);
}

/* |x| 2^exponent, x finite and not zero. */
static void set_magnitude(struct wide *r, uint32_t x, int exponent, int n)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);

	mxfp_wide_set(r, v.significand, v.exponent + exponent, n);
}

/* |x| = r * 2^*exponent with 1 <= r < 2, exactly. */
static void set_significand(struct wide *r, int *exponent, uint32_t x, int n)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);

	*exponent = v.exponent + 23;
	mxfp_wide_set(r, v.significand, -23, n);
}

/*
 * e^r for 0 <= r < 0.7, by the series of e^(r / 256) and 8 squarings. The series ends where a term is less than a unit: the
 * terms fall by 2^-8 or more, so what is left out is less than a unit. Each of at most 64 terms is off by 17 units more than
 * 2^-8 of what the one before was: the sum by less than 2^11. A squaring doubles the relative error and adds 16 units:
 * 2^19 in all, and 2^20 with the factor e^r.
 */
static void exp_reduced(struct wide *v, const struct wide *r, int n)
{
	struct wide x, term;

	mxfp_wide_shift_right(&x, r, 8, n);
	set_one(v, n);
	term = x;
	for (uint32_t i = 2; !mxfp_wide_is_zero(&term, n); i++) {
		mxfp_wide_add(v, v, &term, n);
		mxfp_wide_mul(&term, &term, &x, n);
		mxfp_wide_div_small(&term, &term, i, n);
	}
	for (int i = 0; i < 8; i++)
		mxfp_wide_mul(v, v, v, n);
}

/*
 * e^y or e^-y = v * 2^k with 1 <= v < 2.1, for 0 <= y < 2^10; returns k. An error of y is one of v, twice as large at most, to
 * which come 2^20 units and k units of k ln 2. The quotient y / ln 2 is estimated by 20 bits of y and of 1 / ln 2 = 1512775.39 2^-20: from
 * below for e^y, by less than 2^-9, and from above for e^-y, so that what is left is never negative, and less than 0.7.
 */
static int exp_wide(struct wide *v, const struct wide *y, bool negative, int n)
{
	uint64_t top = y->limb[0] << 20 | y->limb[1] >> 44;
	uint64_t k = negative ? ((top + 1) * 1512776 >> 40) + 1 : top * 1512775 >> 40;
	struct wide r;

	mxfp_wide_mul_small(&r, &ln2, k, n);
	if (negative)
		mxfp_wide_sub(&r, &r, y, n);
	else
		mxfp_wide_sub(&r, y, &r, n);
	exp_reduced(v, &r, n);
	return negative ? -(int)k : (int)k;
}

/* The sum of s2^j / (2j + 1), which is atanh(s) / s for s2 = s^2 <= 1/9: less than 2^12 units off, as fewer than 170 terms
   of 17 units are summed. */
static void atanh_ratio(struct wide *sum, const struct wide *s2, int n)
{
	const struct wide square = *s2;
	struct wide power = square, term;

	set_one(sum, n);
	for (uint32_t i = 3; !mxfp_wide_is_zero(&power, n); i += 2) {
		mxfp_wide_div_small(&term, &power, i, n);
		mxfp_wide_add(sum, sum, &term, n);
		mxfp_wide_mul(&power, &power, &square, n);
	}
}

/* log |x| with its sign, less than 2^14 units off: |x| = 2^k m with 2/3 < m < 4/3, and log m = 2 atanh(s), s = (m - 1) / (m + 1). */
static void log_wide(struct number *r, uint32_t x, int n)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);
	int k = v.exponent + 23;
	uint32_t m = (uint32_t)v.significand, one = UINT32_C(1) << 23;
	struct wide s, ratio, whole;

	if (3 * m > 4 * one) {
		k++;
		one *= 2;
	}
	mxfp_wide_set(&s, m > one ? m - one : one - m, 0, n);
	mxfp_wide_div_small(&s, &s, m + one, n);
	mxfp_wide_mul(&ratio, &s, &s, n);
	atanh_ratio(&ratio, &ratio, n);
	mxfp_wide_mul(&s, &s, &ratio, n);
	mxfp_wide_shift_left(&s, &s, 1, n);
	mxfp_wide_mul_small(&whole, &ln2, (uint64_t)(k < 0 ? -k : k), n);
	r->negative = k != 0 ? k < 0 : m < one;
	if (k == 0 || (k < 0) == (m < one))
		mxfp_wide_add(&r->w, &whole, &s, n);
	else
		mxfp_wide_sub(&r->w, &whole, &s, n); /* |k| ln 2 > 0.69 > log 4/3 */
}

/* 1 / (1 + e^-y), or 1 / (1 + e^y) if `negative`, as v * 2^k with 1/2 <= v < 2.1; returns k. 2^23 units, and twice the error of y. */
static int sigmoid_wide(struct wide *v, const struct wide *y, bool negative, int n)
{
	struct wide e, sum, one;
	int k = exp_wide(&e, y, true, n);

	set_one(&one, n);
	mxfp_wide_shift_right(&sum, &e, -k, n);
	mxfp_wide_add(&sum, &sum, &one, n);
	mxfp_wide_reciprocal(v, &sum, n);
	if (!negative)
		return 0;
	mxfp_wide_mul(v, v, &e, n);
	return k;
}

/* x times that. */
static void times_sigmoid(struct number *r, uint32_t x, const struct wide *y, bool negative, int n)
{
	struct wide s;

	set_significand(&s, &r->exponent, x, n);
	r->exponent += sigmoid_wide(&r->w, y, negative, n);
	mxfp_wide_mul(&r->w, &r->w, &s, n);
	r->negative = is_negative(x);
}

static void evaluate_exp(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct wide y;

	(void)parameter;
	set_magnitude(&y, x, 0, n);
	r->exponent = exp_wide(&r->w, &y, is_negative(x), n);
}

/* e^89 > 2^128, e^-104 < 2^-150. */
static uint32_t function_exp(uint32_t x)
{
	if (is_below(x, -26))
		return F32_ONE;
	if (magnitude(x) >= (is_negative(x) ? F32_104 : F32_89))
		return is_negative(x) ? 0 : MXFP_F32_INF;
	return rounded(evaluate_exp, x, 0);
}

/* 2^x = 2^k e^(f ln 2), k the integer below x. */
static void evaluate_exp2(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct wide f, one;
	int k;

	(void)parameter;
	set_one(&one, n);
	set_magnitude(&f, x, 0, n);
	k = (int)f.limb[0];
	f.limb[0] = 0;
	if (mxfp_wide_is_zero(&f, n)) {
		*r = (struct number){.exponent = is_negative(x) ? -k : k, .error = -1, .w = one};
		return;
	}
	if (is_negative(x)) {
		mxfp_wide_sub(&f, &one, &f, n);
		k = -k - 1;
	}
	mxfp_wide_mul(&f, &f, &ln2, n);
	exp_reduced(&r->w, &f, n);
	r->exponent = k;
}

static uint32_t function_exp2(uint32_t x)
{
	if (is_below(x, -26))
		return F32_ONE;
	if (magnitude(x) >= (is_negative(x) ? F32_151 : F32_128))
		return is_negative(x) ? 0 : MXFP_F32_INF;
	return rounded(evaluate_exp2, x, 0);
}

static void evaluate_log(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	(void)parameter;
	log_wide(r, x, n);
}

static uint32_t function_log(uint32_t x)
{
	if (mxfp_f32_is_zero(x))
		return MXFP_F32_SIGN | MXFP_F32_INF;
	if (is_negative(x))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(x))
		return MXFP_F32_INF;
	return x == F32_ONE ? 0 : rounded(evaluate_log, x, 0);
}

/* (1 - e) / (1 + e), e = e^-2|x|. */
static void evaluate_tanh(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct wide y, e, one;
	int k;

	(void)parameter;
	set_one(&one, n);
	set_magnitude(&y, x, 1, n);
	k = exp_wide(&e, &y, true, n);
	mxfp_wide_shift_right(&e, &e, -k, n);
	mxfp_wide_add(&y, &one, &e, n);
	mxfp_wide_reciprocal(&y, &y, n);
	mxfp_wide_sub(&r->w, &one, &e, n);
	mxfp_wide_mul(&r->w, &r->w, &y, n);
	r->negative = is_negative(x);
}

/* x (1 - d) with d < x^2 / 3 < 2^-27; 1 - d with d < 2 e^-32. */
static uint32_t function_tanh(uint32_t x)
{
	if (is_below(x, -13))
		return x;
	if (magnitude(x) >= F32_16)
		return F32_ONE | (x & MXFP_F32_SIGN);
	return rounded(evaluate_tanh, x, 0);
}

static void evaluate_sigmoid(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct wide y;

	(void)parameter;
	set_magnitude(&y, x, 0, n);
	r->exponent = sigmoid_wide(&r->w, &y, is_negative(x), n);
}

/* 1/2 + d with |d| < 2^-28; 1 - d with d < e^-18 < 2^-25; less than e^-104. */
static uint32_t function_sigmoid(uint32_t x)
{
	if (is_below(x, -26))
		return F32_HALF;
	if (magnitude(x) >= (is_negative(x) ? F32_104 : F32_18))
		return is_negative(x) ? 0 : F32_ONE;
	return rounded(evaluate_sigmoid, x, 0);
}

/* The exact product of two numbers that are not zero. */
static struct mxfp_exact multiply(uint32_t a, uint32_t b)
{
	struct mxfp_exact x = mxfp_f32_unpack(a), y = mxfp_f32_unpack(b);

	return (struct mxfp_exact){x.negative != y.negative, x.exponent + y.exponent, x.significand * y.significand};
}

static void evaluate_silu(struct number *r, uint32_t x, uint32_t beta, int n)
{
	struct mxfp_exact t = multiply(x, beta);
	struct wide y;

	mxfp_wide_set(&y, t.significand, t.exponent, n);
	times_sigmoid(r, x, &y, t.negative, n);
}

/* With t = beta x, 2^46 2^t.exponent <= |t| < 2^48 2^t.exponent: x (1/2 + t/4 - ...); x (1 - d) with d < e^-18 < 2^-25;
   less than 2^128 e^-256 < 2^-150. */
static uint32_t function_silu(uint32_t x, uint32_t beta)
{
	struct mxfp_exact t;
	uint64_t floor = 0;

	if (mxfp_f32_is_zero(x))
		return x;
	if (mxfp_f32_is_zero(beta))
		return mxfp_f32_scale(x, -1);
	if (mxfp_f32_is_inf(x))
		return is_negative(x ^ beta) ? x & MXFP_F32_SIGN : x;
	t = multiply(x, beta);
	if (t.exponent + 48 <= -26)
		return half_nudged(x, t.negative ? -1 : 1);
	if (t.exponent + 46 >= 10)
		floor = 1024;
	else if (t.exponent > -64)
		floor = t.significand >> -t.exponent;
	if (floor >= (t.negative ? 256 : 18))
		return t.negative ? x & MXFP_F32_SIGN : x;
	return rounded(evaluate_silu, x, beta);
}

/* e = e^-|x|: log(1 + e) = 2 atanh(e / (2 + e)), which is e times 2 / (2 + e) times the series; for x > 0 it comes to x. */
static void evaluate_softplus(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct wide y, e, s, inverse, ratio;
	int k;

	(void)parameter;
	set_magnitude(&y, x, 0, n);
	k = exp_wide(&r->w, &y, true, n);
	mxfp_wide_shift_right(&e, &r->w, -k, n);
	mxfp_wide_set(&s, 2, 0, n);
	mxfp_wide_add(&s, &s, &e, n);
	mxfp_wide_reciprocal(&inverse, &s, n);
	mxfp_wide_mul(&s, &e, &inverse, n);
	mxfp_wide_mul(&ratio, &s, &s, n);
	atanh_ratio(&ratio, &ratio, n);
	mxfp_wide_mul(&ratio, &ratio, &inverse, n);
	mxfp_wide_mul(&r->w, &r->w, &ratio, n);
	r->exponent = k + 1;
	if (!is_negative(x)) {
		mxfp_wide_shift_right(&r->w, &r->w, -k - 1, n);
		mxfp_wide_add(&r->w, &r->w, &y, n);
		r->exponent = 0;
	}
}

/* log 2 = B17217.F7D1CF7... 2^-24, and d < |x| < 2^-26 does not reach B17217.8; x + d with d < e^-16 < 2^-22, a quarter of
   the least place of x or less; less than e^-104. */
static uint32_t function_softplus(uint32_t x)
{
	if (is_below(x, -26))
		return UINT32_C(0x3F317218);
	if (magnitude(x) >= (is_negative(x) ? F32_104 : F32_16))
		return is_negative(x) ? 0 : x;
	return rounded(evaluate_softplus, x, 0);
}

/*
 * 1 - e^-y for y = |x| not zero, as w * 2^exponent with w > 2^-9, and less than 2^22 units off. Below 2^-8 it is y (1 - y/2 (1 -
 * y/3 (1 - ...))), where what is left out after 64 n / 8 + 2 factors is less than y^(64n / 8). From 100 on e^-y is less than a unit
 * of two limbs; with more, e^-100 is subtracted, as the error bound says.
 */
static void one_minus_exp(struct wide *w, int *exponent, uint32_t x, int n)
{
	struct wide y, one;
	int k;

	set_one(&one, n);
	set_magnitude(&y, x, 0, n);
	*exponent = 0;
	if (is_below(x, -8)) {
		*w = one;
		for (uint32_t i = (uint32_t)(8 * n + 2); i >= 2; i--) {
			mxfp_wide_mul(w, w, &y, n);
			mxfp_wide_div_small(w, w, i, n);
			mxfp_wide_sub(w, &one, w, n);
		}
		set_significand(&y, exponent, x, n);
		mxfp_wide_mul(w, w, &y, n);
		return;
	}
	k = exp_wide(w, &y, true, n);
	mxfp_wide_shift_right(w, w, -k, n);
	mxfp_wide_sub(w, &one, w, n);
}

static void evaluate_elu(struct number *r, uint32_t x, uint32_t alpha, int n)
{
	struct wide a;
	int exponent;

	one_minus_exp(&r->w, &r->exponent, x, n);
	set_significand(&a, &exponent, alpha, n);
	mxfp_wide_mul(&r->w, &r->w, &a, n);
	r->exponent += exponent;
	r->negative = !is_negative(alpha);
}

/* alpha x (1 - d) with d < |x| / 2 < 2^-51: the product has 48 bits, so its distance from any middle is 2^-48 of it or
   nothing; -alpha (1 - d) with d < e^-18 < 2^-25. */
static uint32_t function_elu(uint32_t x, uint32_t alpha)
{
	struct mxfp_exact product;

	if (!is_negative(x) && !mxfp_f32_is_zero(x))
		return x;
	if (mxfp_f32_is_zero(x) || mxfp_f32_is_zero(alpha))
		return (x ^ alpha) & MXFP_F32_SIGN;
	if (magnitude(x) >= F32_18)
		return alpha ^ MXFP_F32_SIGN;
	if (!is_below(x, -50))
		return rounded(evaluate_elu, x, alpha);
	product = multiply(x, alpha);
	return nudged(product.negative, product.significand, product.exponent, -1);
}

/* For x > 0 a product of 53 and 24 bits, exact. Below -100, 1 - e^x is taken for 1, less than 2^(64 n - 144) units too much: that is
   within the bound for the one or two limbs at which scale * alpha settles. */
static void evaluate_selu(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct wide scale, alpha;
	struct mxfp_exact v;

	(void)parameter;
	mxfp_wide_set(&scale, SELU_SCALE, -52, n);
	if (!is_negative(x)) {
		v = mxfp_f32_unpack(x);
		mxfp_wide_mul_small(&r->w, &scale, v.significand, n);
		r->exponent = v.exponent;
		r->error = -1;
		return;
	}
	if (magnitude(x) >= F32_100)
		set_one(&r->w, n);
	else
		one_minus_exp(&r->w, &r->exponent, x, n);
	mxfp_wide_set(&alpha, SELU_ALPHA, -52, n);
	mxfp_wide_mul(&alpha, &alpha, &scale, n);
	mxfp_wide_mul(&r->w, &r->w, &alpha, n);
	r->negative = true;
}

static uint32_t function_selu(uint32_t x)
{
	if (mxfp_f32_is_zero(x) || x == MXFP_F32_INF)
		return x;
	return rounded(evaluate_selu, mxfp_f32_is_inf(x) ? MXFP_F32_SIGN | F32_100 : x, 0);
}

/*
 * gelu(x) = x/2 (1 + erf(x / sqrt 2)), and erf(|x| / sqrt 2) is the sum of t_j with t_0 = e^(-x^2 / 2) |x| sqrt(2 / pi) and t_j =
 * t_(j-1) x^2 / (2j + 1), all positive. What a term is off by grows with the terms after it, by less than the sum of
 * (x^2 / 2)^p / p!, or 2^-k where e^(-x^2 / 2) = v 2^k: two units in each of fewer than 2^10 terms, and the 2^22 2^k units of t_0, which
 * 2^-k makes 2^22 at most.
 */
static void evaluate_gelu(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);
	uint64_t square = v.significand * v.significand;
	struct wide y, term, sum, one;
	int k;

	(void)parameter;
	mxfp_wide_set(&y, square, 2 * v.exponent - 1, n);
	k = exp_wide(&term, &y, true, n);
	set_magnitude(&y, x, 0, n);
	mxfp_wide_mul(&term, &term, &y, n);
	mxfp_wide_mul(&term, &term, &sqrt_2_pi, n);
	mxfp_wide_shift_right(&term, &term, -k, n);
	mxfp_wide_set(&sum, 0, 0, n);
	for (uint32_t i = 3; !mxfp_wide_is_zero(&term, n); i += 2) {
		mxfp_wide_add(&sum, &sum, &term, n);
		mxfp_wide_mul_small(&term, &term, square, n);
		mxfp_wide_shift_right(&term, &term, -2 * v.exponent, n);
		mxfp_wide_div_small(&term, &term, i, n);
	}
	set_one(&one, n);
	if (!v.negative)
		mxfp_wide_add(&sum, &one, &sum, n);
	else if (mxfp_wide_less(&sum, &one, n))
		mxfp_wide_sub(&sum, &one, &sum, n);
	else
		mxfp_wide_set(&sum, 0, 0, n); /* too few limbs: the error bound says so */
	set_significand(&y, &r->exponent, x, n);
	mxfp_wide_mul(&r->w, &sum, &y, n);
	r->exponent--;
	r->error = 24 - k;
	r->negative = v.negative;
}

/* x/2 (1 + tanh u) = x / (1 + e^-2u), 2u = 2 sqrt(2 / pi) x (1 + k x^2) and less than 200. */
static void evaluate_gelu_tanh(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);
	struct wide u, y, one;

	(void)parameter;
	mxfp_wide_set(&u, GELU_CUBIC, -57, n);
	mxfp_wide_mul_small(&u, &u, v.significand * v.significand, n); /* 48 bits times less than 2^-4 */
	mxfp_wide_shift_right(&u, &u, -2 * v.exponent, n);
	set_one(&one, n);
	mxfp_wide_add(&u, &u, &one, n);
	set_magnitude(&y, x, 1, n);
	mxfp_wide_mul(&u, &u, &y, n);
	mxfp_wide_mul(&u, &u, &sqrt_2_pi, n);
	times_sigmoid(r, x, &u, v.negative, n);
}

/*
 * Both gelu: x/2 (1 + d) with |d| < |x| < 2^-26, of the sign of x; x (1 - d) with d < e^-18 < 2^-25 for x >= 6, where x Q(x) <
 * e^(-x^2 / 2) and e^-2u < e^-25; less in magnitude than e^-112 and 11 e^-112 at -15 and -11.
 */
static uint32_t function_gelu(evaluation *evaluate, uint32_t zero_from, uint32_t x)
{
	if (mxfp_f32_is_zero(x))
		return x;
	if (is_below(x, -26))
		return half_nudged(x, is_negative(x) ? -1 : 1);
	if (magnitude(x) >= (is_negative(x) ? zero_from : F32_6))
		return is_negative(x) ? MXFP_F32_SIGN : x;
	return rounded(evaluate, x, 0);
}

/*
 * 1 / sqrt(x) with x = m 4^h: the largest q with q^2 m <= 2^76 has 26 or 27 bits, as 2^23 <= m < 2^25, and is exact only where m is a
 * power of 4: 1 / sqrt(m) is irrational, or 1 / r with r odd.
 */
static uint32_t function_rsqrt(uint32_t x)
{
	struct mxfp_exact v;
	uint64_t q = 0;

	if (mxfp_f32_is_zero(x))
		return MXFP_F32_INF | (x & MXFP_F32_SIGN);
	if (is_negative(x))
		return MXFP_F32_NAN;
	if (mxfp_f32_is_inf(x))
		return 0;
	v = mxfp_f32_unpack(x);
	if (v.exponent % 2 != 0) {
		v.significand <<= 1;
		v.exponent--;
	}
	bool exact = false;
	for (uint64_t bit = UINT64_C(1) << 26; bit != 0; bit >>= 1) {
		uint64_t low, high = mxfp_wide_mul_limbs((q | bit) * (q | bit), v.significand, &low);
		if (high > 1 << 12 || (high == 1 << 12 && low != 0))
			continue;
		q |= bit;
		exact = high == 1 << 12;
	}
	return mxfp_f32_round((struct mxfp_exact){false, -38 - v.exponent / 2 - 1, q << 1 | !exact});
}

/* 64 bits of 2/pi from the given bit of its fraction on. */
static uint64_t two_pi_bits(int first)
{
	int limb = (first + 128) / 64, shift = (first + 128) % 64;

	return shift == 0 ? two_pi[limb] : two_pi[limb] << shift | two_pi[limb + 1] >> (64 - shift);
}

/*
 * sin x, or cos x = sin(x + pi/2). With |x| = m 2^e, x 2/pi = m (2/pi 2^e), of which multiples of 2^64 do not matter: they are
 * whole turns. Cutting 2/pi 2^e to n limbs gives 2^24 units of error after the product, and 2^25 in r <= pi/4, whose sine or cosine
 * is then a series of falling terms of alternating signs.
 */
static void evaluate_sin_cos(struct number *r, uint32_t x, bool is_cos, int n)
{
	struct mxfp_exact v = mxfp_f32_unpack(x);
	struct wide q, square, term, sum[2];
	uint64_t quadrant;
	bool is_negative = false;

	for (int i = 0; i <= n; i++) /* -37 < exponent <= 104: the bits from -100 to 104 + 64 * 8 are asked for */
		q.limb[i] = two_pi_bits(v.exponent + 64 * (i - 1));
	mxfp_wide_mul_small(&q, &q, v.significand, n);
	quadrant = q.limb[0];
	q.limb[0] = 0;
	if (q.limb[1] >> 63 != 0) { /* from the nearest multiple of pi/2 */
		mxfp_wide_set(&term, 1, 0, n);
		mxfp_wide_sub(&q, &term, &q, n);
		quadrant++;
		is_negative = true;
	}
	mxfp_wide_mul(&q, &q, &half_pi, n);
	mxfp_wide_mul(&square, &q, &q, n);
	if (is_cos)
		quadrant++; /* sin(x + pi/2), which is even in x */
	r->negative = (quadrant & 2) != 0;
	if (!is_cos)
		r->negative ^= v.negative;
	bool even = (quadrant & 1) != 0; /* cos r */
	if (!even)
		r->negative ^= is_negative;
	if (even)
		set_one(&term, n);
	else
		term = q;
	mxfp_wide_set(&sum[0], 0, 0, n);
	mxfp_wide_set(&sum[1], 0, 0, n);
	for (uint32_t i = even ? 1 : 2; !mxfp_wide_is_zero(&term, n); i += 2) {
		struct wide *side = &sum[i / 2 & 1];
		mxfp_wide_add(side, side, &term, n);
		mxfp_wide_mul(&term, &term, &square, n);
		mxfp_wide_div_small(&term, &term, i * (i + 1), n);
	}
	mxfp_wide_sub(&r->w, &sum[even ? 0 : 1], &sum[even ? 1 : 0], n);
	r->error = 28;
}

static void evaluate_sin(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	(void)parameter;
	evaluate_sin_cos(r, x, false, n);
}

static void evaluate_cos(struct number *r, uint32_t x, uint32_t parameter, int n)
{
	(void)parameter;
	evaluate_sin_cos(r, x, true, n);
}

/* x (1 - d) with d < x^2 / 6 < 2^-28. */
static uint32_t function_sin(uint32_t x)
{
	if (is_below(x, -13))
		return x;
	return mxfp_f32_is_inf(x) ? MXFP_F32_NAN : rounded(evaluate_sin, x, 0);
}

/* 1 - d with d < x^2 / 2 < 2^-26. */
static uint32_t function_cos(uint32_t x)
{
	if (is_below(x, -13))
		return F32_ONE;
	return mxfp_f32_is_inf(x) ? MXFP_F32_NAN : rounded(evaluate_cos, x, 0);
}

uint32_t mxfp_function_ref(enum mxfp_function function, uint32_t x, uint32_t parameter)
{
	if (mxfp_f32_is_nan(x))
		return MXFP_F32_NAN;
	switch (function) {
	case MXFP_FUNCTION_IDENTITY:
		return x;
	case MXFP_FUNCTION_RELU:
		return is_negative(x) ? 0 : x;
	case MXFP_FUNCTION_LEAKY_RELU:
		return is_negative(x) || mxfp_f32_is_zero(x) ? mxfp_f32_mul(x, parameter) : x;
	case MXFP_FUNCTION_EXP:
		return function_exp(x);
	case MXFP_FUNCTION_EXP2:
		return function_exp2(x);
	case MXFP_FUNCTION_LOG:
		return function_log(x);
	case MXFP_FUNCTION_TANH:
		return function_tanh(x);
	case MXFP_FUNCTION_SIGMOID:
		return function_sigmoid(x);
	case MXFP_FUNCTION_SILU:
		return function_silu(x, parameter);
	case MXFP_FUNCTION_SOFTPLUS:
		return function_softplus(x);
	case MXFP_FUNCTION_ELU:
		return function_elu(x, parameter);
	case MXFP_FUNCTION_SELU:
		return function_selu(x);
	case MXFP_FUNCTION_GELU:
		return function_gelu(evaluate_gelu, F32_15, x);
	case MXFP_FUNCTION_GELU_TANH:
		return function_gelu(evaluate_gelu_tanh, F32_11, x);
	case MXFP_FUNCTION_RSQRT:
		return function_rsqrt(x);
	case MXFP_FUNCTION_RECIPROCAL:
		return mxfp_f32_div(F32_ONE, x);
	case MXFP_FUNCTION_SIN:
		return function_sin(x);
	case MXFP_FUNCTION_COS:
		return function_cos(x);
	}
	return MXFP_F32_NAN;
}

uint32_t mxfp_function_default(enum mxfp_function function)
{
	switch (function) {
	case MXFP_FUNCTION_LEAKY_RELU:
		return UINT32_C(0x3C23D70A); /* 0.01 */
	case MXFP_FUNCTION_SILU:
	case MXFP_FUNCTION_ELU:
		return F32_ONE;
	default:
		return 0;
	}
}

/*
 * e^(y log x). An error of log x below 2^14 units is one below 2^(14 + s) of y log x with |y| < 2^s, and twice that in the result.
 * |y log x| < 2^-26 gives 1; from 2^10 on Inf or 0.
 */
static void evaluate_pow(struct number *r, uint32_t x, uint32_t y, int n)
{
	struct number log;
	struct wide product;
	int exponent;

	log_wide(&log, x, n);
	set_significand(&product, &exponent, y, n);
	mxfp_wide_mul(&product, &product, &log.w, n);
	mxfp_wide_shift_left(&product, &product, exponent, n);
	r->exponent = exp_wide(&r->w, &product, log.negative != is_negative(y), n);
	if (exponent > 0)
		r->error += exponent;
}

uint32_t mxfp_pow_ref(uint32_t x, uint32_t y)
{
	struct number log;
	int exponent, top;

	if (x == F32_ONE || mxfp_f32_is_zero(y))
		return F32_ONE;
	log_wide(&log, x, FIRST_LIMBS);
	mxfp_wide_top(&log.w, FIRST_LIMBS, &top); /* 2^(top + 61) <= |log x| < 2^(top + 62) */
	exponent = mxfp_f32_unpack(y).exponent;
	if (exponent + 24 + top + 62 <= -26)
		return F32_ONE;
	if (exponent + 23 + top + 61 >= 10)
		return log.negative != is_negative(y) ? 0 : MXFP_F32_INF;
	return rounded(evaluate_pow, x, y);
}
