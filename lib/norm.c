/* SPDX-License-Identifier: MIT */
/* mxfp_rms_norm() and mxfp_layer_norm(). A row is read once for each sum, then once for its results; it stays in the
   caches meanwhile unless it is very long, and the next row comes there during the sums, which leave memory idle. */
#include "mxfp/rows.h"

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "result.h"
#include "sized.h"
#include "tile.h"

struct norm {
	bool is_centred, weight_plus_one, has_weight, has_bias, has_residual, has_sum;
	uint64_t epsilon; /* binary64 bits */
	struct mxfp_rows src, residual, weight, bias;
	struct mxfp_sink sum, sink; /* where src + residual goes, and where results go */
	size_t rows, cols;
};

/* Numbers of a row to normalize: src, src + residual as it was stored, or that computed again. */
static MXFP_OWN_FRAME const float *load(const struct mxfp_kernels *kernels, const struct norm *whole, size_t row,
                                        size_t col, size_t n, float *buffer)
{
	float other[MXFP_STRIP];

	if (whole->has_sum)
		return mxfp_load_strip(kernels, &whole->sum.data, row, col, n, buffer);
	const float *x = mxfp_load_strip(kernels, &whole->src, row, col, n, buffer);
	if (!whole->has_residual)
		return x;
	const struct mxfp_combine_job job = {
		.combine = MXFP_COMBINE_ADD,
		.x = x,
		.y = mxfp_load_strip(kernels, &whole->residual, row, col, n, other),
		.dst = buffer,
		.n = n,
	};
	kernels->combine(&job);
	return buffer;
}

/* Stores src + residual. */
static MXFP_OWN_FRAME void add_residual(const struct mxfp_kernels *kernels, const struct norm *whole, size_t row)
{
	float x[MXFP_STRIP], y[MXFP_STRIP];

	for (size_t col = 0, n; col < whole->cols; col += n) {
		n = mxfp_strip_length(whole->cols, col);
		struct mxfp_combine_job job = {
			.combine = MXFP_COMBINE_ADD,
			.x = mxfp_load_strip(kernels, &whole->src, row, col, n, x),
			.y = mxfp_load_strip(kernels, &whole->residual, row, col, n, y),
			.dst = mxfp_result_strip(&whole->sum, row, col, x),
			.n = n,
		};

		kernels->combine(&job);
		mxfp_store_strip(kernels, &whole->sum, row, col, n, job.dst, NULL);
	}
}

static MXFP_OWN_FRAME uint64_t total(const struct mxfp_kernels *kernels, const struct norm *whole, size_t row,
                                     enum mxfp_sum sum, uint64_t mean)
{
	uint64_t lanes[MXFP_SUM_LANES] = {0}, result = 0;
	float buffer[MXFP_STRIP];

	for (size_t col = 0, n; col < whole->cols; col += n) {
		n = mxfp_strip_length(whole->cols, col);
		const struct mxfp_row_sum_job job = {
			.sum = sum,
			.x = load(kernels, whole, row, col, n, buffer),
			.n = n,
			.mean = mean,
			.lanes = lanes,
			.total = col + n == whole->cols ? &result : NULL,
			.next = mxfp_next_strip(&whole->src, row, col, whole->rows),
		};

		kernels->row_sum(&job);
	}
	return result;
}

static void norm_row(const struct mxfp_kernels *kernels, const struct norm *whole, size_t row,
                     struct mxfp_counts *counts)
{
	const uint64_t cols = mxfp_f64_from_u64(whole->cols);
	struct mxfp_norm_job job = {.is_centred = whole->is_centred, .weight_plus_one = whole->weight_plus_one};
	float from[MXFP_STRIP], weight[MXFP_STRIP], bias[MXFP_STRIP];
	uint64_t v;

	if (whole->has_sum)
		add_residual(kernels, whole, row);
	if (whole->is_centred) {
		job.mean = mxfp_f64_div(total(kernels, whole, row, MXFP_SUM_NUMBERS, 0), cols);
		v = total(kernels, whole, row, MXFP_SUM_DEVIATIONS, job.mean);
	} else {
		v = total(kernels, whole, row, MXFP_SUM_SQUARES, 0);
	}
	job.factor = mxfp_f64_rsqrt_f32(mxfp_f64_add(mxfp_f64_div(v, cols), whole->epsilon));
	for (size_t col = 0; col < whole->cols; col += job.n) {
		job.n = mxfp_strip_length(whole->cols, col);
		job.x = load(kernels, whole, row, col, job.n, from);
		if (whole->has_weight)
			job.weight = mxfp_load_strip(kernels, &whole->weight, 0, col, job.n, weight);
		if (whole->has_bias)
			job.bias = mxfp_load_strip(kernels, &whole->bias, 0, col, job.n, bias);
		job.dst = mxfp_result_strip(&whole->sink, row, col, from);
		kernels->norm(&job);
		mxfp_store_strip(kernels, &whole->sink, row, col, job.n, job.dst, counts);
	}
}

static void norm_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct norm *whole = context;
	const struct mxfp_tile tile = mxfp_row_tile(whole->rows, whole->cols, piece);

	for (size_t row = tile.row; row < tile.row + tile.rows; row++)
		norm_row(kernels, whole, row, counts);
}

/* Checks an optional matrix of numbers. */
static enum mxfp_status check_optional(struct mxfp_rows *checked, bool *has, const struct mxfp_matrix *matrix, size_t rows,
                                       size_t cols)
{
	*has = matrix != NULL;
	return *has ? mxfp_check_input(checked, matrix, mxfp_is_row_format, rows, cols) : MXFP_OK;
}

static enum mxfp_status check_residual(struct norm *whole, const struct mxfp_norm_options *o)
{
	enum mxfp_status status = check_optional(&whole->residual, &whole->has_residual, o->residual, whole->rows, whole->cols);

	whole->has_sum = o->residual_out != NULL;
	if (status == MXFP_OK && whole->has_sum && !whole->has_residual)
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK && whole->has_sum)
		status = mxfp_check_result(&whole->sum, o->residual_out, mxfp_is_row_format, 0, whole->rows, whole->cols);
	return status;
}

/* Whether something that is written overlaps something else, other than number by number. */
static bool overlaps(const struct norm *whole)
{
	const struct mxfp_sink *sink = &whole->sink, *sum = &whole->sum;

	return mxfp_sink_overlaps(sink, &whole->src) || mxfp_sink_overlaps(sink, &whole->residual) ||
	       mxfp_sink_touches(sink, &whole->weight.memory) ||
	       mxfp_sink_touches(sink, &whole->bias.memory) ||
	       mxfp_sink_touches(sink, &sum->data.memory) || mxfp_sink_overlaps(sum, &whole->src) ||
	       mxfp_sink_overlaps(sum, &whole->residual) ||
	       mxfp_sink_touches(sum, &whole->weight.memory) ||
	       mxfp_sink_touches(sum, &whole->bias.memory);
}

static enum mxfp_status norm(bool is_centred, const struct mxfp_result *result, const struct mxfp_matrix *src,
                             const struct mxfp_norm_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_norm_options copy;
	const struct mxfp_norm_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct norm whole = {.is_centred = is_centred};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	memcpy(&whole.epsilon, &o->epsilon, sizeof whole.epsilon);
	whole.epsilon &= whole.epsilon == MXFP_F64_SIGN ? 0 : UINT64_MAX;
	whole.weight_plus_one = o->weight_plus_one && o->weight != NULL;
	if (whole.epsilon >= MXFP_F64_INF || (!is_centred && o->bias != NULL))
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&whole.src, src, mxfp_is_row_format);
	whole.rows = whole.src.rows;
	whole.cols = whole.src.cols;
	if (status == MXFP_OK)
		status = check_optional(&whole.weight, &whole.has_weight, o->weight, 1, whole.cols);
	if (status == MXFP_OK)
		status = check_optional(&whole.bias, &whole.has_bias, o->bias, 1, whole.cols);
	if (status == MXFP_OK)
		status = check_residual(&whole, o);
	if (status == MXFP_OK)
		status = mxfp_check_sink(&whole.sink, result, o->quantize, whole.rows, whole.cols);
	if (status == MXFP_OK && overlaps(&whole))
		status = MXFP_ERR_OVERLAP;
	if (status != MXFP_OK)
		return status;
	mxfp_sink_start(&whole.sink);
	mxfp_run_pieces(&runner, mxfp_row_tile_count(whole.rows, whole.cols), norm_piece, &whole, whole.sink.counts);
	return MXFP_OK;
}

enum mxfp_status mxfp_rms_norm(const struct mxfp_result *result, const struct mxfp_matrix *src,
                               const struct mxfp_norm_options *options, const struct mxfp_exec *exec)
{
	return norm(false, result, src, options, exec);
}

enum mxfp_status mxfp_layer_norm(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                 const struct mxfp_norm_options *options, const struct mxfp_exec *exec)
{
	return norm(true, result, src, options, exec);
}
