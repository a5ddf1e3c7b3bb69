/* SPDX-License-Identifier: MIT */
/* Products of activations and weights: product.h has the order of the sums. */
#include "analyse/product.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/must_succeed.h"

enum {
	GROUP = 4,       /* tokens, and */
	ROWS = 4,        /* rows, that are summed together: their sums fit 8 registers of two numbers */
	DEPTH = 512,     /* elements of K that are widened at once, so that a group of tokens stays in the first cache */
	PIECE_ROWS = 64  /* that a thread takes at once with a group of tokens */
};

struct work {
	double *y;
	const float *weights, *x;
	size_t rows, tokens, cols, groups;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Elements k .. k + n of a group of tokens as x[n][GROUP]; tokens past the last are zeros. */
static void widen(double x[DEPTH * GROUP], const struct work *work, size_t token, size_t k, size_t n)
{
	for (size_t t = 0; t < GROUP; t++) {
		const float *from = work->x + (token + t) * work->cols + k;

		for (size_t i = 0; i < n; i++)
			x[i * GROUP + t] = token + t < work->tokens ? (double)from[i] : 0;
	}
}

/* Adds n products to each of the sums. They are written out as pairs so that compilers keep all of them in registers,
   with an instruction for each pair. */
static void add_products(double sums[ROWS][GROUP], const float *const w[ROWS], const double *x, size_t n)
{
	enum { PAIR = 2 };
	const float *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
	double s[2 * ROWS][PAIR];

	memcpy(s, sums, sizeof s);
	for (size_t k = 0; k < n; k++, x += GROUP)
		for (size_t t = 0; t < PAIR; t++) {
			s[0][t] += (double)w0[k] * x[t];
			s[1][t] += (double)w0[k] * x[PAIR + t];
			s[2][t] += (double)w1[k] * x[t];
			s[3][t] += (double)w1[k] * x[PAIR + t];
			s[4][t] += (double)w2[k] * x[t];
			s[5][t] += (double)w2[k] * x[PAIR + t];
			s[6][t] += (double)w3[k] * x[t];
			s[7][t] += (double)w3[k] * x[PAIR + t];
		}
	memcpy(sums, s, sizeof s);
}

/* One part of K for some rows with a group of tokens; their sums so far are in `sums`. */
static void add_part(double sums[PIECE_ROWS][GROUP], const struct work *work, size_t row, size_t rows, const double *x,
                     size_t k, size_t n)
{
	for (size_t r = 0; r < rows; r += ROWS) {
		const float *w[ROWS];

		/* Past the last row the last one is taken again; nobody reads those sums. */
		for (size_t i = 0; i < ROWS; i++)
			w[i] = work->weights + (row + least(r + i, rows - 1)) * work->cols + k;
		add_products(sums + r, w, x, n);
	}
}

static void product_piece(void *context, size_t piece)
{
	const struct work *work = context;
	size_t row = piece / work->groups * PIECE_ROWS, token = piece % work->groups * GROUP;
	size_t rows = least(PIECE_ROWS, work->rows - row), tokens = least(GROUP, work->tokens - token);
	double sums[PIECE_ROWS][GROUP] = {{0}};
	double x[DEPTH * GROUP];

	for (size_t k = 0; k < work->cols; k += DEPTH) {
		size_t n = least(DEPTH, work->cols - k);

		widen(x, work, token, k, n);
		add_part(sums, work, row, rows, x, k, n);
	}
	for (size_t r = 0; r < rows; r++)
		memcpy(work->y + (row + r) * work->tokens + token, sums[r], tokens * sizeof sums[r][0]);
}

void product(double *y, const float *weights, size_t rows, const float *x, size_t tokens, size_t cols,
             unsigned threads)
{
	struct work work = {y, weights, x, rows, tokens, cols, (tokens + GROUP - 1) / GROUP};
	size_t n_pieces = (rows + PIECE_ROWS - 1) / PIECE_ROWS * work.groups;

	mxfp_parallel_for(&(struct mxfp_exec){.threads = threads}, n_pieces, product_piece, &work);
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
	const struct mxfp_exec exec = {.threads = threads};
	const struct mxfp_gemm_options options = {.acc = MXFP_ACC_EXACT, .pass_k = PRODUCT_PASS, .exec = &exec};
	struct mxfp_product products[PRODUCTS_MAX];
	size_t bytes;
	int code = EXIT_OK;

	assert(n <= PRODUCTS_MAX);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		void *y = memory->y[i];

		code = reserve(&y, &memory->y_numbers[i], x[i].rows * w->rows, sizeof(float), error);
		memory->y[i] = y;
		products[i] = (struct mxfp_product){.a = &x[i], .w = w, .c = y};
	}
	if (code != EXIT_OK)
		return code;
	must_succeed(mxfp_gemm_workspace_size(products, n, &options, &bytes));
	code = reserve(&memory->workspace, &memory->workspace_bytes, bytes, 1, error);
	if (code != EXIT_OK)
		return code;
	must_succeed(mxfp_gemm_grouped(products, n, &options, memory->workspace, bytes));
	return EXIT_OK;
}

void product_memory_free(struct product_memory *memory)
{
	for (size_t i = 0; i < PRODUCTS_MAX; i++)
		free(memory->y[i]);
	free(memory->workspace);
	*memory = (struct product_memory){0};
}
