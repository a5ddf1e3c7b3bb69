/* SPDX-License-Identifier: MIT */
/* Functions of one number over contiguous numbers: a loop for each function, and what functions.h leaves out of line. */
#include "tier.h"

#include "body/functions.h"
#ifdef HAS_PERMUTE
#include "body/pairs.h"
#endif
#include "body/slots.h"

/* Whether f(0) is that zero. */
ALWAYS_INLINE bool keeps_zero(enum mxfp_function function)
{
	return function == MXFP_FUNCTION_TANH || function == MXFP_FUNCTION_SILU || function == MXFP_FUNCTION_ELU ||
	       function == MXFP_FUNCTION_SELU || function == MXFP_FUNCTION_GELU || function == MXFP_FUNCTION_GELU_TANH ||
	       function == MXFP_FUNCTION_SIN;
}

/* Lanes whose value function_f64() does not compute: infinities unless it clamps them, the numbers that log and rsqrt
   are not defined for, large angles. */
ALWAYS_INLINE vs32 without_value(enum mxfp_function function, vu32 x)
{
	const vu32 magnitude = x & ~F32_SIGN;

	switch (function) {
	case MXFP_FUNCTION_EXP:
	case MXFP_FUNCTION_EXP2:
	case MXFP_FUNCTION_TANH:
	case MXFP_FUNCTION_SIGMOID:
		return (vs32){0};
	case MXFP_FUNCTION_LOG:
	case MXFP_FUNCTION_RSQRT:
		return (vs32)(x - 1 >= splat(F32_INF - 1));
	case MXFP_FUNCTION_SIN:
	case MXFP_FUNCTION_COS:
		return (vs32)(magnitude > splat(ordinary_range((struct function){function, 0}).high));
	default:
		return (vs32)(magnitude == splat(F32_INF));
	}
}

/* A value is settled if both ends of the interval about it round to the same number. */
ALWAYS_INLINE vu32 wide(struct function f, vu32 x)
{
	const bool positive = f.function == MXFP_FUNCTION_LOG || f.function == MXFP_FUNCTION_RSQRT;
	const vs32 is_nan = (vs32)((positive ? x : x & ~F32_SIGN) > splat(positive ? F32_SIGN : F32_INF)) |
	                    (vs32)((x & ~F32_SIGN) > splat(F32_INF));
	const vf64 parameter = splat_widened(f.parameter), bound = splat_f64(WIDE_BOUND);
	vf64 v[2], low[2], high[2];

	widen_lanes((vf32)x, v);
#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		v[i] = function_f64(f.function, parameter, v[i], false);
		low[i] = fma_f64(v[i], -bound, v[i]);
		high[i] = fma_f64(v[i], bound, v[i]);
	}
	vu32 result = (vu32)narrow_f64(low[0], low[1]);
	vs32 open = (vs32)(result != (vu32)narrow_f64(high[0], high[1])) | without_value(f.function, x);

	if (keeps_zero(f.function)) {
		const uint32_t sign = f.function == MXFP_FUNCTION_ELU ? f.parameter & F32_SIGN : 0;
		const vs32 is_zero = (vs32)((x & ~F32_SIGN) == splat(0));

		result = blend(is_zero, x ^ splat(sign), result);
		open &= ~is_zero;
	}
	result = blend(is_nan, splat(F32_NAN), result);
	open &= ~is_nan;
	if (any(open))
		for (int i = 0; i < LANES; i++)
			if (open[i] != 0)
				result[i] = mxfp_function_ref(f.function, x[i], f.parameter);
	return result;
}

/* The results of the first vector of n numbers, whole vectors, and of those behind it up to one whose inputs are ordinary.
   Returns how many numbers these are. */
ALWAYS_INLINE size_t wide_run(struct function f, const float *src, float *dst, size_t n)
{
	size_t i = 0;

	do {
		store(dst + i, wide(f, load(src + i)));
		i += LANES;
	} while (i < n && !are_ordinary(f, load(src + i)));
	return i;
}

static NOINLINE size_t apply_wide(struct function f, const float *src, float *dst, size_t n)
{
	switch (f.function) {
#define FUNCTION(id) \
	case MXFP_FUNCTION_##id: \
		f.function = MXFP_FUNCTION_##id; \
		return wide_run(f, src, dst, n);
	FUNCTION(EXP)
	FUNCTION(EXP2)
	FUNCTION(LOG)
	FUNCTION(TANH)
	FUNCTION(SIGMOID)
	FUNCTION(SILU)
	FUNCTION(SOFTPLUS)
	FUNCTION(ELU)
	FUNCTION(SELU)
	FUNCTION(GELU)
	FUNCTION(GELU_TANH)
	FUNCTION(RSQRT)
	FUNCTION(SIN)
	FUNCTION(COS)
#undef FUNCTION
	default:
		return n;
	}
}

vu32 TIER(wide_lanes)(struct function f, vu32 x)
{
	float in[LANES], out[LANES];

	store(in, x);
	apply_wide(f, in, out, LANES);
	return load(out);
}

/* Whether function_lanes() computes the function as it is, without a rounding test. */
ALWAYS_INLINE bool is_direct(enum mxfp_function function)
{
	return function == MXFP_FUNCTION_IDENTITY || function == MXFP_FUNCTION_RELU ||
	       function == MXFP_FUNCTION_LEAKY_RELU || function == MXFP_FUNCTION_RECIPROCAL;
}

#ifdef HAS_PERMUTE
enum { PAIR_VECTORS = 2 };

/* A group of vectors one of which was not decided. */
ALWAYS_INLINE void decide(struct function f, const float *src, float *dst)
{
	for (size_t i = 0; i < PAIR_VECTORS * LANES; i += LANES)
		store(dst + i, function_lanes(f, load(src + i)));
}

static NOINLINE void apply_slowly(enum mxfp_function function, const float *src, float *dst)
{
	if (function == MXFP_FUNCTION_EXP)
		decide((struct function){MXFP_FUNCTION_EXP, 0}, src, dst);
	else if (function == MXFP_FUNCTION_SIGMOID)
		decide((struct function){MXFP_FUNCTION_SIGMOID, 0}, src, dst);
	else
		decide((struct function){MXFP_FUNCTION_SILU, F32_ONE}, src, dst);
}

/* Whole groups of vectors of a function that has_pair(). Returns how many numbers these are. */
ALWAYS_INLINE size_t apply_by_pairs(const struct mxfp_apply_job *job, enum mxfp_function function)
{
	const float *src = job->src;
	float *dst = job->dst;
	size_t i = 0;

	for (const size_t n = job->n; n - i >= PAIR_VECTORS * LANES; i += PAIR_VECTORS * LANES) {
		struct doubt doubt = {{0}, {0}};
		vu32 y[PAIR_VECTORS];

#pragma GCC unroll 2
		for (int k = 0; k < PAIR_VECTORS; k++)
			y[k] = value_by_pair(function, (vf32)load(src + i + k * LANES), &doubt);
		if (__builtin_expect(doubtful(function, &doubt), false)) {
			apply_slowly(function, src + i, dst + i);
			continue;
		}
#pragma GCC unroll 2
		for (int k = 0; k < PAIR_VECTORS; k++)
			store(dst + i + k * LANES, y[k]);
	}
	return i;
}
#endif

/* The inner loop has no call, so that constants stay in registers. */
ALWAYS_INLINE void apply_all(const struct mxfp_apply_job *job, enum mxfp_function function)
{
	const struct function f = {function, job->parameter};
	const float *src = job->src;
	float *dst = job->dst;
	size_t i = 0, n = job->n;

#ifdef HAS_PERMUTE
	if (has_pair(f))
		i = apply_by_pairs(job, function);
#endif
	while (n - i >= LANES) {
		for (; n - i >= LANES; i += LANES) {
			const vu32 x = load(src + i);
			vu32 y;

			if (is_direct(function))
				y = function_lanes(f, x);
			else if (!quick_lanes(f, x, widen_f32(src + i), widen_f32(src + i + LANES / 2), &y))
				break;
			store(dst + i, y);
		}
		if (n - i >= LANES)
			i += apply_wide(f, src + i, dst + i, (n - i) / LANES * LANES);
	}
	if (i == n)
		return;
	const vu32 last = function_lanes(f, load_first(src + i, n - i));

	memcpy(dst + i, &last, (n - i) * sizeof *dst);
}

#define MXFP_FUNCTION(id, value, name, meaning) \
	static NOINLINE void apply_##id(const struct mxfp_apply_job *job) \
	{ \
		apply_all(job, MXFP_FUNCTION_##id); \
	}
#include "option.def"

static NOINLINE void apply(const struct mxfp_apply_job *job)
{
	switch (job->function) {
#define MXFP_FUNCTION(id, value, name, meaning) \
	case MXFP_FUNCTION_##id: \
		apply_##id(job); \
		break;
#include "option.def"
	}
}

FP_KERNEL(TIER(apply), mxfp_apply_job, apply)
