/* SPDX-License-Identifier: MIT */
/* mxfp_convert(): checks the arguments and runs one kernel slot over fixed pieces. */
#include "mxfp/convert.h"

#include "args.h"
#include "exec.h"
#include "sized.h"
#include "tile.h"

static void convert_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                          struct mxfp_counts *counts)
{
	const struct mxfp_convert_job *whole = context;
	struct mxfp_tile tile = mxfp_tile(1, whole->n, piece);
	struct mxfp_convert_job job = *whole;

	job.dst = (uint8_t *)whole->dst + tile.col * mxfp_format_get_info(whole->dst_format)->storage_bytes;
	job.src = (const uint8_t *)whole->src + tile.col * mxfp_format_get_info(whole->src_format)->storage_bytes;
	job.n = tile.cols;
	job.first_index = whole->first_index + tile.col;
	job.counts = counts;
	kernels->convert[job.dst_format][job.src_format](&job);
}

static enum mxfp_status check(const struct mxfp_convert_job *job)
{
	struct mxfp_region dst, src;

	if (!mxfp_is_element(job->dst_format) || !mxfp_is_element(job->src_format))
		return MXFP_ERR_FORMAT;
	if (!mxfp_option_valid(MXFP_OPTION_ROUND, (int)job->rounding.mode) ||
	    !mxfp_option_valid(MXFP_OPTION_OVERFLOW, (int)job->rounding.overflow))
		return MXFP_ERR_OPTION;
	if (job->n != 0 && (job->dst == NULL || job->src == NULL))
		return MXFP_ERR_NULL;
	const size_t dst_width = mxfp_format_get_info(job->dst_format)->storage_bytes;
	const size_t src_width = mxfp_format_get_info(job->src_format)->storage_bytes;
	if (!mxfp_region(&dst, job->dst, job->n, dst_width, dst_width) || !mxfp_region(&src, job->src, job->n, src_width, src_width) ||
	    job->first_index > UINT64_MAX - job->n)
		return MXFP_ERR_SIZE;
	return mxfp_overlap(&dst, &src) ? MXFP_ERR_OVERLAP : MXFP_OK;
}

enum mxfp_status mxfp_convert(void *dst, enum mxfp_format dst_format, const void *src, enum mxfp_format src_format,
                              size_t n, const struct mxfp_convert_options *options)
{
	struct mxfp_convert_options copy;
	const struct mxfp_convert_options *o = MXFP_SIZED(options, &copy, exec);
	struct mxfp_runner runner;

	if (o == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&runner, o->exec);
	if (status == MXFP_OK)
		status = mxfp_check_counts(o->counts);
	if (status != MXFP_OK)
		return status;
	struct mxfp_convert_job job = {
		.dst_format = dst_format,
		.src_format = src_format,
		.dst = dst,
		.src = src,
		.n = n,
		.first_index = o->first_index,
		.rounding = {o->round, o->overflow, o->no_negative_zero, o->seed, o->stream},
	};
	status = check(&job);
	if (status != MXFP_OK)
		return status;
	job.past_caches = n >= MXFP_PAST_CACHES_BYTES / mxfp_format_get_info(dst_format)->storage_bytes;
	mxfp_run_pieces(&runner, mxfp_tile_count(1, n), convert_piece, &job, o->counts);
	return MXFP_OK;
}
