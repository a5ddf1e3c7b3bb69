/* SPDX-License-Identifier: MIT */
/* mxfp_function_apply(): checks the arguments and sends each strip through the function's kernel and to its output. */
#include "mxfp/rows.h"

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "result.h"
#include "sized.h"
#include "tile.h"

/* Numbers that go through a function at once. Its kernel is short enough for calls of it to be felt. */
enum { APPLY_STRIP = 2 * MXFP_STRIP };

struct apply {
	enum mxfp_function function;
	uint32_t parameter;
	struct mxfp_rows src;
	struct mxfp_sink sink;
};

enum mxfp_status mxfp_check_function(enum mxfp_function function, struct mxfp_optional parameter, uint32_t *bits)
{
	if (!mxfp_option_valid(MXFP_OPTION_FUNCTION, (int)function))
		return MXFP_ERR_OPTION;
	*bits = parameter.given ? mxfp_f32_bits(parameter.value) : mxfp_function_default(function);
	return (*bits & ~MXFP_F32_SIGN) >= MXFP_F32_INF ? MXFP_ERR_OPTION : MXFP_OK;
}

static void apply_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct apply *whole = context;
	const struct mxfp_tile tile = mxfp_tile(whole->src.rows, whole->src.cols, piece);
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

enum mxfp_status mxfp_function_apply(const struct mxfp_result *result, enum mxfp_function function,
                                     const struct mxfp_matrix *src, const struct mxfp_function_options *options,
                                     const struct mxfp_exec *exec)
{
	struct mxfp_function_options copy;
	const struct mxfp_function_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct apply whole = {.function = function};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_check_function(function, o->parameter, &whole.parameter);
	if (status == MXFP_OK)
		status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&whole.src, src, mxfp_is_row_format);
	if (status == MXFP_OK)
		status = mxfp_check_sink(&whole.sink, result, o->quantize, whole.src.rows, whole.src.cols);
	if (status == MXFP_OK && mxfp_sink_overlaps(&whole.sink, &whole.src))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;
	mxfp_sink_start(&whole.sink);
	mxfp_run_pieces(&runner, mxfp_tile_count(whole.src.rows, whole.src.cols), apply_piece, &whole, whole.sink.counts);
	return MXFP_OK;
}
