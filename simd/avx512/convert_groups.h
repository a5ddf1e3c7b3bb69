/* SPDX-License-Identifier: MIT */
/*
 * What the fast paths of conversion (decode.c, encode.c) share. They work on groups of 64 numbers and leave rare cases
 * to the general kernel, body/convert.c: special numbers, other rounding modes, the numbers after the last group.
 */
#ifndef MXFP_AVX512_CONVERT_GROUPS_H
#define MXFP_AVX512_CONVERT_GROUPS_H

#include "tier.h"
#include "body/slots.h"
#include "body/stream.h"

enum {
	GROUP = 64,
	PREFETCH_BYTES = 8192,      /* ahead of the loads */
	PREFETCH_DST_BYTES = 4096   /* ahead of ordinary stores, which first read the line that they overwrite */
};

/* The part of a job for n numbers from i on. */
static inline struct mxfp_convert_job job_part(const struct mxfp_convert_job *job, size_t i, size_t n)
{
	struct mxfp_convert_job part = *job;

	part.dst = (uint8_t *)job->dst + i * mxfp_format_get_info(job->dst_format)->storage_bytes;
	part.src = (const uint8_t *)job->src + i * mxfp_format_get_info(job->src_format)->storage_bytes;
	part.n = n;
	part.first_index += i;
	return part;
}

/* Whether the control register has the rounding mode. */
static inline bool has_direction(enum mxfp_round mode)
{
	return mode == MXFP_ROUND_RNE || mode == MXFP_ROUND_RTZ || mode == MXFP_ROUND_RTP || mode == MXFP_ROUND_RTN;
}

static inline unsigned direction(enum mxfp_round mode)
{
	return mode == MXFP_ROUND_RTZ   ? _MM_ROUND_TOWARD_ZERO
	       : mode == MXFP_ROUND_RTP ? _MM_ROUND_UP
	       : mode == MXFP_ROUND_RTN ? _MM_ROUND_DOWN
	                                : _MM_ROUND_NEAREST;
}

/* How many numbers precede the first that begins a cache line of the destination; 0 if none begins one. */
static inline size_t before_line(const struct mxfp_convert_job *job)
{
	size_t bytes = mxfp_format_get_info(job->dst_format)->storage_bytes, lead = -(uintptr_t)job->dst % STREAM_LINE_BYTES;

	return lead % bytes != 0 ? 0 : lead / bytes < job->n ? lead / bytes : job->n;
}

/* Runs `convert`, which must be NOINLINE, on whole groups with the job's rounding mode in the control register, and the
   general kernel on the rest, or on everything if convert is NULL. Only aligned groups are stored past the caches. */
static inline void convert_groups(const struct mxfp_convert_job *job, mxfp_convert_kernel *convert)
{
	size_t lead = job->past_caches && convert != NULL ? before_line(job) : 0;
	size_t end = convert != NULL ? job->n - (job->n - lead) % GROUP : 0;
	struct mxfp_convert_job first = job_part(job, 0, lead), whole = job_part(job, lead, end - lead);
	struct mxfp_convert_job rest = job_part(job, end, job->n - end);

	whole.past_caches = job->past_caches && (uintptr_t)whole.dst % STREAM_LINE_BYTES == 0;
	if (first.n != 0)
		TIER(convert)(&first);
	if (whole.n != 0) {
		struct fp_state state = fp_enter();
		_mm_setcsr(MXCSR_DEFAULT | direction(job->rounding.mode));
		convert(&whole);
		fp_leave(state);
	}
	if (whole.past_caches)
		stream_end();
	if (rest.n != 0)
		TIER(convert)(&rest);
}

/* Stores 16 numbers. With past_caches, `to` must begin a cache line. */
ALWAYS_INLINE void store_numbers(uint32_t *to, __m512i x, bool past_caches)
{
	if (past_caches)
		_mm512_stream_si512((void *)to, x);
	else
		_mm512_storeu_si512(to, x);
}

#endif
