/* SPDX-License-Identifier: MIT */
/*
 * Each operation computes its exact result, or one that differs only below the rounding position (a jammed bit: set if
 * any lower bit that was discarded is), and rounds it once. 64-bit products are put together from 32-bit halves, as C11
 * has no type for them.
 */
#include "f64.h"

#include "minifloat.h"

/* An IEEE format: bits of the significand with the hidden one, and the exponent of its largest binade. */
struct ieee {
	int bits, bias;
};

static const struct ieee f64 = {53, 1023}, f32 = {24, 127};

struct u128 {
	uint64_t high, low;
};

/* (-1)^negative * significand * 2^exponent, nonzero. */
struct exact {
	bool negative;
	int exponent;
	struct u128 significand;
};

static struct u128 multiply(uint64_t a, uint64_t b)
{
	uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
	uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;

	return (struct u128){a1 * b1 + (middle >> 32) + (other >> 32), other << 32 | (uint32_t)low};
}

static struct u128 shift_left(struct u128 a, int n)
{
	if (n >= 64)
		return (struct u128){a.low << (n - 64), 0};
	return n == 0 ? a : (struct u128){a.high << n | a.low >> (64 - n), a.low << n};
}

static uint64_t shift_right_jam_64(uint64_t a, int n)
{
	if (n > 63)
		return a != 0;
	return n == 0 ? a : a >> n | ((a & ((UINT64_C(1) << n) - 1)) != 0);
}

static struct u128 shift_right_jam(struct u128 a, int n)
{
	if (n >= 64)
		return (struct u128){0, shift_right_jam_64(a.high, n - 64) | (a.low != 0)};
	return n == 0 ? a : (struct u128){a.high >> n, a.high << (64 - n) | shift_right_jam_64(a.low, n)};
}

static int compare(struct u128 a, struct u128 b)
{
	return a.high != b.high ? (a.high > b.high) - (a.high < b.high) : (a.low > b.low) - (a.low < b.low);
}

static int leading_zeros(uint64_t a)
{
	int n = 0;

	for (int step = 32; step > 0; step /= 2)
		if (a >> (64 - step) == 0) {
			a <<= step;
			n += step;
		}
	return n;
}

/* Shifts so that the top bit is bit 126: an addition then has a bit to carry into. */
static void normalize(struct exact *v)
{
	int n = v->significand.high != 0 ? leading_zeros(v->significand.high) : 64 + leading_zeros(v->significand.low);

	if (n == 0) {
		v->significand = shift_right_jam(v->significand, 1);
		v->exponent++;
		return;
	}
	v->significand = shift_left(v->significand, n - 1);
	v->exponent -= n - 1;
}

/* The bits of the format without the sign. */
static uint64_t round_magnitude(const struct ieee *format, struct exact v)
{
	normalize(&v);
	/* 64 bits, the lowest jammed, hold all that rounding to at most 53 needs. Their top bit is bit 62. */
	uint64_t bits = v.significand.high | (v.significand.low != 0);
	int exponent = v.exponent + 126, drop = 63 - format->bits;

	if (exponent > format->bias)
		return (uint64_t)(2 * format->bias + 1) << (format->bits - 1);
	if (exponent < 1 - format->bias) { /* subnormal: fewer bits are kept */
		drop += 1 - format->bias - exponent;
		exponent = 1 - format->bias;
	}
	if (drop > 63)
		return 0; /* less than half of the least subnormal, whose lowest bit would be bit 64 or higher */
	uint64_t kept = bits >> drop, rest = bits - (kept << drop), half = UINT64_C(1) << (drop - 1);
	kept += rest > half || (rest == half && kept % 2 != 0);
	/* The hidden bit adds one to the exponent's field, and so does a carry; a subnormal has none. */
	return ((uint64_t)(exponent + format->bias - 1) << (format->bits - 1)) + kept;
}

static uint64_t round_f64(struct exact v)
{
	return (v.negative ? MXFP_F64_SIGN : 0) | round_magnitude(&f64, v);
}

static uint32_t round_f32(struct exact v)
{
	return (v.negative ? MXFP_F32_SIGN : 0) | (uint32_t)round_magnitude(&f32, v);
}

/* A finite nonzero number; bit 52 of the significand is the top one. */
static struct exact unpack(uint64_t bits)
{
	uint64_t significand = bits & ((UINT64_C(1) << 52) - 1);
	int exponent = (int)(bits >> 52 & 0x7FF);

	if (exponent != 0) {
		significand |= UINT64_C(1) << 52;
	} else {
		int n = leading_zeros(significand) - 11;

		significand <<= n;
		exponent = 1 - n;
	}
	return (struct exact){bits >> 63 != 0, exponent - 1075, {0, significand}};
}

static bool is_inf_times_zero(uint64_t a, uint64_t b)
{
	return (mxfp_f64_is_inf(a) && mxfp_f64_is_zero(b)) || (mxfp_f64_is_zero(a) && mxfp_f64_is_inf(b));
}

/*
 * The rounded sum of two numbers of at most 106 significant bits. With the top bit at bit 126 both have at least 21
 * trailing zero bits, so an alignment shift of up to 21 is exact. Beyond, cancellation shortens the sum by at most one
 * bit, so a jammed bit 0 is far below the rounding position of 53 bits.
 */
static uint64_t add_exact(struct exact a, struct exact b)
{
	normalize(&a);
	normalize(&b);
	if (a.exponent < b.exponent || (a.exponent == b.exponent && compare(a.significand, b.significand) < 0)) {
		struct exact swap = a;
		a = b;
		b = swap;
	}
	int distance = a.exponent - b.exponent;
	struct u128 x = a.significand, y = shift_right_jam(b.significand, distance < 127 ? distance : 127);
	if (a.negative == b.negative) {
		a.significand.low = x.low + y.low;
		a.significand.high = x.high + y.high + (a.significand.low < x.low);
	} else {
		a.significand.low = x.low - y.low;
		a.significand.high = x.high - y.high - (x.low < y.low);
	}
	return a.significand.high == 0 && a.significand.low == 0 ? 0 : round_f64(a);
}

static struct exact multiply_exact(uint64_t a, uint64_t b)
{
	struct exact x = unpack(a), y = unpack(b);

	return (struct exact){x.negative != y.negative, x.exponent + y.exponent,
	                      multiply(x.significand.low, y.significand.low)};
}

uint64_t mxfp_f64_add(uint64_t a, uint64_t b)
{
	if (mxfp_f64_is_nan(a) || mxfp_f64_is_nan(b) || (mxfp_f64_is_inf(a) && mxfp_f64_is_inf(b) && a != b))
		return MXFP_F64_NAN;
	if (mxfp_f64_is_inf(a) || mxfp_f64_is_inf(b))
		return mxfp_f64_is_inf(a) ? a : b;
	if (mxfp_f64_is_zero(a) && mxfp_f64_is_zero(b))
		return a & b; /* -0 only if both are */
	if (mxfp_f64_is_zero(a) || mxfp_f64_is_zero(b))
		return mxfp_f64_is_zero(a) ? b : a;
	return add_exact(unpack(a), unpack(b));
}

uint64_t mxfp_f64_sub(uint64_t a, uint64_t b)
{
	return mxfp_f64_add(a, b ^ MXFP_F64_SIGN);
}

uint64_t mxfp_f64_mul(uint64_t a, uint64_t b)
{
	uint64_t sign = (a ^ b) & MXFP_F64_SIGN;

	if (mxfp_f64_is_nan(a) || mxfp_f64_is_nan(b) || is_inf_times_zero(a, b))
		return MXFP_F64_NAN;
	if (mxfp_f64_is_inf(a) || mxfp_f64_is_inf(b))
		return sign | MXFP_F64_INF;
	if (mxfp_f64_is_zero(a) || mxfp_f64_is_zero(b))
		return sign;
	return round_f64(multiply_exact(a, b));
}

/* a / b for two significands of 53 bits as a number of 11 * digits + 1 bits, the last jammed, times 2^-(11 * digits + 1):
   long division, in which what remains stays below b, so that 11 more bits fit. */
static uint64_t quotient(uint64_t a, uint64_t b, int digits)
{
	uint64_t q = a / b, rest = a % b;

	for (int i = 0; i < digits; i++) {
		rest <<= 11;
		q = q << 11 | rest / b;
		rest %= b;
	}
	return q << 1 | (rest != 0);
}

uint64_t mxfp_f64_div(uint64_t a, uint64_t b)
{
	uint64_t sign = (a ^ b) & MXFP_F64_SIGN;

	if (mxfp_f64_is_nan(a) || mxfp_f64_is_nan(b) || (mxfp_f64_is_inf(a) && mxfp_f64_is_inf(b)) ||
	    (mxfp_f64_is_zero(a) && mxfp_f64_is_zero(b)))
		return MXFP_F64_NAN;
	if (mxfp_f64_is_inf(a) || mxfp_f64_is_zero(b))
		return sign | MXFP_F64_INF;
	if (mxfp_f64_is_zero(a) || mxfp_f64_is_inf(b))
		return sign;
	struct exact x = unpack(a), y = unpack(b);
	x.negative = sign != 0;
	x.exponent -= y.exponent + 56;
	x.significand.low = quotient(x.significand.low, y.significand.low, 5);
	return round_f64(x);
}

uint64_t mxfp_f64_fma(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t sign = (a ^ b) & MXFP_F64_SIGN;

	if (mxfp_f64_is_nan(a) || mxfp_f64_is_nan(b) || mxfp_f64_is_nan(c) || is_inf_times_zero(a, b))
		return MXFP_F64_NAN;
	if (mxfp_f64_is_inf(a) || mxfp_f64_is_inf(b))
		return mxfp_f64_is_inf(c) && c != (sign | MXFP_F64_INF) ? MXFP_F64_NAN : sign | MXFP_F64_INF;
	if (mxfp_f64_is_inf(c))
		return c;
	if (mxfp_f64_is_zero(a) || mxfp_f64_is_zero(b))
		return mxfp_f64_is_zero(c) ? sign & c : c;
	struct exact product = multiply_exact(a, b);
	return mxfp_f64_is_zero(c) ? round_f64(product) : add_exact(product, unpack(c));
}

int mxfp_f64_compare(uint64_t a, uint64_t b)
{
	uint64_t x = a & ~MXFP_F64_SIGN, y = b & ~MXFP_F64_SIGN;

	if (x == 0 && y == 0)
		return 0;
	if (a >> 63 != b >> 63)
		return a >> 63 != 0 ? -1 : 1;
	return a >> 63 != 0 ? (x < y) - (x > y) : (x > y) - (x < y);
}

uint64_t mxfp_f64_from_f32(uint32_t a)
{
	uint64_t sign = (uint64_t)(a & MXFP_F32_SIGN) << 32;

	if (mxfp_f32_is_nan(a))
		return MXFP_F64_NAN;
	if (mxfp_f32_is_inf(a))
		return sign | MXFP_F64_INF;
	if (mxfp_f32_is_zero(a))
		return sign;
	if ((a & MXFP_F32_INF) != 0) /* normal: only the exponent's bias differs */
		return sign | (((uint64_t)(a & ~MXFP_F32_SIGN) << 29) + ((uint64_t)(f64.bias - f32.bias) << 52));
	struct mxfp_exact v = mxfp_f32_unpack(a);
	return round_f64((struct exact){v.negative, v.exponent, {0, v.significand}});
}

uint64_t mxfp_f64_from_u64(uint64_t n)
{
	return n == 0 ? 0 : round_f64((struct exact){false, 0, {0, n}});
}

uint32_t mxfp_f64_to_f32(uint64_t a)
{
	uint32_t sign = (uint32_t)(a >> 32) & MXFP_F32_SIGN;

	if (mxfp_f64_is_nan(a))
		return MXFP_F32_NAN;
	if (mxfp_f64_is_inf(a))
		return sign | MXFP_F32_INF;
	return mxfp_f64_is_zero(a) ? sign : round_f32(unpack(a));
}

uint32_t mxfp_f64_reciprocal_f32(uint64_t a)
{
	uint32_t sign = (uint32_t)(a >> 32) & MXFP_F32_SIGN;

	if (mxfp_f64_is_nan(a))
		return MXFP_F32_NAN;
	if (mxfp_f64_is_zero(a))
		return sign | MXFP_F32_INF;
	if (mxfp_f64_is_inf(a))
		return sign;
	/* 2^52 over 53 bits: at least 33 bits, of which the last is jammed. */
	struct exact x = unpack(a);
	x.exponent = -x.exponent - 52 - 34;
	x.significand.low = quotient(UINT64_C(1) << 52, x.significand.low, 3);
	return round_f32(x);
}

/* About 2^31 / sqrt(v), v = m * 2^-30 from 1 to 4, by Newton's iteration y (3 - v y^2) / 2: the error of the line it starts
   from, a tenth, goes to 2^-6, 2^-12, 2^-22 and to what shifting right drops. The caller corrects the last bits. */
static uint64_t rsqrt_estimate(uint64_t m)
{
	uint64_t y = UINT64_C(0x8B851EB8) - (m * UINT64_C(0x147AE148) >> 30); /* 2^31 (1.09 - 0.16 v) */

	for (int i = 0; i < 4; i++) {
		const uint64_t rest = (UINT64_C(3) << 61) - (y * y >> 31) * m;

		y = y * (rest >> 31) >> 31;
	}
	return y;
}

uint32_t mxfp_f64_rsqrt_f32(uint64_t a)
{
	if (mxfp_f64_is_zero(a))
		return (uint32_t)(a >> 32) | MXFP_F32_INF;
	if (mxfp_f64_is_nan(a) || a >> 63 != 0)
		return MXFP_F32_NAN;
	if (mxfp_f64_is_inf(a))
		return 0;
	/* a = m * 2^(2k), m from 2^52 to 2^54. The largest q with q^2 * m <= 2^108 is 2^54 / sqrt(m) rounded down: 28 bits or
	   2^28, more than rounding to 24 needs, with one jammed bit for the rest. */
	struct exact x = unpack(a);
	if (x.exponent % 2 != 0) {
		x.significand.low <<= 1;
		x.exponent--;
	}
	const uint64_t m = x.significand.low;
	const struct u128 limit = {UINT64_C(1) << 44, 0};
	uint64_t q = rsqrt_estimate(m >> 22) >> 3;
	while (compare(multiply(q * q, m), limit) > 0)
		q--;
	while (compare(multiply((q + 1) * (q + 1), m), limit) <= 0)
		q++;
	x.exponent = -x.exponent / 2 - 55;
	x.significand.low = q << 1 | (compare(multiply(q * q, m), limit) != 0);
	return round_f32(x);
}
