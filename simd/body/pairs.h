/* SPDX-License-Identifier: MIT */
/*
 * e^x in binary32 lanes, as the sum of two numbers, for tiers that look up a table of 8 in registers: half as many vectors
 * as the binary64 lanes of functions.h, which decide what is too near to a tie here. With n the integer nearest to 8 x /
 * log 2 and log(2) / 8 = LN2_HIGH + LN2_LOW,
 *
 *     e^x = 2^(n/8) e^(t + c),  t = x - n LN2_HIGH,  c = -n LN2_LOW.
 *
 * LN2_HIGH is a multiple of 2^-24, and |t| < 0.04335. t is exact: if |x| >= 1/2, x is a multiple of 2^-24 and so is t; if
 * it is smaller and n is not 0, |x| > 0.0433 is a multiple of 2^-28, and t one below 2^24 of these; otherwise t is x.
 * The factor 2^(i/8) is a binary32 number T times 1 + rest, and rest joins c. Then
 *
 *     e^x / 2^k = T + T t + T p,  p = t^2 (1/2 + c/2 + t Q(t)) + c (1 + t).
 *
 * T + T t is rounded to `high`, and `low` is the error of that rounding plus T p. The errors relative to the result, in
 * units of 2^-40, are at most: t^2 rounded, 62; its factor, 62, and 1/2 + c/2 in it, 62; p, 32, since it is below 2^-10; low,
 * and low +- the bound, 62 each, since low is above 2^-10 only if the result is above 1.03; Q, 3 (polynomial.h); c^2 / 2,
 * c t^3 / 6 and the rounding of what is smaller, 6. Together 351 for t > 0, which the division by e^t reduces. For t < 0 that
 * adds 5 %, but the factor is below 1/2 and its error half as large. PAIR_BOUND is 352.
 */
#ifndef MXFP_BODY_PAIRS_H
#define MXFP_BODY_PAIRS_H

#include "body/functions.h"

#define PAIR_BOUND 0x1.6p-32F
#define EIGHTHS_OF_E 0x1.715476p+3F /* 8 / log 2 */
#define LN2_HIGH 0x1.62e43p-4F
#define LN2_LOW -0x1.05c61p-32F
#define ROUND_TO_INTEGER_F32 0x1.8p23F

/* Has a bit set if a result is not decided; the largest magnitude of arguments. */
struct doubt {
	vu32 differences, most;
};

/* e^x, unless *doubt says afterwards that it may be another number. */
ALWAYS_INLINE vu32 exp_by_pair(vf32 x, struct doubt *doubt)
{
	const vf32 shifted = fma_f32(x, splat_f32(EIGHTHS_OF_E), splat_f32(ROUND_TO_INTEGER_F32));
	const vf32 n = shifted - splat_f32(ROUND_TO_INTEGER_F32);
	const vf32 t = fma_f32(n, splat_f32(-LN2_HIGH), x);
	const vf32 c = fma_f32(n, splat_f32(-LN2_LOW), permute_f32(exp2_eighths_rest, (vu32)shifted));
	const vf32 root = permute_f32(exp2_eighths, (vu32)shifted);
	const vf32 high = fma_f32(root, t, root), error = fma_f32(root, t, root - high);
	vf32 rest = fma_f32(t, splat_f32(exp_second[3]), splat_f32(exp_second[2]));

	rest = fma_f32(t, rest, splat_f32(exp_second[1]));
	rest = fma_f32(t, rest, fma_f32(c, splat_f32(0.5F), splat_f32(exp_second[0])));
	rest = fma_f32(t * t, rest, fma_f32(c, t, c));
	const vf32 low = fma_f32(root, rest, error);
	const vu32 least = (vu32)(high + fma_f32(high, splat_f32(-PAIR_BOUND), low));
	const vu32 result = (vu32)(high + fma_f32(high, splat_f32(PAIR_BOUND), low));

	doubt->differences |= least ^ result;
	doubt->most = max_u32(doubt->most, (vu32)x & ~F32_SIGN);
	return result + ((vu32)shifted >> 3 << F32_SIGNIFICAND_BITS);
}

/* Whether a result may be another number. */
ALWAYS_INLINE bool doubtful(const struct doubt *doubt)
{
	const struct range range = ordinary_range((struct function){MXFP_FUNCTION_EXP, 0});

	return any((vs32)doubt->differences | (vs32)(doubt->most > splat(range.high)));
}

#endif
