/* SPDX-License-Identifier: MIT */
/*
 * Functions of one number (doc/numerics.md, section 8), a vector at a time. A function is evaluated in binary64 lanes to
 * a relative error below a bound, then rounded, and the lanes whose binary64 value is nearer than the bound to a tie of
 * binary32 are decided otherwise (Ziv's rounding test), so that every result is right by the bound:
 *
 * - quick_lanes() evaluates by short polynomials over the range of ordinary inputs, whose results are normal numbers;
 * - wide_lanes(), out of line, evaluates all lanes of a vector one of which quick_lanes() did not decide, by longer
 *   polynomials, whatever the input, and asks mxfp_function_ref() for the lanes it cannot decide: one in 2^17, those of
 *   sine and cosine whose argument is large, and a few special values.
 *
 * The bounds are in quick_ulps() and WIDE_BOUND. The terms: the polynomial (polynomial.h says its error); the constant
 * log2 e, whose relative error 2^-54 the argument multiplies, at most 104 * 2^-54 < 2^-47; one rounding of 2^-53 for each
 * of the last operations. Their sums were measured against MPFR on dense samples of each function's range, and a bound
 * is at least four times the largest error found.
 */
#ifndef MXFP_BODY_FUNCTIONS_H
#define MXFP_BODY_FUNCTIONS_H

#include "kernels.h"
#include "body/polynomial.h"

/* The binary32 magnitudes of ordinary inputs. */
struct range {
	uint32_t low, high;
};

/* A function with its parameter, as binary32 bits. The function must be a constant where a kernel calls, which the
   compiler then specializes. */
struct function {
	enum mxfp_function function;
	uint32_t parameter;
};

#define ROUND_TO_INTEGER 0x1.8p52 /* added to a number of magnitude below 2^51, leaves its nearest integer in the low bits */
#define LOG2_E 0x1.71547652b82fep+0
#define LN_2 0x1.62e42fefa39efp-1
#define POLYNOMIAL(x, table) polynomial(x, table, sizeof (table) / sizeof (table)[0])

/* The sum of coefficient[i] * x^(i / step) over i = first, first + step, ... */
ALWAYS_INLINE vf64 horner(vf64 x, const double *coefficient, size_t n, size_t first, size_t step)
{
	size_t last = first + (n - 1 - first) / step * step;
	vf64 sum = splat_f64(coefficient[last]);

#pragma GCC unroll 24
	for (size_t i = last; i > first; i -= step)
		sum = fma_f64(sum, x, splat_f64(coefficient[i - step]));
	return sum;
}

/* In two or four chains, which run beside each other: the chain of one function is longer than processors look ahead. */
ALWAYS_INLINE vf64 polynomial(vf64 x, const double *coefficient, size_t n)
{
	const vf64 x2 = x * x;

	if (n < 12)
		return fma_f64(horner(x2, coefficient, n, 1, 2), x, horner(x2, coefficient, n, 0, 2));
	const vf64 x4 = x2 * x2;
	const vf64 even = fma_f64(horner(x4, coefficient, n, 2, 4), x2, horner(x4, coefficient, n, 0, 4));
	const vf64 odd = fma_f64(horner(x4, coefficient, n, 3, 4), x2, horner(x4, coefficient, n, 1, 4));

	return fma_f64(odd, x, even);
}

/* mask ? a : b, lane by lane. */
ALWAYS_INLINE vf64 blend_f64(vs64 mask, vf64 a, vf64 b)
{
	return (vf64)(((vu64)mask & (vu64)a) | (~(vu64)mask & (vu64)b));
}

/* The second argument where x is a NaN. */
ALWAYS_INLINE vf64 clamp_f64(vf64 x, double low, double high)
{
	x = blend_f64(x > splat_f64(low), x, splat_f64(low));
	return blend_f64(x < splat_f64(high), x, splat_f64(high));
}

ALWAYS_INLINE vf64 magnitude_f64(vf64 x)
{
	return (vf64)((vu64)x & ~((vu64){0} + (UINT64_C(1) << 63)));
}

/* The number with these binary32 bits in every lane. */
ALWAYS_INLINE vf64 splat_widened(uint32_t bits)
{
	vf64 v[2];

	widen_lanes((vf32)splat(bits), v);
	return v[0];
}

ALWAYS_INLINE vf64 positive_part(vf64 x)
{
	return blend_f64(x > splat_f64(0), x, splat_f64(0));
}

/* x * log2_base = n + r, n the nearest multiple of 1 / EXP_PARTS. The product is not rounded before r is. `shifted` has n
   * EXP_PARTS in its low bits. */
struct exponent {
	vf64 shifted, n, r;
};

ALWAYS_INLINE struct exponent exponent_of(vf64 x, double log2_base)
{
	const vf64 shift = splat_f64(EXP_PARTS == 1 ? ROUND_TO_INTEGER : ROUND_TO_INTEGER / EXP_PARTS);
	const vf64 shifted = fma_f64(x, splat_f64(log2_base), shift), n = shifted - shift;

	return (struct exponent){shifted, n, fma_f64(x, splat_f64(log2_base), -n)};
}

/* base^x, where |x * log2_base| < 1000. */
ALWAYS_INLINE vf64 exp_f64(vf64 x, double log2_base, bool quick)
{
	const struct exponent e = exponent_of(x, log2_base);

	if (EXP_PARTS == 16) {
		const vf64 root = exp2_fraction(exp2_sixteenths, e.shifted);

		return exp2_scale(fma_f64(root, e.r * POLYNOMIAL(e.r, exp_sixteenth), root), e.n, e.shifted);
	}
	const vf64 rest = quick ? POLYNOMIAL(e.r, exp_fast) : POLYNOMIAL(e.r, expm1_exact);

	return exp2_scale(fma_f64(e.r, rest, splat_f64(1)), e.n, e.shifted);
}

/* e^x - 1, with a small relative error about 0 too: there n is 0, its power is 1, and r keeps the relative error of x. */
ALWAYS_INLINE vf64 expm1_f64(vf64 x, double log2_base, bool quick)
{
	const struct exponent e = exponent_of(x, log2_base);
	const vf64 power = exp2_scale(exp2_fraction(exp2_sixteenths, e.shifted), e.n, e.shifted);
	const vf64 rest = EXP_PARTS == 16 ? POLYNOMIAL(e.r, expm1_sixteenth)
	                  : quick ? POLYNOMIAL(e.r, expm1_fast) : POLYNOMIAL(e.r, expm1_exact);

	return fma_f64(power, e.r * rest, power - splat_f64(1));
}

/* log(1 + v) = 2 atanh(v / (2 + v)), 0 <= v <= 1. */
ALWAYS_INLINE vf64 log1p_f64(vf64 v)
{
	const vf64 t = divide_f64(v, v + splat_f64(2));

	return (t + t) * POLYNOMIAL(t * t, log1p_rest);
}

/* log x = k ln 2 + 2 atanh((m - 1) / (m + 1)), m from sqrt 1/2 to sqrt 2, for a positive x. m - 1 is exact, and k is 0
   about 1, so that the relative error is small there too. */
ALWAYS_INLINE vf64 log_f64(vf64 x)
{
	const vu64 sqrt_half = (vu64)splat_f64(0x1.6a09e667f3bcdp-1), integer = (vu64)splat_f64(ROUND_TO_INTEGER);
	const vu64 k = (((vu64)x - sqrt_half + (UINT64_C(1) << 62)) >> 52) - (UINT64_C(1) << 10);
	const vf64 m = (vf64)((vu64)x - (k << 52));
	const vf64 t = divide_f64(m - splat_f64(1), m + splat_f64(1));
	const vf64 n = (vf64)(integer + k) - splat_f64(ROUND_TO_INTEGER);

	return fma_f64(n, splat_f64(LN_2), (t + t) * POLYNOMIAL(t * t, log_rest));
}

/* The sine of x + quarters * pi/2, |x| <= 2^27. x = n pi/2 + r with pi/2 as the sum of two binary64 numbers, so that n
   pi/2 is right to 2^27 * 2^-106; no binary32 number of that size is nearer than 2^-32 to a multiple of pi/2. */
ALWAYS_INLINE vf64 sin_f64(vf64 x, uint64_t quarters)
{
	const vf64 shifted = fma_f64(x, splat_f64(0x1.45f306dc9c883p-1), splat_f64(ROUND_TO_INTEGER));
	const vf64 n = shifted - splat_f64(ROUND_TO_INTEGER);
	const vf64 r = fma_f64(-n, splat_f64(0x1.1a62633145c07p-54), fma_f64(-n, splat_f64(0x1.921fb54442d18p+0), x));
	const vf64 s = r * r;
	const vf64 sine = fma_f64(r * s, POLYNOMIAL(s, sin_rest), r);
	const vf64 cosine = fma_f64(s * s, POLYNOMIAL(s, cos_rest), fma_f64(s, splat_f64(-0.5), splat_f64(1)));
	const vu64 quadrant = (vu64)shifted + quarters;
	const vf64 value = blend_f64((vs64)-(quadrant & 1), cosine, sine);

	return (vf64)((vu64)value ^ (quadrant >> 1 << 63));
}

/* Phi(-t), the probability of a standard normal number beyond t, 0 <= t <= 14.75. */
ALWAYS_INLINE vf64 normal_tail(vf64 t)
{
	const vf64 u = divide_f64(t - splat_f64(4), t + splat_f64(4));

	return exp_f64(t * t * splat_f64(-0.5), LOG2_E, false) * POLYNOMIAL(u, mills);
}

/* 1 / (1 + e^-z) times the numerator, |z| at most 200 if not quick. */
ALWAYS_INLINE vf64 sigmoid_f64(vf64 numerator, vf64 z, bool quick)
{
	if (!quick)
		z = clamp_f64(z, -200, 200);
	return divide_f64(numerator, splat_f64(1) + exp_f64(-z, LOG2_E, quick));
}

/* lambda and lambda * alpha of SELU; 2 sqrt(2 / pi) and that times k of GELU by tanh. */
#define SELU_LAMBDA 0x1.0cfabd6a91132p+0
#define SELU_LAMBDA_ALPHA 0x1.c212cc640f030p+0
#define GELU_LINEAR 0x1.9884533d43651p+0
#define GELU_CUBE 0x1.2444f2a4d8b4bp-4

/* The value in binary64. Of quick_lanes() the inputs are ordinary; of wide_lanes() they may be anything but NaN, and the
   value is then right wherever wide_lanes() uses it. */
ALWAYS_INLINE vf64 function_f64(enum mxfp_function function, vf64 parameter, vf64 x, bool quick)
{
	switch (function) {
	case MXFP_FUNCTION_EXP:
		return exp_f64(quick ? x : clamp_f64(x, -104, 89), LOG2_E, quick);
	case MXFP_FUNCTION_EXP2:
		return exp_f64(quick ? x : clamp_f64(x, -151, 129), 1, quick);
	case MXFP_FUNCTION_LOG:
		return log_f64(x);
	case MXFP_FUNCTION_TANH: {
		const vf64 e = expm1_f64(quick ? x : clamp_f64(x, -20, 20), 2 * LOG2_E, quick);

		return divide_f64(e, e + splat_f64(2));
	}
	case MXFP_FUNCTION_SIGMOID:
		return sigmoid_f64(splat_f64(1), quick ? x : clamp_f64(x, -104, 104), quick);
	case MXFP_FUNCTION_SILU:
		return sigmoid_f64(x, parameter * x, quick);
	case MXFP_FUNCTION_SOFTPLUS: {
		const vf64 t = magnitude_f64(x);

		return positive_part(x) + log1p_f64(exp_f64(-(quick ? t : clamp_f64(t, 0, 104)), LOG2_E, quick));
	}
	case MXFP_FUNCTION_ELU: {
		const vf64 e = expm1_f64(clamp_f64(x, -104, 0), LOG2_E, quick);

		return blend_f64(x > splat_f64(0), x, parameter * e);
	}
	case MXFP_FUNCTION_SELU: {
		const vf64 e = expm1_f64(clamp_f64(x, -104, 0), LOG2_E, quick);

		return blend_f64(x > splat_f64(0), x * splat_f64(SELU_LAMBDA), e * splat_f64(SELU_LAMBDA_ALPHA));
	}
	case MXFP_FUNCTION_GELU: {
		if (quick)
			return x * fma_f64(x, POLYNOMIAL(fma_f64(x, x, splat_f64(-7.03125)), phi_rest), splat_f64(0.5));
		const vf64 t = clamp_f64(magnitude_f64(x), 0, 14.75);

		return positive_part(x) - t * normal_tail(t);
	}
	case MXFP_FUNCTION_GELU_TANH:
		return sigmoid_f64(x, x * fma_f64(x * x, splat_f64(GELU_CUBE), splat_f64(GELU_LINEAR)), quick);
	case MXFP_FUNCTION_RSQRT:
		return rsqrt_f64(x);
	case MXFP_FUNCTION_SIN:
		return sin_f64(x, 0);
	case MXFP_FUNCTION_COS:
		return sin_f64(x, 1);
	default:
		return x;
	}
}

/* The binary32 magnitudes, or of log and rsqrt all bits, of inputs that quick_lanes() takes: the results are normal. */
ALWAYS_INLINE struct range ordinary_range(struct function f)
{
	const uint32_t tiny = UINT32_C(0x0D800000), e = UINT32_C(0x42AE0000); /* 2^-100, 87 */
	const struct range none = {UINT32_MAX, UINT32_MAX};
	/* A parameter from 2^-6 to 2^6. */
	const uint32_t parameter = f.parameter & ~F32_SIGN;
	const bool moderate = parameter - UINT32_C(0x3C800000) <= UINT32_C(0x06000000);

	switch (f.function) {
	case MXFP_FUNCTION_EXP:
	case MXFP_FUNCTION_SIGMOID:
	case MXFP_FUNCTION_SOFTPLUS:
		return (struct range){0, e};
	case MXFP_FUNCTION_EXP2:
		return (struct range){0, UINT32_C(0x42FC0000)}; /* 126 */
	case MXFP_FUNCTION_LOG:
	case MXFP_FUNCTION_RSQRT:
		return (struct range){1, F32_MAX};
	case MXFP_FUNCTION_TANH:
		return (struct range){F32_HIDDEN, UINT32_C(0x41A00000)}; /* 20 */
	case MXFP_FUNCTION_SILU:
		/* Up to 64 / parameter, times at most 1.125, since bits are not quite a logarithm. */
		return moderate ? (struct range){tiny, UINT32_C(0x42800000) - (parameter - F32_ONE)} : none;
	case MXFP_FUNCTION_ELU:
		return moderate ? (struct range){tiny, e} : none;
	case MXFP_FUNCTION_SELU:
		return (struct range){tiny, e};
	case MXFP_FUNCTION_GELU:
		return (struct range){tiny, UINT32_C(0x40700000)}; /* 3.75 */
	case MXFP_FUNCTION_GELU_TANH:
		return (struct range){tiny, UINT32_C(0x41000000)}; /* 8 */
	case MXFP_FUNCTION_SIN:
		return (struct range){F32_HIDDEN, UINT32_C(0x4D000000)}; /* 2^27 */
	case MXFP_FUNCTION_COS:
		return (struct range){0, UINT32_C(0x4D000000)};
	default:
		return none;
	}
}

/* How far inputs lie above the least ordinary one. */
ALWAYS_INLINE vu32 above_least(struct function f, vu32 x)
{
	const bool is_signed = f.function != MXFP_FUNCTION_LOG && f.function != MXFP_FUNCTION_RSQRT;

	return (is_signed ? x & ~F32_SIGN : x) - ordinary_range(f).low;
}

ALWAYS_INLINE bool are_ordinary(struct function f, vu32 x)
{
	const struct range range = ordinary_range(f);

	return !any((vs32)(above_least(f, x) > splat(range.high - range.low)));
}

/* A power of two: the value that quick_lanes() computes is nearer to the function's than that many units in the last
   place of binary64. 2^t of them are a relative error of at least 2^(t-53). */
ALWAYS_INLINE uint32_t quick_ulps(enum mxfp_function function)
{
	switch (function) {
	case MXFP_FUNCTION_GELU:
		return 1 << 16;
	case MXFP_FUNCTION_EXP:
	case MXFP_FUNCTION_EXP2:
	case MXFP_FUNCTION_SIGMOID:
	case MXFP_FUNCTION_SILU:
	case MXFP_FUNCTION_SOFTPLUS:
	case MXFP_FUNCTION_GELU_TANH:
		return EXP_PARTS == 16 ? 1 << 10 : 1 << 16;
	case MXFP_FUNCTION_TANH:
	case MXFP_FUNCTION_ELU:
	case MXFP_FUNCTION_SELU:
		return EXP_PARTS == 16 ? 1 << 10 : 1 << 12;
	default:
		return 1 << 9;
	}
}

/* The same for the values of wide_lanes(), relative. */
#define WIDE_BOUND 0x1p-43

/* The results of any inputs, out of line. */
vu32 TIER(wide_lanes)(struct function f, vu32 x);

/* The results of x, widened, in *y, if all are decided: all inputs are ordinary, and no value is so near to a tie that it
   may round otherwise. Near a tie the 29 bits that go away are, above the bound, 10...0 or 01...1. */
ALWAYS_INLINE bool quick_lanes(struct function f, vu32 x, vf64 low, vf64 high, vu32 *y)
{
	const struct range range = ordinary_range(f);
	const uint32_t half = UINT32_C(1) << 28, ulps = quick_ulps(f.function);
	const uint32_t above = (2 * half - 1) & ~(2 * ulps - 1);
	const vf64 parameter = splat_widened(f.parameter);

	low = function_f64(f.function, parameter, low, true);
	high = function_f64(f.function, parameter, high, true);
	*y = (vu32)narrow_f64(low, high);
	return !any_zero_or_beyond(low_words(low, high) + (half + ulps), splat(above), above_least(f, x), splat(range.high - range.low));
}

/* f(x), to nearest even, NaN as 7FC00000. */
ALWAYS_INLINE vu32 function_lanes(struct function f, vu32 x)
{
	const vf32 v = (vf32)x;
	vf32 y;

	switch (f.function) {
	case MXFP_FUNCTION_IDENTITY:
		y = v;
		break;
	case MXFP_FUNCTION_RELU:
		y = (vf32)(x & ~(vu32)(v <= splat_f32(0)));
		break;
	case MXFP_FUNCTION_LEAKY_RELU:
		y = (vf32)blend(v > splat_f32(0), x, (vu32)(v * splat_f32(float_of(f.parameter))));
		break;
	case MXFP_FUNCTION_RECIPROCAL:
		y = splat_f32(1) / v;
		break;
	default: {
		vf64 wide[2];
		vu32 result;

		widen_lanes(v, wide);
		if (__builtin_expect(!quick_lanes(f, x, wide[0], wide[1], &result), false))
			result = TIER(wide_lanes)(f, x);
		return result;
	}
	}
	return blend(y == y, (vu32)y, splat(F32_NAN));
}

#endif
