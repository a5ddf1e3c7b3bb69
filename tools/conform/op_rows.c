/* SPDX-License-Identifier: MIT */
/* Operations on rows, and attention. */
#include "config.h"

#include <stdlib.h>

#include "conform/number.h"
#include "mxfp/attention.h"
#include "mxfp/rows.h"

enum row { SUM, MEAN, SQUARE_SUM, MAX, SOFTMAX, LOG_SOFTMAX, RMS_NORM, LAYER_NORM, N_ROWS };

static const char *const names[N_ROWS] = {"sum", "mean", "square-sum", "max", "softmax", "log-softmax", "rms-norm", "layer-norm"};

/* Not a multiple of the 16 lanes of sums. */
enum { COLS = 50, HEAD = 16, KEYS = 24 };

static bool row_question(struct question *q, size_t i)
{
	question_begin(q, OP_ROW);
	q->pass = i;
	question_key(q, "name", names[i]);
	question_number(q, "cols", COLS);
	question_in(q, COLS * 4, 4);
	question_out(q, i <= MAX ? 4 : COLS * 4, 4);
	return true;
}

static void row_items(const struct question *q, struct items *items)
{
	(void)q;
	for (int k = 0; k < (items->quick ? 100 : 1000); k++) {
		uint8_t item[COLS * 4];

		for (int i = 0; i < COLS; i++)
			store_f32(item + 4 * i, k == 0 ? 0 : k == 1 ? F32_SIGN : number_random(items, 0, k % 4 == 2 ? 20 : 3));
		if (k % 32 == 5)
			store_f32(item + 4 * (k % COLS), k % 64 == 5 ? F32_NAN : F32_INF | (k % 128 == 37 ? F32_SIGN : 0));
		if (k % 16 == 6)
			for (int i = 0; i < COLS; i++)
				store_f32(item + 4 * i, (uint32_t)items_random(items) & 0x807FFFFF);
		items_add(items, item);
	}
}

static void row_one(enum row row, const uint32_t *x, uint32_t *y)
{
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, 1, COLS, x);
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
		uint32_t x[COLS], y[COLS];

		for (int k = 0; k < COLS; k++) {
			x[k] = load_f32(in + i * q->in_bytes + 4 * k);
			if (has_quirk(way, QUIRK_FLUSH_SOURCE) && (x[k] & F32_INF) == 0)
				x[k] &= F32_SIGN;
		}
		row_one((enum row)q->pass, x, y);
		for (size_t k = 0; k < q->out_bytes / 4; k++) {
			if (has_quirk(way, QUIRK_FLUSH_RESULT) && (y[k] & F32_INF) == 0)
				y[k] &= F32_SIGN;
			store_f32(out + i * q->out_bytes + 4 * k, y[k]);
		}
	}
}

static const char *row_class(const struct question *q, const uint8_t *in, const uint8_t *expected)
{
	bool odd = false, zeros = true, tiny = true;

	(void)expected;
	for (size_t i = 0; i < q->in_bytes; i += 4) {
		const uint32_t m = load_f32(in + i) & ~F32_SIGN;

		odd |= m >= F32_INF;
		zeros &= m == 0;
		tiny &= (m & F32_INF) == 0;
	}
	return odd ? "row with NaN or Inf" : zeros ? "row of zeros" : tiny ? "row of subnormals" : "row";
}

const struct operation operation_row = {row_question, N_ROWS, row_items, row_answer, row_class, f32_results_same};

/* Attention: one query over KEYS keys, scores times 1/4. */

static bool attention_question(struct question *q, size_t i)
{
	(void)i;
	question_begin(q, OP_ATTENTION);
	question_number(q, "cols", HEAD);
	question_number(q, "keys", KEYS);
	question_in(q, HEAD * 4, 4);
	question_in(q, KEYS * HEAD * 4, 4);
	question_in(q, KEYS * HEAD * 4, 4);
	question_out(q, HEAD * 4, 4);
	return true;
}

static void attention_items(const struct question *q, struct items *items)
{
	for (int k = 0; k < (items->quick ? 20 : 200); k++) {
		uint8_t item[(1 + 2 * KEYS) * HEAD * 4];

		for (size_t i = 0; i < q->in_bytes; i += 4)
			store_f32(item + i, number_random(items, 0, 2));
		items_add(items, item);
	}
}

static void attention_answer(const struct question *q, const struct way *way, const uint8_t *in, const uint64_t *indices, size_t n,
                             uint8_t *out)
{
	static uint64_t memory[1 << 15], workspace[1 << 16];
	const struct mxfp_attention_cache cache = {.size = sizeof cache, .heads = 1, .head_cols = HEAD, .capacity = KEYS, .memory = memory,
	                                           .memory_bytes = sizeof memory};
	const struct mxfp_attention_options options = {.size = sizeof options, .scale = mxfp_some(0.25F)};

	(void)indices;
	for (size_t i = 0; i < n; i++) {
		uint32_t x[(1 + 2 * KEYS) * HEAD], y[HEAD];
		const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, y);
		const struct mxfp_matrix query = mxfp_numbers(MXFP_FORMAT_F32, 1, HEAD, x);
		const struct mxfp_matrix keys = mxfp_numbers(MXFP_FORMAT_F32, KEYS, HEAD, x + HEAD);
		const struct mxfp_matrix values = mxfp_numbers(MXFP_FORMAT_F32, KEYS, HEAD, x + HEAD + KEYS * HEAD);

		for (size_t k = 0; k < q->in_bytes / 4; k++)
			x[k] = load_f32(in + i * q->in_bytes + 4 * k);
		must_succeed(mxfp_attention_store(&cache, 0, &keys, &values, REFERENCE));
		must_succeed(mxfp_attention(&result, &query, &cache, KEYS - 1, &options, workspace, sizeof workspace, REFERENCE));
		for (int k = 0; k < HEAD; k++) {
			if (has_quirk(way, QUIRK_FLUSH_RESULT) && (y[k] & F32_INF) == 0)
				y[k] &= F32_SIGN;
			store_f32(out + i * q->out_bytes + 4 * (size_t)k, y[k]);
		}
	}
}

const struct operation operation_attention = {
	attention_question, 1, attention_items, attention_answer, row_class, f32_results_same,
};
