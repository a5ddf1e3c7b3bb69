/* SPDX-License-Identifier: MIT */
/* mxfp_dequantize(): checks the arguments and runs one kernel slot over the pieces of the matrix. */
#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "tile.h"

static void dequantize_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                             struct mxfp_counts *counts)
{
	const struct mxfp_dequantize_job *whole = context;
	struct mxfp_tile tile = mxfp_tile(whole->rows, whole->cols, piece);
	struct mxfp_dequantize_job job = *whole;

	(void)counts;
	job.rows = tile.rows;
	job.cols = tile.cols;
	job.codes = whole->codes + mxfp_codes_offset(whole->format, whole->codes_stride, tile.row, tile.col);
	job.scales = whole->scales + mxfp_scales_offset(whole->format, whole->scales_stride, tile.row, tile.col);
	job.dst = (uint8_t *)whole->dst + (tile.row * whole->dst_stride + tile.col) *
	                                          mxfp_format_get_info(whole->dst_format)->storage_bytes;
	kernels->dequantize[job.format](&job);
}

enum mxfp_status mxfp_dequantize(const struct mxfp_matrix *src, void *dst, enum mxfp_format dst_format,
                                 size_t dst_stride, const struct mxfp_exec *exec)
{
	struct mxfp_matrix copy;
	struct mxfp_runner runner;
	struct mxfp_spans span;

	if (src == NULL)
		return MXFP_ERR_NULL;
	src = mxfp_sized_matrix(src, &copy);
	if (src == NULL || src->sparsity.n != 0 || src->sparsity.m != 0)
		return MXFP_ERR_OPTION;
	if (src->transposed)
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_blocks(src, dst, dst_format, dst_stride, &span);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_dequantize_job job = {
		.format = src->format,
		.dst_format = dst_format,
		.rows = src->rows,
		.cols = src->cols,
		.codes = src->data,
		.scales = src->scales,
		.codes_stride = span.codes_stride,
		.scales_stride = span.scales_stride,
		.tensor_scale = mxfp_f32_bits(src->tensor_scale),
		.tensor_scale_divides = src->tensor_scale_divides,
		.dst = dst,
		.dst_stride = span.stride,
		.past_caches = span.numbers.bytes >= MXFP_PAST_CACHES_BYTES,
	};
	mxfp_run_pieces(&runner, mxfp_tile_count(src->rows, src->cols), dequantize_piece, &job, NULL);
	return MXFP_OK;
}
