/* SPDX-License-Identifier: MIT */
/* Operations on rows, and attention. */
#include "config.h"

#include <stdlib.h>

#include "conform/number.h"
#include "mxfp/attention.h"
#include "mxfp/rows.h"

enum row { SUM, MEAN, SQUARE_SUM, MAX, SOFTMAX, LOG_SOFTMAX, RMS_NORM, LAYER_NORM, N_ROWS };

static const char *const names[N_ROWS] = {"sum", "mean", "square-sum", "max", "softmax", "log-softmax", "rms-norm", "layer-norm"};

/* About the 16 lanes of sums: one number, fewer than lanes, some and a rest, whole, one more. */
static const size_t lengths[] = {1, 7, 50, 64, 129};

enum { N_LENGTHS = sizeof lengths / sizeof lengths[0], COLS_MAX = 129 };

static bool row_question(struct question *q, size_t i)
{
	question_begin(q, OP_ROW);
	q->pass = i / N_LENGTHS;
	q->cols = lengths[i % N_LENGTHS];
	question_key(q, "name", names[q->pass]);
	question_number(q, "cols", q->cols);
	question_in(q, q->cols * 4, 4);
	question_out(q, q->pass <= MAX ? 4 : q->cols * 4, 4);
	return true;
}

static void row_items(const struct question *q, struct items *items)
{
	static const uint32_t special[] = {F32_NAN, F32_INF, F32_INF | F32_SIGN};

	for (size_t k = 0; k < (items->quick ? 48 : 400) && !items_full(items); k++) {
		uint8_t item[COLS_MAX * 4];

		for (size_t i = 0; i < q->cols; i++)
			store_f32(item + 4 * i, k == 0 ? 0 : k == 1 || (k == 2 && i % 2 == 0) ? F32_SIGN : k == 2 ? 0 :
			                        number_random(items, 0, k % 4 == 2 ? 20 : 3));
		/* Large numbers that cancel, so that the order of a sum is seen. */
		for (int pair = 0; pair < 3 && k % 8 == 1 && k > 1; pair++) {
			const uint32_t x = number_random(items, 52, 4);

			store_f32(item + 4 * (items_random(items) % q->cols), x);
			store_f32(item + 4 * (items_random(items) % q->cols), x ^ F32_SIGN);
		}
		if (k % 16 == 5)
			store_f32(item + 4 * (k % q->cols), special[k / 16 % 3]);
		for (size_t i = 0; i < q->cols && k % 16 == 6; i++)
			store_f32(item + 4 * i, (uint32_t)items_random(items) & 0x807FFFFF);
		items_add(items, item);
	}
}

static void row_one(enum row row, size_t cols, const uint32_t *x, uint32_t *y)
{
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, x);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = 0x1p-20};

	if (row <= MAX)
		must_succeed(mxfp_rows_reduce((float *)y, (enum mxfp_reduction)row, &matrix, REFERENCE));
	else if (row == SOFTMAX)
		must_succeed(mxfp_softmax(&result, &matrix, NULL, REFERENCE));
	else if (row == LOG_SOFTMAX)
		must_succeed(mxfp_log_softmax(&result, &matrix, NULL, REFERENCE));
	else if (row == RMS_NORM)
		must_succeed(mxfp_rms_norm(&result, &matrix, &norm, REFERENCE));
	else
		must_succeed(mxfp_layer_norm(&result, &matrix, &norm, REFERENCE));
}

static void row_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n, uint8_t *out)
{
	(void)indices;
	for (size_t i = 0; i < n; i++) {
		uint32_t x[COLS_MAX], y[COLS_MAX];

		for (size_t k = 0; k < q->cols; k++) {
			x[k] = load_f32(in + i * q->in_bytes + 4 * k);
			if (has_quirk(way, QUIRK_FLUSH_SOURCE) && (x[k] & F32_INF) == 0)
				x[k] &= F32_SIGN;
		}
		row_one((enum row)q->pass, q->cols, x, y);
		for (size_t k = 0; k < q->out_bytes / 4; k++)
			store_f32(out + i * q->out_bytes + 4 * k, f32_result_way(y[k], way));
	}
}

static const char *row_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	bool odd = false, zeros = true, tiny = true, large = false;

	(void)expected;
	for (size_t i = 0; i < q->in_bytes; i += 4) {
		const uint32_t m = load_f32(in + i) & ~F32_SIGN;

		odd |= m >= F32_INF;
		zeros &= m == 0;
		large |= m >> 23 >= 127 + 40;
		tiny &= (m & F32_INF) == 0;
	}
	return odd ? "row with NaN or Inf" : zeros ? "row of zeros" : tiny ? "row of subnormals" : large ? "row with large numbers" : "row";
}

const struct operation operation_row = {row_question, N_ROWS * N_LENGTHS, row_items, row_answer, row_class, f32_results_same};

/* Attention: one query over some keys, scores times 1/4. */

static const struct {
	size_t cols, keys;
} shapes[] = {{16, 1}, {7, 5}, {16, 24}, {64, 33}, {33, 129}};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0], HEAD_MAX = 64, NUMBERS_MAX = 33 * (1 + 2 * 129) };

/* Keys of a question: an item is a query, so many keys and values. */
static size_t keys_of(const struct question *q)
{
	return q->in[1] / q->in[0];
}

static bool attention_question(struct question *q, size_t i)
{
	question_begin(q, OP_ATTENTION);
	q->cols = shapes[i].cols;
	question_number(q, "cols", q->cols);
	question_number(q, "keys", shapes[i].keys);
	question_in(q, q->cols * 4, 4);
	question_in(q, shapes[i].keys * q->cols * 4, 4);
	question_in(q, shapes[i].keys * q->cols * 4, 4);
	question_out(q, q->cols * 4, 4);
	return true;
}

static void attention_items(const struct question *q, struct items *items)
{
	for (int k = 0; k < (items->quick ? 10 : 100) && !items_full(items); k++) {
		uint8_t item[NUMBERS_MAX * 4];

		for (size_t i = 0; i < q->in_bytes; i += 4)
			store_f32(item + i, number_random(items, 0, 2));
		items_add(items, item);
	}
}

static void attention_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                             uint8_t *out)
{
	static uint64_t memory[1 << 15], workspace[1 << 16];
	const size_t cols = q->cols, n_keys = keys_of(q);
	const struct mxfp_attention_cache cache = {.size = sizeof cache, .heads = 1, .head_cols = cols, .capacity = n_keys, .memory = memory,
	                                           .memory_bytes = sizeof memory};
	const struct mxfp_attention_options options = {.size = sizeof options, .scale = mxfp_some(0.25F)};

	(void)indices;
	for (size_t i = 0; i < n; i++) {
		uint32_t x[NUMBERS_MAX], y[HEAD_MAX];
		const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, y);
		const struct mxfp_matrix query = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, x);
		const struct mxfp_matrix keys = mxfp_numbers(MXFP_FORMAT_F32, n_keys, cols, x + cols);
		const struct mxfp_matrix values = mxfp_numbers(MXFP_FORMAT_F32, n_keys, cols, x + cols + n_keys * cols);

		for (size_t k = 0; k < q->in_bytes / 4; k++)
			x[k] = load_f32(in + i * q->in_bytes + 4 * k);
		must_succeed(mxfp_attention_store(&cache, 0, &keys, &values, REFERENCE));
		must_succeed(mxfp_attention(&result, &query, &cache, n_keys - 1, &options, workspace, sizeof workspace, REFERENCE));
		for (size_t k = 0; k < cols; k++)
			store_f32(out + i * q->out_bytes + 4 * k, f32_result_way(y[k], way));
	}
}

const struct operation operation_attention = {
	attention_question, N_SHAPES, attention_items, attention_answer, row_class, f32_results_same,
};
