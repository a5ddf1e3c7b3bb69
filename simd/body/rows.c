/* SPDX-License-Identifier: MIT */
/*
 * Row operations as ref/rows.c defines them, a vector at a time. A sum has 16 lanes of binary64 whatever the tier, so it is
 * taken 16 numbers at a time. What is missing at the end of a row counts as +0, which changes no lane: a lane starts at +0,
 * and no sum to nearest of +0 and other numbers is -0.
 */
#include "tier.h"

#include "body/functions.h"
#include "body/slots.h"
#ifdef HAS_PERMUTE
#include "body/pairs.h"
#endif

enum {
	WIDE_LANES = LANES / 2,
	SUMS = MXFP_SUM_LANES / WIDE_LANES, /* vectors of the lanes of a sum */
	GROUP = MXFP_SUM_LANES / LANES      /* vectors of as many numbers */
};

/* Bytes: hardware prefetches too late behind sums, and not at all what is stored once. */
enum { READ_AHEAD = 2048, WRITE_AHEAD = 4096 };

/* The lanes of a sum, in order. */
struct lanes {
	vf64 v[SUMS];
};

ALWAYS_INLINE struct lanes load_lanes(const uint64_t *at)
{
	struct lanes lanes;

#pragma GCC unroll 8
	for (int i = 0; i < SUMS; i++)
		memcpy(&lanes.v[i], at + i * WIDE_LANES, sizeof lanes.v[i]);
	return lanes;
}

/* Lane j takes lane j + 8, then j + 4, j + 2, j + 1. */
static NOINLINE void store_total(uint64_t *total, const uint64_t *lanes)
{
	uint64_t sums[MXFP_SUM_LANES + WIDE_LANES] = {0};
	vf64 lower, upper;

	memcpy(sums, lanes, MXFP_SUM_LANES * sizeof *sums);
	for (int n = MXFP_SUM_LANES / 2; n > 0; n /= 2)
		for (int i = 0; i < n; i += WIDE_LANES) {
			memcpy(&lower, sums + i, sizeof lower);
			memcpy(&upper, sums + i + n, sizeof upper);
			lower += upper;
			memcpy(sums + i, &lower, sizeof lower);
		}
	*total = sums[0];
}

ALWAYS_INLINE void store_lanes(uint64_t *at, uint64_t *total, const struct lanes *lanes)
{
#pragma GCC unroll 8
	for (int i = 0; i < SUMS; i++)
		memcpy(at + i * WIDE_LANES, &lanes->v[i], sizeof lanes->v[i]);
	if (total != NULL)
		store_total(total, at);
}

ALWAYS_INLINE vf64 splat_bits(uint64_t bits)
{
	return (vf64)((vu64){0} + bits);
}

ALWAYS_INLINE vu32 canonical(vf32 v)
{
	return blend(v == v, (vu32)v, splat(F32_NAN));
}

/* All ones in lanes whose number, `first` and following, is below n. */
ALWAYS_INLINE vs32 first_lanes(size_t first, size_t n)
{
	return (vs32)(lane_numbers() + (uint32_t)first < splat((uint32_t)n));
}

/* fl32(fl64(x - mean)) of LANES numbers. */
ALWAYS_INLINE vf32 deviation(const float *x, vf64 mean)
{
	return narrow_f64(widen_f32(x) - mean, widen_f32(x + WIDE_LANES) - mean);
}

/* 16 numbers, of which those from number n on do not count. */
ALWAYS_INLINE void sum_step(enum mxfp_sum sum, const float *x, vf64 mean, size_t n, struct lanes *lanes)
{
	float distances[MXFP_SUM_LANES];

	if (sum == MXFP_SUM_DEVIATIONS) {
#pragma GCC unroll 4
		for (int i = 0; i < MXFP_SUM_LANES; i += LANES) {
			vu32 d = (vu32)deviation(x + i, mean);

			if (n < MXFP_SUM_LANES)
				d &= (vu32)first_lanes((size_t)i, n);
			store(distances + i, d);
		}
		x = distances;
	}
#pragma GCC unroll 8
	for (int i = 0; i < SUMS; i++) {
		const vf64 v = widen_f32(x + i * WIDE_LANES);

		/* A square is exact in binary64, and the sum alone is sooner there than a fused one. */
		lanes->v[i] += sum == MXFP_SUM_NUMBERS ? v : v * v;
	}
}

ALWAYS_INLINE void sum_strip(const struct mxfp_row_sum_job *job, enum mxfp_sum sum)
{
	struct lanes lanes = load_lanes(job->lanes);
	const vf64 mean = splat_bits(job->mean);
	const size_t whole = job->n & ~(size_t)(MXFP_SUM_LANES - 1);
	const char *next = job->next != NULL ? job->next : (const char *)job->x + READ_AHEAD;
	float rest[MXFP_SUM_LANES] = {0};

	for (size_t i = 0; i < whole; i += MXFP_SUM_LANES) {
		__builtin_prefetch(next + i * sizeof *job->x);
		sum_step(sum, job->x + i, mean, MXFP_SUM_LANES, &lanes);
	}
	if (whole < job->n) {
		memcpy(rest, job->x + whole, (job->n - whole) * sizeof rest[0]);
		sum_step(sum, rest, mean, job->n - whole, &lanes);
	}
	store_lanes(job->lanes, job->total, &lanes);
}

static NOINLINE void row_sum(const struct mxfp_row_sum_job *job)
{
	switch (job->sum) {
	case MXFP_SUM_NUMBERS:
		sum_strip(job, MXFP_SUM_NUMBERS);
		break;
	case MXFP_SUM_SQUARES:
		sum_strip(job, MXFP_SUM_SQUARES);
		break;
	case MXFP_SUM_DEVIATIONS:
		sum_strip(job, MXFP_SUM_DEVIATIONS);
		break;
	}
}

FP_KERNEL(TIER(row_sum), mxfp_row_sum_job, row_sum)

/* An integer with the order of numbers, in which -0 < +0; a NaN is above +Inf or below -Inf. */
ALWAYS_INLINE vu32 order_lanes(vu32 x)
{
	return x ^ ((vu32)((vs32)x >> 31) | F32_SIGN);
}

/* The same for one number; a NaN is above all, and all are one. */
static uint32_t order(uint32_t x)
{
	if ((x & ~F32_SIGN) > F32_INF)
		x = F32_NAN;
	return x & F32_SIGN ? ~x : x | F32_SIGN;
}

static uint32_t number_of_order(uint32_t x)
{
	return x & F32_SIGN ? x ^ F32_SIGN : ~x;
}

static vu32 load_or_least(const float *x, size_t n)
{
	return blend(first_lanes(0, n), load_first(x, n), splat(F32_SIGN | F32_INF));
}

/* The highest order of n numbers. */
static uint32_t highest(const float *x, size_t n)
{
	vu32 most[2] = {{0}, {0}}, least[2] = {splat(UINT32_MAX), splat(UINT32_MAX)};
	size_t i = 0;

	for (; n - i >= 2 * LANES; i += 2 * LANES)
#pragma GCC unroll 2
		for (int k = 0; k < 2; k++) {
			const vu32 v = order_lanes(load(x + i + k * LANES));

			most[k] = max_u32(most[k], v);
			least[k] = min_u32(least[k], v);
		}
	for (; i < n; i += LANES) {
		const vu32 v = order_lanes(n - i < LANES ? load_or_least(x + i, n - i) : load(x + i));

		most[0] = max_u32(most[0], v);
		least[0] = min_u32(least[0], v);
	}
	most[0] = max_u32(most[0], most[1]);
	least[0] = min_u32(least[0], least[1]);
	const vs32 is_nan = (vs32)(most[0] > splat(F32_INF | F32_SIGN)) | (vs32)(least[0] < splat(~(F32_INF | F32_SIGN)));
	return any(is_nan) ? order(F32_NAN) : max_across(most[0]);
}

/* The first number of the order `most`, where -0 has that of +0. */
static size_t first_of_order(const float *x, size_t n, uint32_t most)
{
	const uint32_t zeros = order(F32_SIGN);

	if (most == zeros + 1)
		most = zeros;
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, x + i, sizeof bits);
		bits = order(bits);
		if (bits == most || (most == zeros && bits == zeros + 1))
			return i;
	}
	return n;
}

/* A number whose order is higher is greater, unless they are -0 and +0. */
static bool exceeds(uint32_t x, uint32_t than)
{
	return x > than && !(than == order(F32_SIGN) && x == than + 1);
}

void TIER(row_max)(struct mxfp_row_max_job *job)
{
	if (job->n == 0)
		return;
	const uint32_t before = order(job->max), most = highest(job->x, job->n);

	if (job->wants_index && (job->index == UINT64_MAX || exceeds(most, before)))
		job->index = job->first_index + first_of_order(job->x, job->n, most);
	if (most > before)
		job->max = number_of_order(most);
}

ALWAYS_INLINE vu32 softmax_lanes(const struct mxfp_softmax_job *job, vf32 x, vf32 mask)
{
	if (job->has_scale)
		x *= splat_f32(float_of(job->scale));
	if (job->mask != NULL)
		x += mask;
	if (job->step != MXFP_SOFTMAX_SCORES)
		x -= splat_f32(float_of(job->max));
	if (job->step == MXFP_SOFTMAX_LOGARITHM)
		x -= splat_f32(float_of(job->log_total));
	return canonical(x);
}

/* exp of a group of vectors one of which was not decided. */
static NOINLINE void exp_slowly(vu32 y[GROUP], const vu32 x[GROUP])
{
	for (int k = 0; k < GROUP; k++)
		y[k] = function_lanes((struct function){MXFP_FUNCTION_EXP, 0}, x[k]);
}

ALWAYS_INLINE void exp_group(vu32 y[GROUP], const vu32 x[GROUP])
{
#ifdef HAS_PERMUTE
	struct doubt doubt = {{0}, {0}};

#pragma GCC unroll 4
	for (int k = 0; k < GROUP; k++)
		y[k] = value_by_pair(MXFP_FUNCTION_EXP, (vf32)x[k], &doubt);
	const bool decided = !doubtful(MXFP_FUNCTION_EXP, &doubt);
#else
	bool decided = true;

#pragma GCC unroll 4
	for (int k = 0; k < GROUP; k++) {
		vf64 wide[2];

		widen_lanes((vf32)x[k], wide);
		decided &= quick_lanes((struct function){MXFP_FUNCTION_EXP, 0}, x[k], wide[0], wide[1], &y[k]);
	}
#endif
	if (__builtin_expect(!decided, false)) {
		vu32 results[GROUP], arguments[GROUP];

#pragma GCC unroll 4
		for (int k = 0; k < GROUP; k++)
			arguments[k] = x[k];
		exp_slowly(results, arguments);
#pragma GCC unroll 4
		for (int k = 0; k < GROUP; k++)
			y[k] = results[k];
	}
}

/* The kinds of scores that are compiled apart. */
struct score_kind {
	bool scale, mask;
};

/* 16 exponentials, of which those from number n on are +0. Where the argument is below -104, the nearest number is +0: so
   masked columns are decided at once. */
ALWAYS_INLINE void exponential_step(const struct mxfp_softmax_job *job, struct score_kind kind, const float *x,
                                    const float *mask, size_t n, vu32 e[GROUP], struct lanes *lanes)
{
	vu32 d[GROUP], zero[GROUP];

#pragma GCC unroll 4
	for (int k = 0; k < GROUP; k++) {
		vf32 z = (vf32)load(x + k * LANES);

		if (kind.scale)
			z *= splat_f32(float_of(job->scale));
		if (kind.mask)
			z += (vf32)load(mask + k * LANES);
		z -= splat_f32(float_of(job->max));
		zero[k] = kind.mask ? (vu32)(z < splat_f32(-104)) : splat(0);
		d[k] = (vu32)z & ~zero[k];
	}
	exp_group(e, d);
#pragma GCC unroll 4
	for (int k = 0; k < GROUP; k++) {
		vf64 wide[2];

		e[k] &= ~zero[k];
		if (n < MXFP_SUM_LANES)
			e[k] &= (vu32)first_lanes((size_t)k * LANES, n);
		widen_lanes((vf32)e[k], wide);
		lanes->v[2 * k] += wide[0];
		lanes->v[2 * k + 1] += wide[1];
	}
}

ALWAYS_INLINE void exponentials(const struct mxfp_softmax_job *job, struct score_kind kind)
{
	const char *next = job->next != NULL ? job->next : (const char *)job->x;
	struct lanes lanes = load_lanes(job->lanes);
	vu32 e[GROUP];
	size_t i = 0;

	for (; job->n - i >= MXFP_SUM_LANES; i += MXFP_SUM_LANES) {
		__builtin_prefetch(next + i * sizeof *job->x);
		__builtin_prefetch((const char *)(job->dst + i) + WRITE_AHEAD, 1);
		exponential_step(job, kind, job->x + i, kind.mask ? job->mask + i : NULL, MXFP_SUM_LANES, e, &lanes);
#pragma GCC unroll 4
		for (int k = 0; k < GROUP; k++)
			store(job->dst + i + k * LANES, e[k]);
	}
	if (i < job->n) {
		float x[MXFP_SUM_LANES] = {0}, mask[MXFP_SUM_LANES] = {0};
		const size_t rest = job->n - i;

		memcpy(x, job->x + i, rest * sizeof x[0]);
		if (kind.mask)
			memcpy(mask, job->mask + i, rest * sizeof x[0]);
		exponential_step(job, kind, x, mask, rest, e, &lanes);
		memcpy(job->dst + i, e, rest * sizeof x[0]);
	}
	store_lanes(job->lanes, job->total, &lanes);
}

ALWAYS_INLINE void exponentials_of(const struct mxfp_softmax_job *job)
{
	if (job->mask != NULL)
		exponentials(job, (struct score_kind){job->has_scale, true});
	else if (job->has_scale)
		exponentials(job, (struct score_kind){true, false});
	else
		exponentials(job, (struct score_kind){false, false});
}

static NOINLINE void softmax(const struct mxfp_softmax_job *at)
{
	const struct mxfp_softmax_job job = *at;
	vf32 mask = {0};
	size_t i = 0;

	if (job.step == MXFP_SOFTMAX_EXPONENTIALS) {
		exponentials_of(&job);
		return;
	}
	for (; job.n - i >= LANES; i += LANES) {
		if (job.mask != NULL)
			mask = (vf32)load(job.mask + i);
		store(job.dst + i, softmax_lanes(&job, (vf32)load(job.x + i), mask));
	}
	if (i == job.n)
		return;
	if (job.mask != NULL)
		mask = (vf32)load_first(job.mask + i, job.n - i);
	const vu32 last = softmax_lanes(&job, (vf32)load_first(job.x + i, job.n - i), mask);
	memcpy(job.dst + i, &last, (job.n - i) * sizeof(float));
}

FP_KERNEL(TIER(softmax), mxfp_softmax_job, softmax)

/* The kinds of norms that are compiled apart. */
struct norm_kind {
	bool is_centred, weight, plus_one, bias;
};

ALWAYS_INLINE vf32 norm_lanes(const struct mxfp_norm_job *job, struct norm_kind kind, const float *from, vf32 weight,
                              vf32 bias)
{
	vf32 x = kind.is_centred ? deviation(from, splat_bits(job->mean)) : (vf32)load(from);

	x *= splat_f32(float_of(job->factor));
	if (kind.plus_one)
		weight += splat_f32(float_of(F32_ONE));
	if (kind.weight && kind.bias)
		x = fma_f32(x, weight, bias);
	else if (kind.weight)
		x *= weight;
	else if (kind.bias)
		x += bias;
	return x;
}

/* Makes every NaN of n results the one that results have. */
static NOINLINE void make_canonical(float *x, size_t n)
{
	size_t i = 0;

	for (; n - i >= LANES; i += LANES)
		store(x + i, canonical((vf32)load(x + i)));
	const vu32 last = canonical((vf32)load_first(x + i, n - i));
	memcpy(x + i, &last, (n - i) * sizeof *x);
}

ALWAYS_INLINE void norm_strip(const struct mxfp_norm_job *job, struct norm_kind kind)
{
	vf32 weight = {0}, bias = {0};
	vs32 is_nan = {0};
	size_t i = 0;

	for (; job->n - i >= LANES; i += LANES) {
		if (kind.weight)
			weight = (vf32)load(job->weight + i);
		if (kind.bias)
			bias = (vf32)load(job->bias + i);
		const vf32 y = norm_lanes(job, kind, job->x + i, weight, bias);

		__builtin_prefetch((const char *)(job->dst + i) + WRITE_AHEAD, 1);
		store(job->dst + i, (vu32)y);
		is_nan |= (vs32)(y != y);
	}
	if (any(is_nan))
		make_canonical(job->dst, i);
	if (i == job->n)
		return;
	const size_t rest = job->n - i;
	if (kind.weight)
		weight = (vf32)load_first(job->weight + i, rest);
	if (kind.bias)
		bias = (vf32)load_first(job->bias + i, rest);
	float x[LANES] = {0};
	memcpy(x, job->x + i, rest * sizeof x[0]);
	const vu32 last = canonical(norm_lanes(job, kind, x, weight, bias));
	memcpy(job->dst + i, &last, rest * sizeof(float));
}

ALWAYS_INLINE void norm_weighted(const struct mxfp_norm_job *job, bool is_centred)
{
	const bool bias = job->bias != NULL;

	if (job->weight == NULL && !bias)
		norm_strip(job, (struct norm_kind){.is_centred = is_centred});
	else if (job->weight != NULL && !bias && !job->weight_plus_one)
		norm_strip(job, (struct norm_kind){.is_centred = is_centred, .weight = true});
	else
		norm_strip(job, (struct norm_kind){is_centred, job->weight != NULL, job->weight_plus_one, bias});
}

static NOINLINE void norm(const struct mxfp_norm_job *at)
{
	const struct mxfp_norm_job job = *at; /* which no store can change */

	if (job.is_centred)
		norm_weighted(&job, true);
	else
		norm_weighted(&job, false);
}

FP_KERNEL(TIER(norm), mxfp_norm_job, norm)

ALWAYS_INLINE vu32 combine_lanes(const struct mxfp_combine_job *job, vf32 x, vf32 y)
{
	const vf32 limit = splat_f32(float_of(job->limit));

	switch (job->combine) {
	case MXFP_COMBINE_ADD:
		return canonical(x + y);
	case MXFP_COMBINE_LEAST:
		return canonical((vf32)blend(x > limit, (vu32)limit, (vu32)x));
	case MXFP_COMBINE_MULTIPLY:
		break;
	}
	if (job->has_limit) {
		y = (vf32)blend(y > limit, (vu32)limit, (vu32)y);
		y = (vf32)blend(y < -limit, (vu32)-limit, (vu32)y);
	}
	if (job->plus_one)
		y += splat_f32(float_of(F32_ONE));
	return canonical(x * y);
}

ALWAYS_INLINE void combine_strip(const struct mxfp_combine_job *job)
{
	const bool both = job->combine != MXFP_COMBINE_LEAST;
	vf32 y = {0};
	size_t i = 0;

	for (; job->n - i >= LANES; i += LANES) {
		if (both)
			y = (vf32)load(job->y + i);
		store(job->dst + i, combine_lanes(job, (vf32)load(job->x + i), y));
	}
	if (i == job->n)
		return;
	const size_t rest = job->n - i;
	if (both)
		y = (vf32)load_first(job->y + i, rest);
	const vu32 last = combine_lanes(job, (vf32)load_first(job->x + i, rest), y);
	memcpy(job->dst + i, &last, rest * sizeof(float));
}

static NOINLINE void combine(const struct mxfp_combine_job *at)
{
	const struct mxfp_combine_job job = *at;

	combine_strip(&job);
}

FP_KERNEL(TIER(combine), mxfp_combine_job, combine)

/* Rotates LANES pairs, or the first n of them; the halves of a row are job->n numbers apart. */
ALWAYS_INLINE void rotate_halves(const struct mxfp_rotate_job *job, size_t i, size_t n)
{
	const vf32 a = (vf32)load_first(job->x + i, n), b = (vf32)load_first(job->x + job->n + i, n);
	const vf32 c = (vf32)load_first(job->cosine + i, n), s = (vf32)load_first(job->sine + i, n);
	const vu32 first = canonical(a * c - b * s), second = canonical(b * c + a * s);

	memcpy(job->dst + i, &first, n * sizeof(float));
	memcpy(job->dst + job->n + i, &second, n * sizeof(float));
}

/* Rotates LANES / 2 pairs that lie side by side, or n / 2: both results are sums if the sine of the first is negated. */
ALWAYS_INLINE void rotate_neighbours(const struct mxfp_rotate_job *job, size_t i, size_t n)
{
	const vu32 x = load_first(job->x + i, n), swapped = (vu32)((vu64)x >> 32 | (vu64)x << 32);
	const vu32 sine = load_first(job->sine + i, n) ^ (splat(F32_SIGN) & (vu32)((lane_numbers() & 1) == splat(0)));
	const vu32 result = canonical((vf32)x * (vf32)load_first(job->cosine + i, n) + (vf32)swapped * (vf32)sine);

	memcpy(job->dst + i, &result, n * sizeof(float));
}

ALWAYS_INLINE void rotate_strip(const struct mxfp_rotate_job *job)
{
	size_t i = 0;

	if (job->halves) {
		for (; job->n - i >= LANES; i += LANES)
			rotate_halves(job, i, LANES);
		if (i < job->n)
			rotate_halves(job, i, job->n - i);
		return;
	}
	for (; 2 * job->n - i >= LANES; i += LANES)
		rotate_neighbours(job, i, LANES);
	if (i < 2 * job->n)
		rotate_neighbours(job, i, 2 * job->n - i);
}

static NOINLINE void rotate(const struct mxfp_rotate_job *at)
{
	const struct mxfp_rotate_job job = *at;

	rotate_strip(&job);
}

FP_KERNEL(TIER(rotate), mxfp_rotate_job, rotate)
