/* SPDX-License-Identifier: MIT */
/* Finishes a row of complete sums as mxfp_gemm_finish_ref() does, a vector at a time: each step is one binary32
   operation, and the last replaces every NaN by 7FC00000. */
#include "tier.h"

#include "body/slots.h"

/* Loads `rest` numbers from i on, LANES of them at most; other lanes are zeros. */
ALWAYS_INLINE vf32 operand(const float *x, size_t i, size_t rest)
{
	return rest == LANES ? (vf32)load(x + i) : (vf32)load_first(x + i, rest);
}

/* Finishes the lanes from i on; there are `rest` of them, or LANES. */
ALWAYS_INLINE vu32 finish_lanes(const struct mxfp_gemm_finish_job *job, size_t i, size_t rest)
{
	vf32 v = operand(job->sum, i, rest);

	if (job->multiplies)
		v *= job->multiply;
	if (job->divides)
		v /= job->divide;
	if (job->given != NULL)
		v = operand(job->given, i, rest) + v;
	if (job->bias != NULL)
		v += operand(job->bias, i, rest);
	if (job->gate != NULL)
		v *= operand(job->gate, i, rest);
	if (job->residual != NULL)
		v += operand(job->residual, i, rest);
	return blend(v == v, (vu32)v, splat(F32_NAN));
}

static NOINLINE void finish(const struct mxfp_gemm_finish_job *job)
{
	size_t i = 0;

	for (; job->n - i >= LANES; i += LANES)
		store(job->result + i, finish_lanes(job, i, LANES));
	if (i == job->n)
		return;
	vu32 last = finish_lanes(job, i, job->n - i);
	memcpy(job->result + i, &last, (job->n - i) * sizeof(float));
}

FP_KERNEL(TIER(gemm_finish), mxfp_gemm_finish_job, finish)
