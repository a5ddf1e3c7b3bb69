/* SPDX-License-Identifier: MIT */
/* Finishes a row of complete sums as mxfp_gemm_finish_ref() does, a vector at a time: each step is one binary32
   operation, and the last replaces every NaN by 7FC00000. */
#include "tier.h"

#include "body/slots.h"

ALWAYS_INLINE vu32 finish_lanes(const struct mxfp_gemm_finish_job *job, vf32 sum, vf32 given, vf32 bias)
{
	vf32 v = sum;

	if (job->multiplies)
		v *= job->multiply;
	if (job->divides)
		v /= job->divide;
	if (job->given != NULL)
		v = given + v;
	if (job->bias != NULL)
		v += bias;
	return blend(v == v, (vu32)v, splat(F32_NAN));
}

static NOINLINE void finish(const struct mxfp_gemm_finish_job *job)
{
	size_t i = 0;

	for (; job->n - i >= LANES; i += LANES) {
		vf32 given = {0}, bias = {0};

		if (job->given != NULL)
			given = (vf32)load(job->given + i);
		if (job->bias != NULL)
			bias = (vf32)load(job->bias + i);
		store(job->result + i, finish_lanes(job, (vf32)load(job->sum + i), given, bias));
	}
	if (i == job->n)
		return;
	size_t rest = job->n - i;
	vf32 given = {0}, bias = {0};

	if (job->given != NULL)
		given = (vf32)load_first(job->given + i, rest);
	if (job->bias != NULL)
		bias = (vf32)load_first(job->bias + i, rest);
	vu32 last = finish_lanes(job, (vf32)load_first(job->sum + i, rest), given, bias);
	memcpy(job->result + i, &last, rest * sizeof(float));
}

FP_KERNEL(TIER(gemm_finish), mxfp_gemm_finish_job, finish)
