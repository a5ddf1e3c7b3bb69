/* SPDX-License-Identifier: MIT */
/* Products of activations and weights: product.h has the order of the sums. */
#include "analyse/product.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lanes.h"
#include "base/must_succeed.h"
#include "internal.h"

enum {
	TOKENS_MAX = LANES_VECTORS * LANES_MAX, /* that are summed together */
	PIECE_ROWS = 128                        /* that a thread takes at once with a group of tokens */
};

struct work {
	double *y;
	const float *weights, *x;
	size_t rows, tokens, cols, group, groups;
	const struct lanes *lanes;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Elements k .. k + n of a group of tokens as x[n][group]; tokens past the last are zeros. */
static void widen_tokens(double *x, const struct work *work, size_t token, size_t k, size_t n)
{
	for (size_t t = 0; t < work->group; t++) {
		const float *from = work->x + (token + t) * work->cols + k;

		for (size_t i = 0; i < n; i++)
			x[i * work->group + t] = token + t < work->tokens ? (double)from[i] : 0;
	}
}

/* One part of K for some rows with a group of tokens; their sums so far are in `sums`. */
static void add_part(double sums[PIECE_ROWS][TOKENS_MAX], const struct work *work, size_t row, size_t rows,
                     const double *x, size_t k, size_t n)
{
	double w[LANES_ROWS][LANES_DEPTH];
	struct lanes_product product = {.n = n, .x = x};

	for (size_t r = 0; r < rows; r += LANES_ROWS) {
		for (size_t i = 0; i < LANES_ROWS; i++) {
			/* Past the last row the last one is taken again; nobody reads those sums. */
			const float *from = work->weights + (row + least(r + i, rows - 1)) * work->cols + k;

			for (size_t j = 0; j < n; j++)
				w[i][j] = (double)from[j];
			product.w[i] = w[i];
			product.sums[i] = sums[r + i];
		}
		work->lanes->add_products(&product);
	}
}

static void product_piece(void *context, size_t piece)
{
	const struct work *work = context;
	size_t row = piece / work->groups * PIECE_ROWS, token = piece % work->groups * work->group;
	size_t rows = least(PIECE_ROWS, work->rows - row), tokens = least(work->group, work->tokens - token);
	double sums[PIECE_ROWS][TOKENS_MAX] = {{0}};
	double x[LANES_DEPTH * TOKENS_MAX];

	for (size_t k = 0; k < work->cols; k += LANES_DEPTH) {
		size_t n = least(LANES_DEPTH, work->cols - k);

		widen_tokens(x, work, token, k, n);
		add_part(sums, work, row, rows, x, k, n);
	}
	for (size_t r = 0; r < rows; r++)
		memcpy(work->y + (row + r) * work->tokens + token, sums[r], tokens * sizeof sums[r][0]);
}

void product(double *y, const float *weights, size_t rows, const float *x, size_t tokens, size_t cols,
             unsigned threads)
{
	const struct lanes *lanes = lanes_active();
	size_t group = LANES_VECTORS * lanes->n;
	struct work work = {y, weights, x, rows, tokens, cols, group, (tokens + group - 1) / group, lanes};
	size_t n_pieces = (rows + PIECE_ROWS - 1) / PIECE_ROWS * work.groups;

	mxfp_parallel_for(&(struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = threads}, n_pieces, product_piece, &work);
}

/* Makes room for `need` items of `size` bytes where `have` are; what was there is lost. */
static int reserve(void **room, size_t *have, size_t need, size_t size, struct error *error)
{
	if (need <= *have && *room != NULL)
		return EXIT_OK;
	free(*room);
	*have = 0;
	*room = need < SIZE_MAX / size ? malloc((need + 1) * size) : NULL;
	if (*room == NULL)
		return fail_memory(error);
	*have = need;
	return EXIT_OK;
}

int product_gemm(struct product_memory *memory, const struct mxfp_matrix *x, size_t n, const struct mxfp_matrix *w,
                 unsigned threads, struct error *error)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads};
	const struct mxfp_gemm_options options = {.size = sizeof options, .acc = MXFP_ACC_EXACT, .pass_k = PRODUCT_PASS};
	struct mxfp_product products[PRODUCTS_MAX];
	struct mxfp_result results[PRODUCTS_MAX];
	size_t bytes;
	int code = EXIT_OK;

	assert(n <= PRODUCTS_MAX);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		void *y = memory->y[i];

		code = reserve(&y, &memory->y_numbers[i], x[i].rows * w->rows, sizeof(float), error);
		memory->y[i] = y;
		results[i] = mxfp_to_numbers(MXFP_FORMAT_F32, y);
		products[i] = (struct mxfp_product){.size = sizeof products[i], .c = &results[i], .a = &x[i], .w = w};
	}
	if (code != EXIT_OK)
		return code;
	must_succeed(mxfp_gemm_workspace_size(&bytes, products, n, &options, &exec));
	code = reserve(&memory->workspace, &memory->workspace_bytes, bytes, 1, error);
	if (code != EXIT_OK)
		return code;
	must_succeed(mxfp_gemm_grouped(NULL, products, n, &options, memory->workspace, bytes, &exec));
	return EXIT_OK;
}

void product_memory_free(struct product_memory *memory)
{
	for (size_t i = 0; i < PRODUCTS_MAX; i++)
		free(memory->y[i]);
	free(memory->workspace);
	*memory = (struct product_memory){0};
}
