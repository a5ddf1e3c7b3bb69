/* SPDX-License-Identifier: MIT */
/*
 * Checks the order of columns of 4-bit weights, compared with something that the order of nibbles cannot have changed:
 *
 *   - the rows of `up` for the columns of `down`: the i-th of both belong to one unit of the MLP, and training keeps
 *     their sizes alike (scaling one up and the other down by a factor changes nothing that the model computes, so
 *     that gradient descent keeps the difference of their squares);
 *   - a norm's weights for the columns of what reads the norm's output, for the same reason.
 *
 * A model made without this symmetry, or with norms folded into its weights, gives no evidence and no finding.
 *
 * With the model that it was made from, each weight is compared with its own numbers there: rounding to 4 bits is an error of
 * some hundredths of their squares, columns in another order one of about twice them.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "analyse/column_order.h"
#include "analyse/lint.h"
#include "io/elements.h"

/* What part of a name stands for which reference: what replaces it, and how far apart the reference's rows are. */
static const struct order_reference {
	const char *part, *other;
	unsigned step, from; /* rows from, from + step, ... */
} references[] = {
	{".down_proj.weight", ".up_proj.weight", 1, 0},
	{".experts.down_proj", ".experts.gate_up_proj", 2, 1}, /* gpt-oss: gate and up by turns */
	{".w2.weight", ".w3.weight", 1, 0},
	{".ffn_down.weight", ".ffn_up.weight", 1, 0},
	{".ffn_down_exps.weight", ".ffn_up_exps.weight", 1, 0},
	{".self_attn.q_proj.weight", ".input_layernorm.weight", 1, 0},
	{".self_attn.k_proj.weight", ".input_layernorm.weight", 1, 0},
	{".self_attn.v_proj.weight", ".input_layernorm.weight", 1, 0},
	{".mlp.gate_proj.weight", ".post_attention_layernorm.weight", 1, 0},
	{".mlp.up_proj.weight", ".post_attention_layernorm.weight", 1, 0},
	{".mlp.experts.gate_up_proj", ".post_attention_layernorm.weight", 1, 0},
	{".attn_q.weight", ".attn_norm.weight", 1, 0},
	{".attn_k.weight", ".attn_norm.weight", 1, 0},
	{".attn_v.weight", ".attn_norm.weight", 1, 0},
	{".ffn_gate.weight", ".ffn_norm.weight", 1, 0},
	{".ffn_up.weight", ".ffn_norm.weight", 1, 0},
};

enum {
	ROWS_READ = 512,      /* of a matrix whose columns are measured, from all over it */
	ROWS_TURNED = 16,     /* of one whose columns lie in a row */
	COLUMNS_READ = 1024,  /* of each row that is measured */
	LENGTH_MAX = PIECE_ELEMENTS /* of rows that are looked at */
};

/* A matrix that is measured: quantized or not; of a tensor with more dimensions the first. */
struct matrix_source {
	struct quantized quantized;
	const struct tensor *plain; /* NULL: quantized */
	const struct file *file;
	unsigned rank;
	uint64_t rows, cols;
};

/* The memory for one matrix at a time. */
struct order_check {
	struct lint *lint;
	double *columns, *reference; /* sizes, LENGTH_MAX each */
	float *x;                    /* a row */
	float *y;                    /* the same of the original */
	uint8_t *codes, *scales;
	size_t n_compared, n_alike;  /* weights that the original has, too; with its numbers, in some order */
};

static int find_source(const struct order_check *c, const char *name, struct matrix_source *source, bool *found,
                       struct error *error)
{
	int code = EXIT_OK;

	*source = (struct matrix_source){.plain = NULL};
	*found = false;
	if (lint_weight(c->lint, name) != NULL) {
		code = quantized_find(&source->quantized, found, c->lint->model, name, error);
		source->rank = source->quantized.shape.rank;
		source->cols = source->quantized.cols;
		source->rows = source->rank < 2 ? 1 : source->quantized.shape.dims[source->rank - 2];
		return code;
	}
	source->plain = model_find(c->lint->model, name, &source->file);
	*found = source->plain != NULL && elements_are_float(source->plain->dtype) && source->plain->rank >= 1;
	if (*found) {
		source->rank = source->plain->rank;
		source->cols = source->plain->shape[source->rank - 1];
		source->rows = source->rank < 2 ? 1 : source->plain->shape[source->rank - 2];
	}
	return EXIT_OK;
}

/* Reads the first `n` elements of a row; `n` is the row's length or whole blocks. */
static int read_row(const struct order_check *c, const struct matrix_source *source, uint64_t row, size_t n,
                    struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct piece piece = {.row = row, .rows = 1, .cols = n};
	uint64_t n_bytes;

	if (source->plain != NULL)
		return elements_read(source->file, source->plain, row * source->cols, c->x, n, error);
	const struct mxfp_blocks blocks = quantized_blocks(&source->quantized, &piece, c->codes, c->scales);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	int code = quantized_read(&source->quantized, &piece, &blocks, &n_bytes, error);
	if (code == EXIT_OK)
		dense_dequantize(c->x, MXFP_FORMAT_F32, &matrix, &exec);
	return code;
}

/* Sums of squares of the columns, over rows from all over the matrix. */
static int measure_columns(const struct order_check *c, const struct matrix_source *source, struct error *error)
{
	uint64_t n_rows = source->rows < ROWS_READ ? source->rows : ROWS_READ;
	int code = EXIT_OK;

	memset(c->columns, 0, (size_t)source->cols * sizeof *c->columns);
	for (uint64_t i = 0; i < n_rows && code == EXIT_OK; i++) {
		code = read_row(c, source, source->rows / n_rows * i, (size_t)source->cols, error);
		for (uint64_t k = 0; k < source->cols && code == EXIT_OK; k++)
			c->columns[k] += (double)c->x[k] * (double)c->x[k];
	}
	return code;
}

/* Sums of squares of rows, over their first columns; or the numbers themselves, if there is but one row. */
static int measure_reference(const struct order_check *c, const struct matrix_source *source,
                             const struct order_reference *reference, size_t n, struct error *error)
{
	bool part = source->plain != NULL || !source->quantized.choice.form->sparse;
	size_t length = (size_t)(source->cols > COLUMNS_READ && part ? COLUMNS_READ : source->cols);
	int code = EXIT_OK;

	if (source->rank == 1) {
		code = read_row(c, source, 0, n, error);
		for (size_t i = 0; i < n && code == EXIT_OK; i++)
			c->reference[i] = (double)c->x[i];
		return code;
	}
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		double sum = 0;

		code = read_row(c, source, reference->from + (uint64_t)i * reference->step, length, error);
		for (size_t k = 0; k < length && code == EXIT_OK; k++)
			sum += (double)c->x[k] * (double)c->x[k];
		c->reference[i] = sum;
	}
	return code;
}

/* Whether the reference has an entry for each column. */
static bool fits(const struct matrix_source *source, const struct matrix_source *other,
                 const struct order_reference *reference)
{
	if (source->cols > LENGTH_MAX || other->cols > LENGTH_MAX || source->rank < 2 || source->rows == 0)
		return false;
	if (other->rank == 1)
		return other->cols == source->cols;
	return other->cols > 0 && other->rows / reference->step == source->cols;
}

static int compare(struct order_check *c, const struct lint_weight *weight, const char *other,
                   const struct order_reference *reference, struct error *error)
{
	struct matrix_source columns, rows;
	struct column_order order;
	bool found;
	int code = find_source(c, weight->name, &columns, &found, error);

	if (code == EXIT_OK && found)
		code = find_source(c, other, &rows, &found, error);
	if (code != EXIT_OK || !found || !fits(&columns, &rows, reference))
		return code;
	code = measure_columns(c, &columns, error);
	if (code == EXIT_OK)
		code = measure_reference(c, &rows, reference, (size_t)columns.cols, error);
	if (code != EXIT_OK)
		return code;
	column_order_compare(&order, c->columns, c->reference, (size_t)columns.cols);
	if (!column_order_is_wrong(&order))
		return EXIT_OK;
	return lint_find(c->lint, LINT_NIBBLE_ORDER, &(struct lint_place){.file = weight->file, .tensor = weight->name}, error,
	                 "its columns go with the %s of '%s' %s: rank correlation in blocks %.2f (z = %.1f), as they are "
	                 "%.2f (z = %.1f)", rows.rank == 1 ? "numbers" : "rows", other, order.other,
	                 order.other_correlation, order.other_z, order.correlation, order.z);
}

/* Compares the weight with each reference that its name leads to. */
static int check_weight(struct order_check *c, const struct lint_weight *weight, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < sizeof references / sizeof references[0] && code == EXIT_OK; i++) {
		const struct order_reference *reference = &references[i];
		size_t n = strlen(weight->name), m = strlen(reference->part);
		size_t size = n + strlen(reference->other) + 1;

		if (n < m || strcmp(weight->name + n - m, reference->part) != 0)
			continue;
		char *other = malloc(size);
		if (other == NULL)
			return fail_memory(error);
		snprintf(other, size, "%.*s%s", (int)(n - m), weight->name, reference->other);
		code = compare(c, weight, other, reference, error);
		free(other);
	}
	return code;
}

/* Squares of an original's numbers, and of what they differ by from those of a weight in each order; the last is the present
   one. */
struct differences {
	double squares, of[COLUMN_ORDERS + 1];
};

static void add_differences(struct differences *sum, const float *x, const float *y, size_t n)
{
	for (size_t from = 0; from + COLUMN_GROUP <= n; from += COLUMN_GROUP)
		for (size_t i = 0; i < COLUMN_GROUP; i++) {
			const double here = (double)x[from + i], as_is = here - (double)y[from + i];

			sum->squares += (double)y[from + i] * (double)y[from + i];
			sum->of[COLUMN_ORDERS] += as_is * as_is;
			for (size_t k = 0; k < COLUMN_ORDERS; k++) {
				const double difference = here - (double)y[from + column_order_column(k, i)];

				sum->of[k] += difference * difference;
			}
		}
}

/* Whether an order makes the numbers those of the original: rounding to 4 bits is an error of less than an eighth of their
   squares, and anything else one of more than half of them; what is between is neither. */
static bool fits_original(const struct differences *sum, size_t order)
{
	return sum->of[order] <= sum->squares / 8;
}

/* Whether columns are beyond doubt in one other order. */
static bool find_order(const struct differences *sum, size_t *order)
{
	size_t n = 0;

	for (size_t k = 0; k <= COLUMN_ORDERS; k++) {
		if (sum->of[k] > sum->squares / 2)
			continue;
		if (k == COLUMN_ORDERS || !fits_original(sum, k))
			return false;
		*order = k;
		n++;
	}
	return n == 1;
}

/* The original's tensor with the shape of a weight, in rows along its blocks; false if there is none. */
static bool find_original(struct order_check *c, const struct lint_weight *weight, const struct matrix_source *source,
                          struct tensor *original, const struct file **file, bool *memory)
{
	const struct tensor *found = model_find(c->lint->original, weight->name, file);
	uint64_t rows, cols;

	*memory = true;
	if (found == NULL || !elements_are_float(found->dtype) || found->rank != source->rank)
		return false;
	*original = *found;
	if (source->quantized.transposed)
		*memory = role_turn(original, found, &c->lint->arena);
	tensor_matrix(original, &rows, &cols);
	for (unsigned i = 0; *memory && i < original->rank; i++)
		if (original->shape[i] != source->quantized.shape.dims[i])
			return false;
	return *memory && cols <= LENGTH_MAX && rows > 0;
}

/* Sums over rows from all over the matrix; those that lie by columns in the original are read number by number. */
static int sum_differences(struct order_check *c, struct differences *sum, const struct matrix_source *source,
                           const struct tensor *original, const struct file *file, struct error *error)
{
	const uint64_t rows = source->quantized.rows, most = original->by_columns ? ROWS_TURNED : ROWS_READ;
	const uint64_t n_rows = rows < most ? rows : most;
	int code = EXIT_OK;

	*sum = (struct differences){.squares = 0};
	for (uint64_t i = 0; i < n_rows && code == EXIT_OK; i++) {
		const uint64_t row = rows / n_rows * i;

		code = read_row(c, source, row, (size_t)source->cols, error);
		if (code == EXIT_OK)
			code = elements_read(file, original, row * source->cols, c->y, (size_t)source->cols, error);
		if (code == EXIT_OK)
			add_differences(sum, c->x, c->y, (size_t)source->cols);
	}
	return code;
}

/* Compares a weight with the original's; *found is false if that has none of its shape. */
static int compare_original(struct order_check *c, const struct lint_weight *weight, bool *found, struct error *error)
{
	const struct file *file;
	struct matrix_source source;
	struct differences sum;
	struct tensor original;
	bool memory = true;
	size_t order = COLUMN_ORDERS;
	int code = find_source(c, weight->name, &source, found, error);

	if (code != EXIT_OK || !*found)
		return code;
	*found = find_original(c, weight, &source, &original, &file, &memory);
	if (!memory)
		return fail_memory(error);
	if (!*found)
		return EXIT_OK;
	code = sum_differences(c, &sum, &source, &original, file, error);
	c->n_compared++;
	if (code != EXIT_OK)
		return code;
	const bool is_wrong = find_order(&sum, &order);
	c->n_alike += is_wrong || fits_original(&sum, COLUMN_ORDERS);
	if (!is_wrong)
		return EXIT_OK;
	return lint_find(c->lint, LINT_NIBBLE_ORDER, &(struct lint_place){.file = weight->file, .tensor = weight->name, .order = order + 1},
	                 error, "it is that of '%.200s' %s: the error is %.3g of the squares of the numbers there, as it is %.3g",
	                 c->lint->original->path, column_order_phrase(order), sum.of[order] / sum.squares,
	                 sum.of[COLUMN_ORDERS] / sum.squares);
}

/* Whether the model is that which the weights were made from. */
static int check_original(const struct order_check *c, struct error *error)
{
	const char *path = c->lint->original->path, *made = c->lint->model->path;

	if (c->n_compared == 0)
		return fail(error, EXIT_INPUT, "%s: has no unquantized tensor with the name and shape of a 4-bit weight of %s; give the model "
		            "that it was made from, or leave out --against", path, made);
	if (c->n_alike == 0)
		return fail(error, EXIT_INPUT, "%s: its numbers are in no order those of a 4-bit weight of %s; give the model that it was made "
		            "from, or leave out --against", path, made);
	return EXIT_OK;
}

static int look_at_weight(struct order_check *c, const struct lint_weight *weight, struct error *error)
{
	bool found = false;
	int code = EXIT_OK;

	if (mxfp_format_get_info(mxfp_format_get_info(weight->format)->element)->bits != 4)
		return EXIT_OK;
	if (c->lint->original != NULL)
		code = compare_original(c, weight, &found, error);
	return code == EXIT_OK && !found ? check_weight(c, weight, error) : code;
}

int lint_order(struct lint *lint, struct error *error)
{
	struct order_check c = {.lint = lint};
	int code = EXIT_OK;

	if (lint->ignored[LINT_NIBBLE_ORDER])
		return EXIT_OK;
	c.columns = malloc(2 * LENGTH_MAX * sizeof *c.columns);
	c.x = malloc(LENGTH_MAX * (2 * sizeof *c.x + 2));
	if (c.columns == NULL || c.x == NULL)
		code = fail_memory(error);
	else {
		c.reference = c.columns + LENGTH_MAX;
		c.y = c.x + LENGTH_MAX;
		c.codes = (uint8_t *)(c.y + LENGTH_MAX);
		c.scales = c.codes + LENGTH_MAX;
	}
	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++)
		code = look_at_weight(&c, &lint->weights[i], error);
	if (code == EXIT_OK && lint->original != NULL)
		code = check_original(&c, error);
	free(c.columns);
	free(c.x);
	return code;
}
