/* SPDX-License-Identifier: MIT */
/* mxfp_softmax() and mxfp_log_softmax(): a row is read for its largest score, for the sum of exponentials, and for the
   results, of which the exponentials are kept in place where the results are f32. */
#include "args.h"
#include "bits.h"
#include "exec.h"
#include "f32.h"
#include "rows.h"
#include "sized.h"
#include "tile.h"

struct softmax {
	bool is_log, has_mask, causal;
	struct mxfp_softmax_job job; /* the scale */
	ptrdiff_t causal_offset;
	size_t mask_rows, head_rows;
	const float *sinks;
	struct mxfp_rows src, mask;
	struct mxfp_row_sink sink;
	size_t rows, cols;
};

/* Numbers and mask of a row, a strip of each. */
struct strips {
	float x[MXFP_STRIP], mask[MXFP_STRIP];
};

/* Completes a job with n scores of a row. */
static void load(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row, size_t col, size_t n,
                 struct mxfp_softmax_job *job, struct strips *strips)
{
	job->n = n;
	job->x = mxfp_load_strip(kernels, &whole->src, row, col, n, strips->x);
	if (whole->has_mask)
		job->mask = mxfp_load_strip(kernels, &whole->mask, row % whole->mask_rows, col, n, strips->mask);
}

/* How many columns take part. */
static size_t participants(const struct softmax *whole, size_t row)
{
	const size_t query = row % whole->head_rows;

	if (!whole->causal)
		return whole->cols;
	if (whole->causal_offset < 0) {
		const size_t back = (size_t)-(whole->causal_offset + 1); /* query - back columns take part */

		return query <= back ? 0 : mxfp_least(query - back, whole->cols);
	}
	const size_t forward = (size_t)whole->causal_offset;
	return query >= whole->cols || forward >= whole->cols - query ? whole->cols : query + forward + 1;
}

static uint32_t sink_of(const struct softmax *whole, size_t row)
{
	return mxfp_f32_bits(whole->sinks[row / whole->head_rows]);
}

/* The largest score of n columns and the row's sink; -Inf if there is none. */
static uint32_t most(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row, size_t n)
{
	struct mxfp_row_max_job max = {.max = MXFP_F32_INF | MXFP_F32_SIGN};
	struct mxfp_softmax_job job = whole->job;
	struct strips strips;
	float scores[MXFP_STRIP];

	job.step = MXFP_SOFTMAX_SCORES;
	for (size_t col = 0; col < n; col += job.n) {
		load(kernels, whole, row, col, mxfp_strip_length(n, col), &job, &strips);
		max.x = job.x;
		max.n = job.n;
		if (job.has_scale || whole->has_mask) {
			job.dst = scores;
			kernels->softmax(&job);
			max.x = scores;
		}
		kernels->row_max(&max);
	}
	if (whole->sinks != NULL) {
		max.x = whole->sinks + row / whole->head_rows;
		max.n = 1;
		kernels->row_max(&max);
	}
	return max.max;
}

/* The function of one number. */
static uint32_t apply(const struct mxfp_kernels *kernels, enum mxfp_function function, uint32_t x)
{
	float number = mxfp_f32_from_bits(x);
	const struct mxfp_apply_job job = {function, mxfp_function_default(function), &number, &number, 1};

	kernels->apply[function](&job);
	return mxfp_f32_bits(number);
}

/* Turns a strip of scores into exponentials, exp(fl32(z - max)). */
static void exponentials(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row, size_t col,
                         size_t n, uint32_t max, float *dst)
{
	struct mxfp_softmax_job job = whole->job;
	struct strips strips;

	load(kernels, whole, row, col, n, &job, &strips);
	job.step = MXFP_SOFTMAX_DISTANCES;
	job.max = max;
	job.dst = dst;
	kernels->softmax(&job);
	const struct mxfp_apply_job exp = {MXFP_FUNCTION_EXP, mxfp_function_default(MXFP_FUNCTION_EXP), dst, dst, n};
	kernels->apply[MXFP_FUNCTION_EXP](&exp);
}

/* The sum of the exponentials, which are left in the row of results if `keep`. */
static uint64_t total(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row, size_t n,
                      uint32_t max, bool keep)
{
	uint64_t lanes[MXFP_SUM_LANES] = {0}, sum = 0;
	struct mxfp_row_sum_job job = {.sum = MXFP_SUM_NUMBERS, .lanes = lanes};
	float buffer[MXFP_STRIP];

	for (size_t col = 0; col < n; col += job.n) {
		float *e = keep ? mxfp_result_strip(&whole->sink, row, col, buffer) : buffer;

		job.n = mxfp_strip_length(n, col);
		exponentials(kernels, whole, row, col, job.n, max, e);
		job.x = e;
		job.total = col + job.n == n ? &sum : NULL;
		kernels->row_sum(&job);
	}
	if (whole->sinks != NULL)
		sum = mxfp_f64_add(sum, mxfp_f64_from_f32(apply(kernels, MXFP_FUNCTION_EXP,
		                                                mxfp_f32_sub(sink_of(whole, row), max))));
	return sum;
}

/* What a row of softmax is scaled by, or of log-softmax is reduced by. */
struct row_scalars {
	uint32_t max, factor, log_total;
	bool kept; /* the exponentials are in the row of results */
};

/* Turns n scores into results. */
static void finish_strip(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row, size_t col, size_t n,
                         const struct row_scalars *scalars, float *result)
{
	if (whole->is_log) {
		struct mxfp_softmax_job job = whole->job;
		struct strips strips;

		load(kernels, whole, row, col, n, &job, &strips);
		job.step = MXFP_SOFTMAX_LOGARITHM;
		job.max = scalars->max;
		job.log_total = scalars->log_total;
		job.dst = result;
		kernels->softmax(&job);
		return;
	}
	if (!scalars->kept)
		exponentials(kernels, whole, row, col, n, scalars->max, result);
	const struct mxfp_norm_job norm = {.x = result, .dst = result, .n = n, .factor = scalars->factor};
	kernels->norm(&norm);
}

static void softmax_row(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row,
                        struct mxfp_counts *counts)
{
	const uint32_t nothing = whole->is_log ? MXFP_F32_INF | MXFP_F32_SIGN : 0;
	size_t n = participants(whole, row);
	struct row_scalars scalars = {
		.max = most(kernels, whole, row, n),
		.kept = !whole->is_log && whole->sink.data.data != NULL && whole->sink.data.format == MXFP_FORMAT_F32,
	};
	float buffer[MXFP_STRIP];

	if (scalars.max == (MXFP_F32_INF | MXFP_F32_SIGN))
		n = 0;
	if (n != 0) {
		const uint64_t sum = total(kernels, whole, row, n, scalars.max, scalars.kept);

		if (whole->is_log)
			scalars.log_total = apply(kernels, MXFP_FUNCTION_LOG, mxfp_f64_to_f32(sum));
		else
			scalars.factor = mxfp_f64_reciprocal_f32(sum);
	}
	for (size_t col = 0, length; col < whole->cols; col += length) {
		length = mxfp_strip_length(whole->cols, col);
		const size_t part = col < n ? mxfp_least(n - col, length) : 0;
		float *result = mxfp_result_strip(&whole->sink, row, col, buffer);

		if (part != 0)
			finish_strip(kernels, whole, row, col, part, &scalars, result);
		mxfp_fill(result + part, length - part, nothing);
		mxfp_store_strip(kernels, &whole->sink, row, col, length, result, counts);
	}
}

static void softmax_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                          struct mxfp_counts *counts)
{
	const struct softmax *whole = context;
	const struct mxfp_tile tile = mxfp_row_tile(whole->rows, whole->cols, piece);

	for (size_t row = tile.row; row < tile.row + tile.rows; row++)
		softmax_row(kernels, whole, row, counts);
}

static enum mxfp_status softmax(bool is_log, const struct mxfp_row_output *output, const struct mxfp_row_input *src,
                                size_t rows, size_t cols, const struct mxfp_softmax_options *options)
{
	struct mxfp_softmax_options copy;
	const struct mxfp_softmax_options *o = MXFP_SIZED(options, &copy, exec);
	struct mxfp_runner runner;
	struct softmax whole = {.is_log = is_log, .rows = rows, .cols = cols};

	if (o == NULL)
		return MXFP_ERR_OPTION;
	whole.has_mask = o->mask != NULL;
	whole.mask_rows = o->mask_rows != 0 ? o->mask_rows : rows;
	whole.head_rows = o->head_rows != 0 ? o->head_rows : rows;
	whole.causal = o->causal;
	whole.causal_offset = o->causal_offset;
	whole.sinks = o->sinks;
	whole.job.has_scale = o->scale != NULL;
	whole.job.scale = o->scale != NULL ? mxfp_f32_bits(*o->scale) : 0;
	enum mxfp_status status = mxfp_runner_init(&runner, o->exec);
	if (status == MXFP_OK)
		status = mxfp_check_row_input(&whole.src, src, rows, cols);
	if (status == MXFP_OK && whole.has_mask)
		status = mxfp_check_row_input(&whole.mask, o->mask, whole.mask_rows, cols);
	if (status == MXFP_OK)
		status = mxfp_check_row_output(&whole.sink, output, rows, cols);
	if (status != MXFP_OK)
		return status;
	const size_t heads = whole.sinks == NULL || rows == 0 ? 0 : mxfp_divide_up(rows, whole.head_rows);
	if (mxfp_sink_overlaps(&whole.sink, &whole.src) ||
	    mxfp_sink_touches(&whole.sink, whole.mask.data, whole.mask.bytes) ||
	    mxfp_sink_touches(&whole.sink, whole.sinks, heads * sizeof *whole.sinks))
		return MXFP_ERR_OVERLAP;
	mxfp_sink_start(&whole.sink);
	mxfp_run_pieces(&runner, mxfp_row_tile_count(rows, cols), softmax_piece, &whole, whole.sink.counts);
	return MXFP_OK;
}

enum mxfp_status mxfp_softmax(const struct mxfp_row_output *output, const struct mxfp_row_input *src, size_t rows,
                              size_t cols, const struct mxfp_softmax_options *options)
{
	return softmax(false, output, src, rows, cols, options);
}

enum mxfp_status mxfp_log_softmax(const struct mxfp_row_output *output, const struct mxfp_row_input *src, size_t rows,
                                  size_t cols, const struct mxfp_softmax_options *options)
{
	return softmax(true, output, src, rows, cols, options);
}
