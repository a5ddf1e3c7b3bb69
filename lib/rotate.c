/* SPDX-License-Identifier: MIT */
/* mxfp_rotary() and mxfp_rotary_frequencies(). Cosines and sines are computed once a row, for all its heads. */
#include "mxfp/rows.h"

#include "args.h"
#include "bits.h"
#include "exec.h"
#include "result.h"
#include "sized.h"
#include "tile.h"

/* A head is rotated as a whole, since the results may replace its numbers. */
enum { MOST_HEAD_COLS = 512, F32_ONE = 0x3F800000 };

struct rotate {
	bool interleaved, has_factor;
	size_t head_cols, rotary_cols;
	const uint32_t *positions;
	const float *frequencies;
	uint32_t first_position, factor;
	struct mxfp_rows src;
	struct mxfp_sink sink;
	size_t rows, cols;
};

/* dst = x * factor, n numbers. */
static void multiply(const struct mxfp_kernels *kernels, float *dst, const float *x, size_t n, uint32_t factor)
{
	const struct mxfp_norm_job job = {.x = x, .dst = dst, .n = n, .factor = factor};

	kernels->norm(&job);
}

/* The function of n angles, times the attention factor; for interleaved pairs, each result twice. */
static void turn(const struct mxfp_kernels *kernels, const struct rotate *whole, enum mxfp_function function,
                 const float *angles, float *results)
{
	const size_t n = whole->rotary_cols / 2;
	const struct mxfp_apply_job job = {function, mxfp_function_default(function), angles, results, n};

	kernels->apply[function](&job);
	if (whole->has_factor)
		multiply(kernels, results, results, n, whole->factor);
	if (!whole->interleaved)
		return;
	for (size_t i = n; i-- > 0;) {
		memcpy(results + 2 * i + 1, results + i, sizeof *results);
		memmove(results + 2 * i, results + i, sizeof *results);
	}
}

static void rotate_row(const struct mxfp_kernels *kernels, const struct rotate *whole, size_t row,
                       struct mxfp_counts *counts)
{
	uint32_t position = whole->first_position + (uint32_t)row;
	const bool direct = whole->sink.data.data != NULL && whole->sink.data.format == MXFP_FORMAT_F32;
	float cosine[MOST_HEAD_COLS], sine[MOST_HEAD_COLS], from[MOST_HEAD_COLS];
	float pending[MXFP_STRIP + MOST_HEAD_COLS]; /* results that are not f32 in their place, from column `stored` on */
	size_t stored = 0;

	if (whole->positions != NULL)
		memcpy(&position, (const void *)(whole->positions + row), sizeof position);
	multiply(kernels, from, whole->frequencies, whole->rotary_cols / 2, mxfp_f64_to_f32(mxfp_f64_from_u64(position)));
	turn(kernels, whole, MXFP_FUNCTION_COS, from, cosine);
	turn(kernels, whole, MXFP_FUNCTION_SIN, from, sine);
	/* A head is short: what holds for the row is asked once. */
	const float *x_row = whole->src.format == MXFP_FORMAT_F32 ? mxfp_load_strip(kernels, &whole->src, row, 0, 0, NULL) : NULL;
	float *to_row = direct ? mxfp_result_strip(&whole->sink, row, 0, NULL) : NULL;
	const bool stores = !direct || whole->sink.blocks != NULL;
	for (size_t col = 0, end, n; col < whole->cols; col = end) {
		end = col + whole->head_cols;
		const float *x =
			x_row != NULL ? x_row + col : mxfp_load_strip(kernels, &whole->src, row, col, whole->head_cols, from);
		float *to = direct ? to_row + col : pending + (col - stored);
		const struct mxfp_rotate_job job = {
			.x = x,
			.cosine = cosine,
			.sine = sine,
			.dst = to,
			.n = whole->rotary_cols / 2,
			.halves = !whole->interleaved,
		};

		kernels->rotate(&job);
		memmove(to + whole->rotary_cols, x + whole->rotary_cols,
		        (whole->head_cols - whole->rotary_cols) * sizeof *to);
		for (; stores && (end - stored >= MXFP_STRIP || (end == whole->cols && stored < end)); stored += n) {
			n = mxfp_least(end - stored, MXFP_STRIP);
			mxfp_store_strip(kernels, &whole->sink, row, stored, n,
			                 mxfp_result_strip(&whole->sink, row, stored, pending), counts);
			if (!direct)
				memmove(pending, pending + n, (end - stored - n) * sizeof *pending);
		}
	}
}

static void rotate_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                         struct mxfp_counts *counts)
{
	const struct rotate *whole = context;
	const struct mxfp_tile tile = mxfp_row_tile(whole->rows, whole->cols, piece);

	for (size_t row = tile.row; row < tile.row + tile.rows; row++)
		rotate_row(kernels, whole, row, counts);
}

enum mxfp_status mxfp_rotary(const struct mxfp_result *result, const struct mxfp_matrix *src, const float *frequencies,
                             const struct mxfp_rotary_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_rotary_options copy;
	const struct mxfp_rotary_options *o = MXFP_SIZED(options, &copy);
	struct mxfp_runner runner;
	struct rotate whole = {.frequencies = frequencies};

	if (o == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status == MXFP_OK)
		status = mxfp_check_numbers(&whole.src, src, mxfp_is_row_format);
	if (status == MXFP_OK)
		status = mxfp_check_sink(&whole.sink, result, o->quantize, whole.src.rows, whole.src.cols);
	if (status != MXFP_OK)
		return status;
	const size_t rows = whole.rows = whole.src.rows, cols = whole.cols = whole.src.cols;
	if (rows == 0 || cols == 0) {
		mxfp_sink_start(&whole.sink);
		return MXFP_OK;
	}
	if (frequencies == NULL)
		return MXFP_ERR_NULL;
	whole.head_cols = o->head_cols != 0 ? o->head_cols : cols;
	whole.rotary_cols = o->rotary_cols != 0 ? o->rotary_cols : whole.head_cols;
	whole.interleaved = o->interleaved;
	whole.positions = o->positions;
	whole.first_position = o->first_position;
	whole.has_factor = o->attention_factor.given;
	whole.factor = whole.has_factor ? mxfp_f32_bits(o->attention_factor.value) : 0;
	if (whole.head_cols > MOST_HEAD_COLS || cols % whole.head_cols != 0 || whole.rotary_cols > whole.head_cols ||
	    whole.rotary_cols % 2 != 0)
		return MXFP_ERR_SHAPE;
	const struct mxfp_region turns = mxfp_bytes(frequencies, whole.rotary_cols / 2 * sizeof *frequencies);
	const struct mxfp_region positions =
		mxfp_bytes(whole.positions, whole.positions != NULL ? rows * sizeof *whole.positions : 0);
	if (mxfp_sink_overlaps(&whole.sink, &whole.src) || mxfp_sink_touches(&whole.sink, &turns) ||
	    mxfp_sink_touches(&whole.sink, &positions))
		return MXFP_ERR_OVERLAP;
	mxfp_sink_start(&whole.sink);
	mxfp_run_pieces(&runner, mxfp_row_tile_count(rows, cols), rotate_piece, &whole, whole.sink.counts);
	return MXFP_OK;
}

static uint64_t bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Whether x is from 2^-100 to 2^100, so that neither quotients by it nor its products with frequencies leave binary32, and
   quotients have a logarithm. */
static bool is_moderate(uint64_t x)
{
	return x >= UINT64_C(0x39B0000000000000) && x <= UINT64_C(0x4630000000000000);
}

/* +0 for -0. */
static uint64_t without_negative_zero(uint64_t x)
{
	return mxfp_f64_is_zero(x) ? 0 : x;
}

static bool is_moderate_or_zero(uint64_t x)
{
	return x == 0 || is_moderate(x);
}

/* Whether the members that the scaling reads are as the header says; then all results are finite. */
static bool is_valid(const struct mxfp_rotary *r)
{
	const uint32_t base = mxfp_f64_to_f32(r->base);

	if (base <= F32_ONE || base >= MXFP_F32_INF)
		return false;
	if (r->scaling == MXFP_ROTARY_UNSCALED)
		return true;
	if (!is_moderate(r->factor) || r->original_positions == 0)
		return false;
	if (r->scaling == MXFP_ROTARY_LLAMA3)
		return is_moderate(r->low_freq_factor) && is_moderate(r->high_freq_factor) &&
		       is_moderate(mxfp_f64_sub(r->high_freq_factor, r->low_freq_factor));
	return r->scaling == MXFP_ROTARY_YARN && is_moderate(r->beta_fast) && is_moderate(r->beta_slow) &&
	       is_moderate_or_zero(r->mscale) && is_moderate_or_zero(r->mscale_all_dim);
}

enum mxfp_status mxfp_rotary_frequencies(float *frequencies, float *attention_factor, size_t rotary_cols,
                                         const struct mxfp_frequency_options *options)
{
	static const uint64_t fast = UINT64_C(0x4040000000000000); /* 32 */
	struct mxfp_frequency_options copy;
	const struct mxfp_frequency_options *o = MXFP_SIZED(options, &copy);

	if (frequencies == NULL || options == NULL)
		return MXFP_ERR_NULL;
	if (o == NULL)
		return MXFP_ERR_VERSION;
	const struct mxfp_rotary r = {
		.scaling = o->scaling,
		.cols = rotary_cols,
		.original_positions = o->original_positions,
		.base = bits(o->base),
		.factor = bits(o->factor),
		.low_freq_factor = bits(o->low_freq_factor),
		.high_freq_factor = bits(o->high_freq_factor),
		.beta_fast = mxfp_f64_is_zero(bits(o->beta_fast)) ? fast : bits(o->beta_fast),
		.beta_slow = mxfp_f64_is_zero(bits(o->beta_slow)) ? MXFP_F64_ONE : bits(o->beta_slow),
		.mscale = without_negative_zero(bits(o->mscale)),
		.mscale_all_dim = without_negative_zero(bits(o->mscale_all_dim)),
		.no_truncate = o->no_truncate,
	};
	if (!is_valid(&r))
		return MXFP_ERR_OPTION;
	if (rotary_cols == 0 || rotary_cols % 2 != 0 || rotary_cols > 1 << 20)
		return MXFP_ERR_SIZE;
	mxfp_rotary_frequencies_ref(&r, frequencies);
	if (attention_factor != NULL)
		mxfp_fill(attention_factor, 1, mxfp_rotary_attention_ref(&r));
	return MXFP_OK;
}
