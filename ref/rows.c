/* SPDX-License-Identifier: MIT */
/* The reference kernels of row operations: doc/numerics.md, section 9, one number after the other. */
#include <string.h>

#include "f32.h"
#include "f64.h"
#include "ref.h"

#define F32_ONE UINT32_C(0x3F800000)

static void set(float *array, size_t i, uint32_t bits)
{
	memcpy(array + i, &bits, sizeof bits);
}

/* fl32(fl64(x - mean)). */
static uint32_t deviation(uint32_t x, uint64_t mean)
{
	return mxfp_f64_to_f32(mxfp_f64_sub(mxfp_f64_from_f32(x), mean));
}

/* Lane j takes lane j + 8, then j + 4, j + 2, j + 1. */
static uint64_t sum_of_lanes(const uint64_t *lanes)
{
	uint64_t sum[MXFP_SUM_LANES];

	memcpy(sum, lanes, sizeof sum);
	for (size_t n = MXFP_SUM_LANES / 2; n > 0; n /= 2)
		for (size_t j = 0; j < n; j++)
			sum[j] = mxfp_f64_add(sum[j], sum[j + n]);
	return sum[0];
}

void mxfp_row_sum_ref(const struct mxfp_row_sum_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		uint64_t *lane = &job->lanes[i % MXFP_SUM_LANES];
		uint32_t x = mxfp_ref_number(job->x, i);

		if (job->sum == MXFP_SUM_DEVIATIONS)
			x = deviation(x, job->mean);
		const uint64_t wide = mxfp_f64_from_f32(x);
		*lane = job->sum == MXFP_SUM_NUMBERS ? mxfp_f64_add(*lane, wide) : mxfp_f64_fma(wide, wide, *lane);
	}
	if (job->total != NULL)
		*job->total = sum_of_lanes(job->lanes);
}

/* An integer with the order of numbers, in which -0 < +0; a NaN is above all, and all are one. */
static uint32_t order(uint32_t x)
{
	if (mxfp_f32_is_nan(x))
		x = MXFP_F32_NAN;
	return x & MXFP_F32_SIGN ? ~x : x | MXFP_F32_SIGN;
}

void mxfp_row_max_ref(struct mxfp_row_max_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		const uint32_t x = mxfp_ref_number(job->x, i);
		const bool is_first = job->index == UINT64_MAX;
		/* An index moves on to a number that is greater, or to the first NaN; +0 is not greater than -0. */
		const bool exceeds = !mxfp_f32_is_nan(job->max) &&
		                     (mxfp_f32_is_nan(x) || mxfp_f32_compare(x, job->max) > 0);

		if (job->wants_index && (is_first || exceeds))
			job->index = job->first_index + i;
		if (order(x) > order(job->max))
			job->max = mxfp_f32_is_nan(x) ? MXFP_F32_NAN : x;
	}
}

static uint32_t score(const struct mxfp_softmax_job *job, size_t i)
{
	uint32_t z = mxfp_ref_number(job->x, i);

	if (job->has_scale)
		z = mxfp_f32_mul(z, job->scale);
	if (job->mask != NULL)
		z = mxfp_f32_add(z, mxfp_ref_number(job->mask, i));
	return mxfp_f32_is_nan(z) ? MXFP_F32_NAN : z;
}

void mxfp_softmax_ref(const struct mxfp_softmax_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		uint32_t z = score(job, i);

		if (job->step != MXFP_SOFTMAX_SCORES)
			z = mxfp_f32_sub(z, job->max);
		if (job->step == MXFP_SOFTMAX_EXPONENTIALS)
			z = mxfp_function_ref(MXFP_FUNCTION_EXP, z, 0);
		if (job->step == MXFP_SOFTMAX_LOGARITHM)
			z = mxfp_f32_sub(z, job->log_total);
		set(job->dst, i, z);
	}
	if (job->step == MXFP_SOFTMAX_EXPONENTIALS)
		mxfp_row_sum_ref(&(struct mxfp_row_sum_job){
			.sum = MXFP_SUM_NUMBERS, .x = job->dst, .n = job->n, .lanes = job->lanes, .total = job->total,
		});
}

void mxfp_norm_ref(const struct mxfp_norm_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		uint32_t x = mxfp_ref_number(job->x, i), weight = F32_ONE;

		if (job->is_centred)
			x = deviation(x, job->mean);
		x = mxfp_f32_mul(x, job->factor);
		if (job->weight != NULL)
			weight = mxfp_ref_number(job->weight, i);
		if (job->weight_plus_one)
			weight = mxfp_f32_add(F32_ONE, weight);
		if (job->weight != NULL && job->bias != NULL)
			x = mxfp_f32_fma(x, weight, mxfp_ref_number(job->bias, i));
		else if (job->weight != NULL)
			x = mxfp_f32_mul(x, weight);
		else if (job->bias != NULL)
			x = mxfp_f32_add(x, mxfp_ref_number(job->bias, i));
		set(job->dst, i, x);
	}
}

/* limit if x > limit, else x; likewise -limit. A NaN stays. */
static uint32_t at_most(uint32_t x, uint32_t limit)
{
	return !mxfp_f32_is_nan(x) && mxfp_f32_compare(x, limit) > 0 ? limit : x;
}

static uint32_t at_least(uint32_t x, uint32_t limit)
{
	return !mxfp_f32_is_nan(x) && mxfp_f32_compare(x, limit) < 0 ? limit : x;
}

void mxfp_combine_ref(const struct mxfp_combine_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		const uint32_t x = mxfp_ref_number(job->x, i);
		uint32_t y;

		switch (job->combine) {
		case MXFP_COMBINE_ADD:
			set(job->dst, i, mxfp_f32_add(x, mxfp_ref_number(job->y, i)));
			break;
		case MXFP_COMBINE_MULTIPLY:
			y = mxfp_ref_number(job->y, i);
			if (job->has_limit)
				y = at_least(at_most(y, job->limit), job->limit ^ MXFP_F32_SIGN);
			if (job->plus_one)
				y = mxfp_f32_add(y, F32_ONE);
			set(job->dst, i, mxfp_f32_mul(x, y));
			break;
		case MXFP_COMBINE_LEAST:
			set(job->dst, i, mxfp_f32_is_nan(x) ? MXFP_F32_NAN : at_most(x, job->limit));
			break;
		}
	}
}

void mxfp_rotate_ref(const struct mxfp_rotate_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		const size_t first = job->halves ? i : 2 * i, second = job->halves ? job->n + i : 2 * i + 1;
		const uint32_t a = mxfp_ref_number(job->x, first), b = mxfp_ref_number(job->x, second);
		const uint32_t c = mxfp_ref_number(job->cosine, first), s = mxfp_ref_number(job->sine, first);

		set(job->dst, first, mxfp_f32_sub(mxfp_f32_mul(a, c), mxfp_f32_mul(b, s)));
		set(job->dst, second, mxfp_f32_add(mxfp_f32_mul(b, c), mxfp_f32_mul(a, s)));
	}
}
