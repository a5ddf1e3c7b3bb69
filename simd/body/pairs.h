/* SPDX-License-Identifier: MIT */
/*
 * e^x, the sigmoid and SiLU in binary32 lanes, as sums of two numbers, for tiers that look up a table in registers: half as
 * many vectors as the binary64 lanes of functions.h, which decide what is too near to a tie here. With an octave in 8 or 32
 * PARTS, n the integer nearest to PARTS x / log 2, and log(2) / PARTS = LN2_HIGH + LN2_LOW,
 *
 *     e^x = 2^(n/PARTS) e^(t + c),  t = x - n LN2_HIGH,  c = -n LN2_LOW.
 *
 * t is exact. With 8 parts LN2_HIGH is a multiple of 2^-24, and |t| < 0.04335: if |x| >= 1/2, x is a multiple of 2^-24 and so
 * is t; if it is smaller and n is not 0, |x| > 0.0433 is a multiple of 2^-28, and t one below 2^24 of these; otherwise t is x.
 * With 32 parts LN2_HIGH is a multiple of 2^-26, |t| < 0.01084, and x, if n is not 0, a multiple of 2^-30.
 * The factor 2^(i/PARTS) is a binary32 number T times 1 + rest, and rest joins c. Then
 *
 *     e^x / 2^k = T + T t + T p,  p = t^2 (1/2 + c/2 + t Q(t)) + c (1 + t).
 *
 * T + T t is rounded to `high`, and `low` is the error of that rounding plus T p. The errors relative to the result, in
 * units of 2^-40, are at most, with 8 parts: t^2 rounded, 62; its factor, 62, and 1/2 + c/2 in it, 62; p, 32, since it is
 * below 2^-10; low, and low +- the bound, 62 each, since low is above 2^-10 only if the result is above 1.03; Q, 3
 * (polynomial.h); c^2 / 2, c t^3 / 6 and the rounding of what is smaller, 6. Together 351 for t > 0, which the division by e^t
 * reduces. For t < 0 that adds 5 %, but the factor is below 1/2 and its error half as large. With 32 parts: 2, 4, 4, 2, 4,
 * 4, 1 and 1, together 22, and 1 % for t < 0.
 *
 * A sigmoid times a, which is 1 or x, is a / D, D = 1 + e^-x = d + d'. The sum of two numbers in order of magnitude has an
 * exact error, so that d' is within 2^-47 of D. With r = 1 / d to a relative error below 2^-21.9, q = a r and s = a - d q -
 * d' q, which is below 2^-20.9 a and has an error below 2^-43.9 a by two roundings,
 *
 *     a / D = q + r s,
 *
 * where r s has an error of 2^-42.8 by that of r, 2^-44.9 by its rounding and 2^-43.9 by the d' in 1 / D: together below half a
 * unit. e^-x adds less than its own error, and its last rounding, of low +- the bound, is that of a smaller number here.
 */
#ifndef MXFP_BODY_PAIRS_H
#define MXFP_BODY_PAIRS_H

#include "body/functions.h"

#if VECTOR_BYTES == 64
#define PAIR_BOUND 0x1.8p-36F /* 24 units */
#define PARTS_OF_E 0x1.715476p+5F /* PARTS / log 2 */
#define LN2_HIGH 0x1.62e43p-6F
#define LN2_LOW -0x1.05c61p-34F
#define ROOTS exp2_root_32
#define ROOT_RESTS exp2_rest_32
#define SECOND exp_second_32
enum { LOG2_PARTS = 5 };
#else
#define PAIR_BOUND 0x1.6p-32F /* 352 units */
#define PARTS_OF_E 0x1.715476p+3F
#define LN2_HIGH 0x1.62e43p-4F
#define LN2_LOW -0x1.05c61p-32F
#define ROOTS exp2_root_8
#define ROOT_RESTS exp2_rest_8
#define SECOND exp_second_8
enum { LOG2_PARTS = 3 };
#endif
#define ROUND_TO_INTEGER_F32 0x1.8p23F

/* Has a bit set if a result is not decided; how far the arguments lie above the least ordinary one, at most. */
struct doubt {
	vu32 differences, most;
};

/* (high + low) 2^k, k the low bits of `exponent`. */
struct pair {
	vf32 high, low;
	vu32 exponent;
};

/* The inputs that pairs are right for. */
ALWAYS_INLINE struct range pair_range(enum mxfp_function function)
{
	const uint32_t most = UINT32_C(0x42800000); /* 64 */

	if (function == MXFP_FUNCTION_SIGMOID)
		return (struct range){0, most};
	if (function == MXFP_FUNCTION_SILU)
		return (struct range){UINT32_C(0x21800000), most}; /* 2^-60, so that no product is subnormal */
	return ordinary_range((struct function){MXFP_FUNCTION_EXP, 0});
}

/* Whether value_by_pair() computes this function. */
ALWAYS_INLINE bool has_pair(struct function f)
{
	return f.function == MXFP_FUNCTION_EXP || f.function == MXFP_FUNCTION_SIGMOID ||
	       (f.function == MXFP_FUNCTION_SILU && f.parameter == F32_ONE);
}

/* e^x. */
ALWAYS_INLINE struct pair exp_pair(vf32 x)
{
	const vf32 shifted = fma_f32(x, splat_f32(PARTS_OF_E), splat_f32(ROUND_TO_INTEGER_F32));
	const vf32 n = shifted - splat_f32(ROUND_TO_INTEGER_F32);
	const vf32 t = fma_f32(n, splat_f32(-LN2_HIGH), x);
	const vf32 c = fma_f32(n, splat_f32(-LN2_LOW), permute_f32(ROOT_RESTS, (vu32)shifted));
	const vf32 root = permute_f32(ROOTS, (vu32)shifted);
	const vf32 high = fma_f32(root, t, root), error = fma_f32(root, t, root - high);
	const size_t n_second = sizeof SECOND / sizeof *SECOND;
	vf32 rest = splat_f32(SECOND[n_second - 1]);

#pragma GCC unroll 4
	for (size_t i = n_second - 2; i != 0; i--)
		rest = fma_f32(t, rest, splat_f32(SECOND[i]));
	rest = fma_f32(t, rest, fma_f32(c, splat_f32(0.5F), splat_f32(SECOND[0])));
	rest = fma_f32(t * t, rest, fma_f32(c, t, c));
	return (struct pair){high, fma_f32(root, rest, error), (vu32)shifted >> LOG2_PARTS};
}

/* The number that the sum rounds to, unless *doubt says afterwards that it may be another one. */
ALWAYS_INLINE vu32 round_pair(vf32 high, vf32 low, struct doubt *doubt)
{
	const vu32 least = (vu32)(high + fma_f32(high, splat_f32(-PAIR_BOUND), low));
	const vu32 result = (vu32)(high + fma_f32(high, splat_f32(PAIR_BOUND), low));

	doubt->differences |= least ^ result;
	return result;
}

/* numerator / (1 + e^-x). */
ALWAYS_INLINE vu32 sigmoid_by_pair(vf32 numerator, vf32 x, struct doubt *doubt)
{
	const vf32 one = splat_f32(1);
	const struct pair e = exp_pair(-x);
	const vf32 power = (vf32)((e.exponent << F32_SIGNIFICAND_BITS) + F32_ONE);
	const vf32 nearest = e.high + e.low, high = nearest * power, low = (e.low - (nearest - e.high)) * power;
	const vf32 greater = max_f32(high, one), d = one + high;
	const vf32 rest = min_f32(high, one) - (d - greater) + low;
	const vf32 r = reciprocal_f32(d), q = numerator * r;

	return round_pair(q, r * fma_f32(-rest, q, fma_f32(-d, q, numerator)), doubt);
}

/* f(x) of a function that has_pair(), unless *doubt says afterwards that it may be another number. */
ALWAYS_INLINE vu32 value_by_pair(enum mxfp_function function, vf32 x, struct doubt *doubt)
{
	doubt->most = max_u32(doubt->most, ((vu32)x & ~F32_SIGN) - pair_range(function).low);
	if (function != MXFP_FUNCTION_EXP)
		return sigmoid_by_pair(function == MXFP_FUNCTION_SILU ? x : splat_f32(1), x, doubt);
	const struct pair e = exp_pair(x);

	return round_pair(e.high, e.low, doubt) + (e.exponent << F32_SIGNIFICAND_BITS);
}

/* Whether a result may be another number. */
ALWAYS_INLINE bool doubtful(enum mxfp_function function, const struct doubt *doubt)
{
	const struct range range = pair_range(function);

	return any((vs32)doubt->differences | (vs32)(doubt->most > splat(range.high - range.low)));
}

#endif
