/* SPDX-License-Identifier: MIT */
/* mxfp_rows_add() and mxfp_glu(): results of two numbers each. */
#include "mxfp/rows.h"

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "result.h"
#include "sized.h"
#include "tile.h"

struct combine {
	struct mxfp_combine_job job; /* all but the arrays */
	bool has_function;
	enum mxfp_function function;
	uint32_t parameter;
	bool interleaved;            /* x and y are the even and odd numbers of rows of twice the length, in `x` */
	struct mxfp_rows x, y;
	struct mxfp_sink sink;
	size_t rows, cols;
};

/* Two strips of sources. */
struct strips {
	float x[MXFP_STRIP], y[MXFP_STRIP];
};

/* Loads n numbers for x and for y that take turns in memory. */
static void load_interleaved(const struct mxfp_kernels *kernels, const struct combine *whole, size_t row, size_t col,
                             size_t n, struct strips *to, float *buffer)
{
	for (size_t done = 0, part; done < n; done += part) {
		part = mxfp_least(n - done, MXFP_STRIP / 2);
		const float *from = mxfp_load_strip(kernels, &whole->x, row, 2 * (col + done), 2 * part, buffer);
		for (size_t i = 0; i < part; i++) {
			memcpy(&to->x[done + i], from + 2 * i, sizeof *from);
			memcpy(&to->y[done + i], from + 2 * i + 1, sizeof *from);
		}
	}
}

static void combine_strip(const struct mxfp_kernels *kernels, const struct combine *whole, size_t row, size_t col,
                          size_t n, struct mxfp_counts *counts)
{
	struct mxfp_combine_job job = whole->job;
	struct strips strips;
	float buffer[MXFP_STRIP];
	float *result = mxfp_result_strip(&whole->sink, row, col, buffer);

	if (whole->interleaved) {
		load_interleaved(kernels, whole, row, col, n, &strips, buffer);
		job.x = strips.x;
		job.y = strips.y;
	} else {
		job.x = mxfp_load_strip(kernels, &whole->x, row, col, n, strips.x);
		job.y = mxfp_load_strip(kernels, &whole->y, row, col, n, strips.y);
	}
	job.n = n;
	if (whole->has_function) {
		if (job.has_limit) {
			struct mxfp_combine_job least = job;

			least.combine = MXFP_COMBINE_LEAST;
			least.dst = strips.x;
			kernels->combine(&least);
			job.x = strips.x;
		}
		const struct mxfp_apply_job apply = {whole->function, whole->parameter, job.x, strips.x, n};
		kernels->apply[whole->function](&apply);
		job.x = strips.x;
	}
	job.dst = result;
	kernels->combine(&job);
	mxfp_store_strip(kernels, &whole->sink, row, col, n, result, counts);
}

static void combine_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                          struct mxfp_counts *counts)
{
	const struct combine *whole = context;
	const struct mxfp_tile tile = mxfp_tile(whole->rows, whole->cols, piece);

	for (size_t row = tile.row; row < tile.row + tile.rows; row++)
		for (size_t col = tile.col, n; col < tile.col + tile.cols; col += n) {
			n = mxfp_least(MXFP_STRIP, tile.col + tile.cols - col);
			combine_strip(kernels, whole, row, col, n, counts);
		}
}

/* Checks the result against the sources, which have been checked, and runs. */
static enum mxfp_status run(struct combine *whole, const struct mxfp_result *result, const struct mxfp_quantize_options *quantize,
                            const struct mxfp_exec *exec)
{
	struct mxfp_runner runner;

	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_sink(&whole->sink, result, quantize, whole->rows, whole->cols);
	if (status != MXFP_OK)
		return status;
	if (whole->interleaved ? mxfp_sink_touches(&whole->sink, &whole->x.memory)
	                       : mxfp_sink_overlaps(&whole->sink, &whole->x) || mxfp_sink_overlaps(&whole->sink, &whole->y))
		return MXFP_ERR_OVERLAP;
	mxfp_sink_start(&whole->sink);
	mxfp_run_pieces(&runner, mxfp_tile_count(whole->rows, whole->cols), combine_piece, whole, whole->sink.counts);
	return MXFP_OK;
}

enum mxfp_status mxfp_rows_add(const struct mxfp_result *result, const struct mxfp_matrix *a, const struct mxfp_matrix *b,
                               const struct mxfp_add_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_add_options copy;
	const struct mxfp_add_options *o = MXFP_SIZED(options, &copy);
	struct combine whole = {.job.combine = MXFP_COMBINE_ADD};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_check_numbers(&whole.x, a, mxfp_is_row_format);
	whole.rows = whole.x.rows;
	whole.cols = whole.x.cols;
	if (status == MXFP_OK)
		status = mxfp_check_input(&whole.y, b, mxfp_is_row_format, whole.rows, whole.cols);
	return status == MXFP_OK ? run(&whole, result, o->quantize, exec) : status;
}

enum mxfp_status mxfp_glu(const struct mxfp_result *result, enum mxfp_function function, const struct mxfp_matrix *gate,
                          const struct mxfp_matrix *up, const struct mxfp_glu_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_glu_options copy;
	const struct mxfp_glu_options *o = MXFP_SIZED(options, &copy);
	struct combine whole = {
		.job.combine = MXFP_COMBINE_MULTIPLY,
		.has_function = true,
		.function = function,
		.interleaved = up == NULL,
	};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	const uint32_t limit = o->limit.given ? mxfp_f32_bits(o->limit.value) : 0;
	enum mxfp_status status = mxfp_check_function(function, o->parameter, &whole.parameter);
	if (status != MXFP_OK)
		return status;
	whole.job.has_limit = o->limit.given;
	whole.job.limit = mxfp_f32_is_zero(limit) ? 0 : limit;
	whole.job.plus_one = o->up_plus_one;
	if (whole.job.limit >= MXFP_F32_INF)
		return MXFP_ERR_OPTION;
	status = mxfp_check_numbers(&whole.x, gate, mxfp_is_row_format);
	if (status == MXFP_OK && up == NULL && whole.x.cols % 2 != 0)
		status = MXFP_ERR_SHAPE;
	whole.rows = whole.x.rows;
	whole.cols = up == NULL ? whole.x.cols / 2 : whole.x.cols;
	if (status == MXFP_OK && up != NULL)
		status = mxfp_check_input(&whole.y, up, mxfp_is_row_format, whole.rows, whole.cols);
	return status == MXFP_OK ? run(&whole, result, o->quantize, exec) : status;
}
