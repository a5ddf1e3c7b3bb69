/* SPDX-License-Identifier: MIT */
/* mxfp_dequantize(): checks the arguments and runs one kernel slot over the pieces of the matrix. */
#include "args.h"
#include "bits.h"
#include "blocks.h"
#include "exec.h"
#include "result.h"
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

enum mxfp_status mxfp_dequantize(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                 const struct mxfp_exec *exec)
{
	struct mxfp_matrix m;
	struct mxfp_runner runner;
	struct mxfp_spans span;
	struct mxfp_sink sink;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_source_blocks(&m, &span, src);
	if (status == MXFP_OK)
		status = mxfp_check_result(&sink, result, mxfp_is_source, 0, m.rows, m.cols);
	if (status == MXFP_OK &&
	    (mxfp_sink_touches(&sink, &span.codes) || mxfp_sink_touches(&sink, &span.scales)))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;
	const struct mxfp_dequantize_job job = {
		.format = m.format,
		.dst_format = sink.data.format,
		.rows = m.rows,
		.cols = m.cols,
		.codes = m.data,
		.scales = m.scales,
		.codes_stride = m.stride,
		.scales_stride = m.scales_stride,
		.tensor_scale = mxfp_f32_bits(m.tensor_scale),
		.tensor_scale_divides = m.tensor_scale_divides,
		.dst = (void *)(uintptr_t)sink.data.data,
		.dst_stride = sink.data.stride,
		.past_caches = sink.data.memory.bytes >= MXFP_PAST_CACHES_BYTES,
	};
	mxfp_run_pieces(&runner, mxfp_tile_count(m.rows, m.cols), dequantize_piece, &job, NULL);
	return MXFP_OK;
}
