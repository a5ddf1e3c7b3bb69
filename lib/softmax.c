/* SPDX-License-Identifier: MIT */
/* mxfp_softmax() and mxfp_log_softmax(): a row is read for its largest score, then for exponentials and their sum; results
   come from the exponentials, which are kept unless the row is very long. */
#include "mxfp/rows.h"

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "f32.h"
#include "result.h"
#include "sized.h"
#include "softmax.h"
#include "tile.h"

struct softmax {
	bool is_log, has_mask, causal;
	struct mxfp_softmax_job job; /* the scale */
	ptrdiff_t causal_offset;
	size_t head_rows;
	const float *sinks;
	struct mxfp_rows src, mask;
	struct mxfp_sink sink;
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
		job->mask = mxfp_load_strip(kernels, &whole->mask, row % whole->mask.rows, col, n, strips->mask);
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
	return mxfp_load_f32(whole->sinks + row / whole->head_rows);
}

/* The largest score of n columns and the row's sink; -Inf if there is none. */
static MXFP_OWN_FRAME uint32_t most(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row,
                                    size_t n)
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

/* Where the exponentials of a row are until their sum is known: in the row of results if these are f32, else on the stack,
   as far as there is room. */
enum { KEPT = 3072, KEPT_MORE = 2048 }; /* multiples of MXFP_STRIP; of two frames, none of which may exceed 16 KiB */

struct row_memory {
	float *kept, *more, *strip;
};

/* Where a strip of results goes, and of exponentials before, which stay there if is_kept(). */
static float *place(const struct softmax *whole, const struct row_memory *memory, size_t row, size_t col)
{
	float *on_stack = col < KEPT ? memory->kept + col
	                  : col < KEPT + KEPT_MORE ? memory->more + (col - KEPT) : memory->strip;

	return mxfp_result_strip(&whole->sink, row, col, on_stack);
}

static bool is_kept(const struct softmax *whole, size_t col)
{
	const bool in_results = whole->sink.data.data != NULL && whole->sink.data.format == MXFP_FORMAT_F32;

	return in_results || col < KEPT + KEPT_MORE;
}

/* Turns a strip of scores into exponentials, exp(fl32(z - max)), and adds these to the lanes. */
static MXFP_OWN_FRAME void exponentials(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row,
                                        size_t col, struct mxfp_softmax_job *job)
{
	struct strips strips;

	load(kernels, whole, row, col, job->n, job, &strips);
	job->step = MXFP_SOFTMAX_EXPONENTIALS;
	kernels->softmax(job);
}

/* The sum of the exponentials. Meanwhile the next row, if there is one, comes into the caches. */
static uint64_t total(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row, size_t n,
                      uint32_t max, const struct row_memory *memory)
{
	uint64_t lanes[MXFP_SUM_LANES] = {0}, sum = 0;
	struct mxfp_softmax_job job = whole->job;

	job.max = max;
	job.lanes = lanes;
	for (size_t col = 0; col < n; col += job.n) {
		job.n = mxfp_strip_length(n, col);
		/* Of log-softmax, the sum alone is of use, and the scores are read again. */
		job.dst = whole->is_log ? memory->strip : place(whole, memory, row, col);
		job.total = col + job.n == n ? &sum : NULL;
		job.next = mxfp_next_strip(&whole->src, row, col, whole->rows);
		exponentials(kernels, whole, row, col, &job);
	}
	if (whole->sinks != NULL)
		sum = mxfp_f64_add(sum, mxfp_f64_from_f32(apply(kernels, MXFP_FUNCTION_EXP,
		                                                mxfp_f32_sub(sink_of(whole, row), max))));
	return sum;
}

/* What a row of softmax is scaled by, or of log-softmax is reduced by. */
struct row_scalars {
	uint32_t max, factor, log_total;
};

/* Turns n scores, or their exponentials, into results. */
static MXFP_OWN_FRAME void finish_strip(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row,
                                        size_t col, size_t n, const struct row_scalars *scalars, float *result)
{
	struct mxfp_softmax_job job = whole->job;
	uint64_t lanes[MXFP_SUM_LANES] = {0};

	job.n = n;
	job.max = scalars->max;
	job.dst = result;
	if (whole->is_log) {
		struct strips strips;

		load(kernels, whole, row, col, n, &job, &strips);
		job.step = MXFP_SOFTMAX_LOGARITHM;
		job.log_total = scalars->log_total;
		kernels->softmax(&job);
		return;
	}
	if (!is_kept(whole, col)) {
		job.lanes = lanes;
		exponentials(kernels, whole, row, col, &job);
	}
	const struct mxfp_norm_job norm = {.x = result, .dst = result, .n = n, .factor = scalars->factor};
	kernels->norm(&norm);
}

static void softmax_row(const struct mxfp_kernels *kernels, const struct softmax *whole, size_t row,
                        const struct row_memory *memory, struct mxfp_counts *counts)
{
	const uint32_t nothing = whole->is_log ? MXFP_F32_INF | MXFP_F32_SIGN : 0;
	size_t n = participants(whole, row);
	struct row_scalars scalars = {.max = most(kernels, whole, row, n)};

	if (scalars.max == (MXFP_F32_INF | MXFP_F32_SIGN))
		n = 0;
	if (n != 0) {
		const uint64_t sum = total(kernels, whole, row, n, scalars.max, memory);

		if (whole->is_log)
			scalars.log_total = apply(kernels, MXFP_FUNCTION_LOG, mxfp_f64_to_f32(sum));
		else
			scalars.factor = mxfp_f64_reciprocal_f32(sum);
	}
	for (size_t col = 0, length; col < whole->cols; col += length) {
		length = mxfp_strip_length(whole->cols, col);
		const size_t part = col < n ? mxfp_least(n - col, length) : 0;
		float *result = place(whole, memory, row, col);

		if (part != 0)
			finish_strip(kernels, whole, row, col, part, &scalars, result);
		mxfp_fill(result + part, length - part, nothing);
		mxfp_store_strip(kernels, &whole->sink, row, col, length, result, counts);
	}
}

void mxfp_softmax_row(const struct mxfp_kernels *kernels, float *row, size_t n, const float *scale, const float *sink)
{
	const struct mxfp_rows rows = {
		.data = row, .format = MXFP_FORMAT_F32, .rows = 1, .cols = n, .stride = n, .memory = mxfp_bytes(row, n * sizeof *row),
	};
	const struct softmax whole = {
		.job.has_scale = scale != NULL,
		.job.scale = scale != NULL ? mxfp_f32_bits(*scale) : 0,
		.head_rows = 1,
		.sinks = sink,
		.src = rows,
		.sink.data = rows,
		.rows = 1,
		.cols = n,
	};
	const struct row_memory memory = {row, row, row}; /* of which results in f32 need none */
	struct mxfp_counts counts = {0};

	softmax_row(kernels, &whole, 0, &memory, &counts);
}

static MXFP_OWN_FRAME void softmax_rows(const struct mxfp_kernels *kernels, const struct softmax *whole,
                                        const struct mxfp_tile *tile, float *kept, struct mxfp_counts *counts)
{
	float more[KEPT_MORE], strip[MXFP_STRIP];
	const struct row_memory memory = {kept, more, strip};

	for (size_t row = tile->row; row < tile->row + tile->rows; row++)
		softmax_row(kernels, whole, row, &memory, counts);
}

static void softmax_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                          struct mxfp_counts *counts)
{
	const struct softmax *whole = context;
	const struct mxfp_tile tile = mxfp_row_tile(whole->rows, whole->cols, piece);
	float kept[KEPT];

	softmax_rows(kernels, whole, &tile, kept, counts);
}

/* Checks a mask, of which rows are taken in turns. */
static enum mxfp_status check_mask(struct softmax *whole, const struct mxfp_matrix *mask)
{
	const enum mxfp_status status = mxfp_check_numbers(&whole->mask, mask, mxfp_is_row_format);

	if (status == MXFP_OK && (whole->mask.cols != whole->cols || (whole->mask.rows == 0 && whole->rows != 0)))
		return MXFP_ERR_SHAPE;
	return status;
}

static enum mxfp_status softmax(bool is_log, const struct mxfp_result *result, const struct mxfp_matrix *src,
                                const struct mxfp_softmax_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_softmax_options copy;
	const struct mxfp_softmax_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct softmax whole = {.is_log = is_log};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&whole.src, src, mxfp_is_row_format);
	whole.rows = whole.src.rows;
	whole.cols = whole.src.cols;
	whole.has_mask = o->mask != NULL;
	whole.head_rows = o->head_rows != 0 ? o->head_rows : whole.rows;
	whole.causal = o->causal;
	whole.causal_offset = o->causal_offset;
	whole.sinks = o->sinks;
	whole.job.has_scale = o->scale.given;
	whole.job.scale = o->scale.given ? mxfp_f32_bits(o->scale.value) : 0;
	if (status == MXFP_OK && whole.has_mask)
		status = check_mask(&whole, o->mask);
	if (status == MXFP_OK)
		status = mxfp_check_sink(&whole.sink, result, o->quantize, whole.rows, whole.cols);
	if (status != MXFP_OK)
		return status;
	const size_t heads = whole.sinks == NULL || whole.rows == 0 ? 0 : mxfp_divide_up(whole.rows, whole.head_rows);
	const struct mxfp_region sinks = mxfp_bytes(whole.sinks, heads * sizeof *whole.sinks);
	if (mxfp_sink_overlaps(&whole.sink, &whole.src) || mxfp_sink_touches(&whole.sink, &whole.mask.memory) ||
	    mxfp_sink_touches(&whole.sink, &sinks))
		return MXFP_ERR_OVERLAP;
	mxfp_sink_start(&whole.sink);
	mxfp_run_pieces(&runner, mxfp_row_tile_count(whole.rows, whole.cols), softmax_piece, &whole, whole.sink.counts);
	return MXFP_OK;
}

enum mxfp_status mxfp_softmax(const struct mxfp_result *result, const struct mxfp_matrix *src,
                              const struct mxfp_softmax_options *options, const struct mxfp_exec *exec)
{
	return softmax(false, result, src, options, exec);
}

enum mxfp_status mxfp_log_softmax(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                  const struct mxfp_softmax_options *options, const struct mxfp_exec *exec)
{
	return softmax(true, result, src, options, exec);
}
