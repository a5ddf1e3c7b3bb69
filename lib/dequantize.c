/* SPDX-License-Identifier: MIT */
/* mxfp_dequantize(): checks the arguments and runs one kernel slot over the pieces of the matrix. */
#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "kernels.h"
#include "parallel.h"
#include "tile.h"

static void dequantize_piece(const void *context, size_t piece, struct mxfp_counts *counts)
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
	                                          mxfp_format_info(whole->dst_format)->storage_bytes;
	mxfp_kernels_get()->dequantize[job.format](&job);
}

enum mxfp_status mxfp_dequantize(const struct mxfp_blocks *src, void *dst, enum mxfp_format dst_format,
                                 size_t dst_stride, const struct mxfp_dequantize_options *options)
{
	static const struct mxfp_dequantize_options defaults;
	const struct mxfp_dequantize_options *o = options != NULL ? options : &defaults;
	struct mxfp_blocks b;
	struct mxfp_spans span;

	if (src == NULL)
		return MXFP_ERR_NULL;
	b = *src;
	enum mxfp_status status = mxfp_check_blocks(&b, dst, dst_format, &dst_stride, &span);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_dequantize_job job = {
		.format = b.format,
		.dst_format = dst_format,
		.rows = b.rows,
		.cols = b.cols,
		.codes = b.codes,
		.scales = b.scales,
		.codes_stride = b.codes_stride,
		.scales_stride = b.scales_stride,
		.tensor_scale = mxfp_f32_bits(b.tensor_scale),
		.tensor_scale_divides = b.tensor_scale_divides,
		.dst = dst,
		.dst_stride = dst_stride,
		.past_caches = span.numbers >= MXFP_PAST_CACHES_BYTES,
	};
	mxfp_parallel_for(o->threads, o->parallel, mxfp_tile_count(b.rows, b.cols), dequantize_piece, &job, NULL);
	return MXFP_OK;
}
