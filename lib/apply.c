/* SPDX-License-Identifier: MIT */
/* mxfp_apply(): checks the arguments and sends each strip through the function's kernel and to its output. */
#include "args.h"
#include "bits.h"
#include "exec.h"
#include "row_output.h"
#include "sized.h"
#include "tile.h"

/* Numbers that go through a function at once. Its kernel is short enough for calls of it to be felt. */
enum { APPLY_STRIP = 2 * MXFP_STRIP };

struct apply {
	enum mxfp_function function;
	uint32_t parameter;
	struct mxfp_rows src;
	struct mxfp_row_sink sink;
	size_t rows, cols;
};

enum mxfp_status mxfp_check_function(enum mxfp_function function, const float *parameter, uint32_t *bits)
{
	if (!mxfp_option_valid(MXFP_OPTION_FUNCTION, (int)function))
		return MXFP_ERR_OPTION;
	*bits = parameter != NULL ? mxfp_load_f32(parameter) : mxfp_function_default(function);
	return (*bits & ~MXFP_F32_SIGN) >= MXFP_F32_INF ? MXFP_ERR_OPTION : MXFP_OK;
}

static void apply_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct apply *whole = context;
	const struct mxfp_tile tile = mxfp_tile(whole->rows, whole->cols, piece);
	float strip[APPLY_STRIP];
	size_t n;

	for (size_t row = tile.row; row < tile.row + tile.rows; row++)
		for (size_t col = tile.col; col < tile.col + tile.cols; col += n) {
			n = mxfp_least(APPLY_STRIP, tile.col + tile.cols - col);
			float *result = mxfp_result_strip(&whole->sink, row, col, strip);
			const struct mxfp_apply_job job = {
				.function = whole->function,
				.parameter = whole->parameter,
				.src = mxfp_load_strip(kernels, &whole->src, row, col, n, strip),
				.dst = result,
				.n = n,
			};

			kernels->apply[job.function](&job);
			mxfp_store_strip(kernels, &whole->sink, row, col, n, result, counts);
		}
}

enum mxfp_status mxfp_apply(enum mxfp_function function, const struct mxfp_row_output *output, const void *src,
                            enum mxfp_format src_format, size_t src_stride, size_t rows, size_t cols,
                            const struct mxfp_apply_options *options)
{
	struct mxfp_apply_options copy;
	const struct mxfp_apply_options *o = MXFP_SIZED(options, &copy, exec);
	struct mxfp_runner runner;
	struct apply whole = {.function = function, .rows = rows, .cols = cols};

	if (o == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_check_function(function, o->parameter, &whole.parameter);
	if (status == MXFP_OK)
		status = mxfp_runner_init(&runner, o->exec);
	if (status == MXFP_OK)
		status = mxfp_check_rows(&whole.src, src, src_format, src_stride, rows, cols);
	if (status == MXFP_OK)
		status = mxfp_check_row_output(&whole.sink, output, rows, cols);
	if (status == MXFP_OK && mxfp_sink_overlaps(&whole.sink, &whole.src))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;
	mxfp_sink_start(&whole.sink);
	mxfp_run_pieces(&runner, mxfp_tile_count(rows, cols), apply_piece, &whole, whole.sink.counts);
	return MXFP_OK;
}
