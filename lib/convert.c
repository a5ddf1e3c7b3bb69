/* SPDX-License-Identifier: MIT */
/* mxfp_convert(): checks the arguments and runs one kernel slot over fixed pieces. */
#include "mxfp/convert.h"

#include "args.h"
#include "exec.h"
#include "result.h"
#include "sized.h"
#include "tile.h"

/* A conversion of a whole matrix; the job's n, dst and src are those of its first row. */
struct conversion {
	struct mxfp_convert_job job;
	size_t rows, cols, dst_stride, src_stride;
};

static void convert_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                          struct mxfp_counts *counts)
{
	const struct conversion *whole = context;
	const struct mxfp_tile tile = mxfp_tile(whole->rows, whole->cols, piece);
	const size_t dst_width = mxfp_format_get_info(whole->job.dst_format)->storage_bytes;
	const size_t src_width = mxfp_format_get_info(whole->job.src_format)->storage_bytes;
	struct mxfp_convert_job job = whole->job;

	job.n = tile.cols;
	job.counts = counts;
	for (size_t row = tile.row; row < tile.row + tile.rows; row++) {
		job.dst = (uint8_t *)whole->job.dst + (row * whole->dst_stride + tile.col) * dst_width;
		job.src = (const uint8_t *)whole->job.src + (row * whole->src_stride + tile.col) * src_width;
		job.first_index = whole->job.first_index + row * whole->cols + tile.col;
		kernels->convert[job.dst_format][job.src_format](&job);
	}
}

static enum mxfp_status check(struct mxfp_sink *sink, struct mxfp_rows *src, const struct mxfp_result *result,
                              const struct mxfp_matrix *matrix, const struct mxfp_convert_options *o)
{
	enum mxfp_status status = mxfp_check_numbers(src, matrix, mxfp_is_element);

	if (status == MXFP_OK)
		status = mxfp_check_result(sink, result, mxfp_is_element, MXFP_TAKES_COUNTS, src->rows, src->cols);
	if (status != MXFP_OK)
		return status;
	if (!mxfp_option_valid(MXFP_OPTION_ROUND, (int)o->round) || !mxfp_option_valid(MXFP_OPTION_OVERFLOW, (int)o->overflow))
		return MXFP_ERR_OPTION;
	if (o->first_index > UINT64_MAX - (uint64_t)src->rows * src->cols)
		return MXFP_ERR_SIZE;
	return mxfp_sink_touches(sink, &src->memory) ? MXFP_ERR_OVERLAP : MXFP_OK;
}

enum mxfp_status mxfp_convert(const struct mxfp_result *result, const struct mxfp_matrix *src,
                              const struct mxfp_convert_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_convert_options copy;
	const struct mxfp_convert_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct mxfp_rows from;
	struct mxfp_sink to;

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = check(&to, &from, result, src, o);
	if (status != MXFP_OK || to.data.data == NULL)
		return status;
	struct conversion whole = {
		.job = {
			.dst_format = to.data.format,
			.src_format = from.format,
			.dst = (void *)(uintptr_t)to.data.data,
			.src = from.data,
			.first_index = o->first_index,
			.rounding = {o->round, o->overflow, o->no_negative_zero, o->seed, o->stream},
			.past_caches = to.data.memory.bytes >= MXFP_PAST_CACHES_BYTES,
		},
		.rows = from.rows,
		.cols = from.cols,
		.dst_stride = to.data.stride,
		.src_stride = from.stride,
	};
	if (from.rows > 1 && from.stride == from.cols && to.data.stride == from.cols) { /* one row, cut as an array is */
		whole.cols *= whole.rows;
		whole.rows = 1;
	}
	mxfp_run_pieces(&runner, mxfp_tile_count(whole.rows, whole.cols), convert_piece, &whole, to.counts);
	return MXFP_OK;
}
