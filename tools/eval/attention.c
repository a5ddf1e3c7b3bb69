/* SPDX-License-Identifier: MIT */
/*
 * Attention of one sequence: scores of queries with all keys before them, softmax, sums of values. Queries run in tiles that
 * begin at multiples of ATTENTION_TILE in the sequence, with the keys up to the tile's end, so that a row does not depend on
 * the rows that run with it: keys behind a query take no part, and their weights are zeros.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/must_succeed.h"
#include "eval/network_parts.h"

/* A tile of queries: `n` rows of the batch from `row` on, at `position` and following. */
struct tile {
	size_t row, position, n;
	size_t first_key, cols;
	const float *keys, *values; /* of the slot, all heads */
	size_t capacity;
};

/* Rounds keys and values to the cache's format and back. */
static int quantize_cache(struct network *network, float *x, size_t rows, struct error *error)
{
	const struct shape *s = &network->shape;
	struct inputs heads = {.x = x, .rows = rows * s->kv_heads, .cols = s->head_cols};
	int code = linear_quantize(network, &heads, network->options.kv_cache, error);

	if (code == EXIT_OK) {
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&heads.blocks);

		must_succeed(mxfp_dequantize(&matrix, x, MXFP_FORMAT_F32, 0, &network->exec));
	}
	return code;
}

/* Puts keys and values of a piece into its slot. */
static int store(struct network *network, const struct network_piece *piece, size_t row, float *keys, float *values,
                 size_t capacity, struct error *error)
{
	const size_t cols = network->shape.kv_heads * network->shape.head_cols;
	float *k = network->k + row * cols, *v = network->v + row * cols;
	int code = EXIT_OK;

	if (network->options.kv_cache != OPTION_FORMAT_NONE) {
		code = quantize_cache(network, k, piece->n, error);
		if (code == EXIT_OK)
			code = quantize_cache(network, v, piece->n, error);
	}
	if (code != EXIT_OK)
		return code;
	memcpy(keys + piece->first * cols, k, piece->n * cols * sizeof *k);
	for (size_t c = 0; c < cols; c++)
		for (size_t t = 0; t < piece->n; t++)
			values[c * capacity + piece->first + t] = v[t * cols + c];
	return EXIT_OK;
}

/* Queries of a tile, head after head, or their sums back to their rows. */
static void gather(const struct network *network, const struct tile *tile, float *heads)
{
	const struct shape *s = &network->shape;
	const size_t cols = s->heads * s->head_cols;

	for (size_t h = 0; h < s->heads; h++)
		for (size_t i = 0; i < tile->n; i++)
			memcpy(heads + (h * tile->n + i) * s->head_cols, network->q + (tile->row + i) * cols + h * s->head_cols,
			       s->head_cols * sizeof *heads);
}

static void scatter(struct network *network, const struct tile *tile, const float *heads)
{
	const struct shape *s = &network->shape;
	const size_t cols = s->heads * s->head_cols;

	for (size_t h = 0; h < s->heads; h++)
		for (size_t i = 0; i < tile->n; i++)
			memcpy(network->sums + (tile->row + i) * cols + h * s->head_cols, heads + (h * tile->n + i) * s->head_cols,
			       s->head_cols * sizeof *heads);
}

/* A product for each head of keys and values, of the queries of all heads that share it: c = a w^T. */
static int multiply(struct network *network, const struct tile *tile, float *c, size_t c_cols, const float *a,
                    size_t a_cols, const float *w, size_t w_stride, size_t w_step, struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t rows = s->heads / s->kv_heads * tile->n;
	struct mxfp_product *products = scratch_take(network, SCRATCH_PRODUCTS,
	                                             s->kv_heads * (sizeof *products + 2 * sizeof(struct mxfp_matrix)));

	if (products == NULL)
		return fail_memory(error);
	struct mxfp_matrix *matrices = (struct mxfp_matrix *)(void *)(products + s->kv_heads);
	for (size_t h = 0; h < s->kv_heads; h++) {
		struct mxfp_matrix *matrix = &matrices[2 * h];

		matrix[0] = linear_numbers(a + h * rows * a_cols, rows, a_cols, 0);
		matrix[1] = linear_numbers(w + h * w_step, c_cols, a_cols, w_stride);
		products[h] = (struct mxfp_product){
			.size = sizeof *products,
			.a = &matrix[0],
			.w = &matrix[1],
			.c = c + h * rows * c_cols,
		};
	}
	return linear_products(network, products, s->kv_heads, MXFP_FUNCTION_IDENTITY, MXFP_FORMAT_F32, NETWORK_ATTENTION,
	                        error);
}

/* A mask of the keys that have left a window; NULL without memory. */
static const float *make_mask(struct network *network, const struct tile *tile, size_t window)
{
	float *mask = scratch_take(network, SCRATCH_MASK, tile->n * tile->cols * sizeof *mask);

	for (size_t i = 0; mask != NULL && i < tile->n; i++)
		for (size_t j = 0; j < tile->cols; j++)
			mask[i * tile->cols + j] = tile->first_key + j + window <= tile->position + i ? -INFINITY : 0;
	return mask;
}

static int softmax(struct network *network, const struct layer *layer, const struct tile *tile, size_t window,
                   float *scores, struct error *error)
{
	const double begun = work_begin();
	const struct shape *s = &network->shape;
	const float scale = (float)(1 / sqrt((double)s->head_cols));
	const struct mxfp_row_input src = {.data = scores, .format = MXFP_FORMAT_F32};
	const struct mxfp_row_output dst = {.data = scores, .format = MXFP_FORMAT_F32};
	struct mxfp_row_input mask = {.data = NULL, .format = MXFP_FORMAT_F32};
	struct mxfp_softmax_options options = {
		.scale = &scale,
		.head_rows = tile->n,
		.causal = true,
		.causal_offset = (ptrdiff_t)(tile->position - tile->first_key),
		.sinks = layer->sinks,
		.exec = &network->exec,
	};

	if (window > 0 && tile->first_key + tile->cols > window) {
		mask.data = make_mask(network, tile, window);
		if (mask.data == NULL)
			return fail_memory(error);
		options.mask = &mask;
		options.mask_rows = tile->n;
	}
	must_succeed(mxfp_softmax(&dst, &src, s->heads * tile->n, tile->cols, &options));
	work_end(network, NETWORK_ATTENTION, begun);
	return EXIT_OK;
}

static int run_tile(struct network *network, const struct layer *layer, const struct tile *tile, size_t window,
                    struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t rows = s->heads * tile->n, kv_cols = s->kv_heads * s->head_cols;
	float *queries = scratch_take(network, SCRATCH_QUERIES, rows * s->head_cols * sizeof *queries);
	float *scores = scratch_take(network, SCRATCH_SCORES, rows * tile->cols * sizeof *scores);
	float *sums = scratch_take(network, SCRATCH_SUMS, rows * s->head_cols * sizeof *sums);

	if (queries == NULL || scores == NULL || sums == NULL)
		return fail_memory(error);
	gather(network, tile, queries);
	int code = multiply(network, tile, scores, tile->cols, queries, s->head_cols,
	                    tile->keys + tile->first_key * kv_cols, kv_cols, s->head_cols, error);
	if (code == EXIT_OK)
		code = softmax(network, layer, tile, window, scores, error);
	if (code == EXIT_OK)
		code = multiply(network, tile, sums, s->head_cols, scores, tile->cols, tile->values + tile->first_key,
		                tile->capacity, s->head_cols * tile->capacity, error);
	if (code == EXIT_OK)
		scatter(network, tile, sums);
	return code;
}

int attention_run(struct network *network, size_t layer, const struct network_piece *piece, size_t row,
                  struct error *error)
{
	const struct shape *s = &network->shape;
	const struct slot *slot = &network->slots[piece->slot];
	const size_t kv_cols = s->kv_heads * s->head_cols, window = s->windows[layer];
	float *keys = slot->memory + layer * 2 * slot->capacity * kv_cols, *values = keys + slot->capacity * kv_cols;
	int code = store(network, piece, row, keys, values, slot->capacity, error);
	struct tile tile = {.keys = keys, .values = values, .capacity = slot->capacity};

	for (size_t at = 0; at < piece->n && code == EXIT_OK; at += tile.n) {
		const size_t position = piece->first + at, base = position / ATTENTION_TILE * ATTENTION_TILE;
		const size_t end = base + ATTENTION_TILE;

		tile.row = row + at;
		tile.position = position;
		tile.n = end - position < piece->n - at ? end - position : piece->n - at;
		tile.first_key = window > 0 && base + 1 > window ? (base + 1 - window) / ATTENTION_TILE * ATTENTION_TILE : 0;
		tile.cols = end - tile.first_key;
		code = run_tile(network, &network->layers[layer], &tile, window, error);
	}
	return code;
}
