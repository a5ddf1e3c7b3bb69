/* SPDX-License-Identifier: MIT */
/* Products of activations and weights in binary64: product.h has the order of the sums. */
#include "product.h"

#include <string.h>

#include "parallel.h"

enum { PIECE_ROWS = 4 }; /* that a thread takes at once */

static size_t round_up(size_t tokens)
{
	return (tokens + PRODUCT_GROUP - 1) / PRODUCT_GROUP * PRODUCT_GROUP;
}

size_t product_operand_size(size_t tokens, size_t cols)
{
	return round_up(tokens) * cols;
}

void product_operand_set(struct product_operand *operand, const float *x, size_t tokens, size_t cols)
{
	operand->tokens = tokens;
	operand->cols = cols;
	operand->lanes = round_up(tokens);
	memset(operand->x, 0, operand->lanes * cols * sizeof *operand->x);
	for (size_t t = 0; t < tokens; t++)
		for (size_t k = 0; k < cols; k++)
			operand->x[k * operand->lanes + t] = x[t * cols + k];
}

/* One group of tokens for one row. */
static void product_group(double sum[PRODUCT_GROUP], const float *row, const float *x, size_t cols, size_t lanes)
{
	double s[PRODUCT_GROUP] = {0};

	for (size_t k = 0; k < cols; k++, x += lanes) {
		double w = (double)row[k];

		for (size_t j = 0; j < PRODUCT_GROUP; j++)
			s[j] += w * (double)x[j];
	}
	memcpy(sum, s, sizeof s);
}

struct work {
	double *y;
	const float *weights;
	size_t rows;
	const struct product_operand *operand;
};

/* Some rows with all tokens. */
static void product_rows(const void *context, size_t piece, struct mxfp_counts *counts)
{
	const struct work *work = context;
	const struct product_operand *operand = work->operand;
	size_t first = piece * PIECE_ROWS;
	size_t end = work->rows - first < PIECE_ROWS ? work->rows : first + PIECE_ROWS;
	double sum[PRODUCT_GROUP];

	(void)counts;
	for (size_t t = 0; t < operand->tokens; t += PRODUCT_GROUP) {
		size_t n = operand->tokens - t < PRODUCT_GROUP ? operand->tokens - t : PRODUCT_GROUP;

		for (size_t r = first; r < end; r++) {
			product_group(sum, work->weights + r * operand->cols, operand->x + t, operand->cols,
			              operand->lanes);
			memcpy(work->y + r * operand->tokens + t, sum, n * sizeof sum[0]);
		}
	}
}

void product(double *y, const float *weights, size_t rows, const struct product_operand *operand, unsigned threads)
{
	const struct work work = {y, weights, rows, operand};
	size_t n_pieces = rows / PIECE_ROWS + (rows % PIECE_ROWS != 0);

	mxfp_parallel_for(threads, NULL, n_pieces, product_rows, &work, NULL);
}
