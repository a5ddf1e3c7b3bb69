/* SPDX-License-Identifier: MIT */
/*
 * Attention of one sequence over keys and values in blocks: scores of queries with all keys before them, softmax, sums of values.
 * Queries run in tiles that begin at multiples of ATTENTION_TILE in the sequence, with the keys up to the tile's end, so that a
 * row does not depend on the rows that run with it: keys behind a query take no part, and their weights are zeros.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"

/* Keys and values of a layer in a slot, by token, each head's elements being a row. */
struct cache {
	struct mxfp_blocks keys, values;
};

/* A tile of queries: `n` rows of the batch from `row` on, at `position` and following; and the heads of keys and values that
   run together. */
struct tile {
	size_t row, position, n;
	size_t first_key, cols;
	size_t first_head, heads;
	const struct cache *cache;
};

/* As many heads make a group as take at most this for scores and decoded values, but at least one. */
enum { GROUP_BYTES = 1 << 24 };

/* What exp takes, in multiplications. */
enum { EXP_OPERATIONS = 50 };

/* What queries and probabilities become. */
static enum mxfp_format query_format(const struct network *network)
{
	return network->options.attention != OPTION_FORMAT_NONE ? network->options.attention : MXFP_FORMAT_F32;
}

enum mxfp_format attention_cache_format(const struct network *network)
{
	const struct network_options *o = &network->options;

	if (o->kv_cache != OPTION_FORMAT_NONE)
		return o->kv_cache;
	return o->attention != OPTION_FORMAT_NONE ? o->attention : MXFP_FORMAT_F32;
}

/* The bytes of the codes and scales of keys or values. */
static struct mxfp_sizes blocks_size(const struct network *network, size_t tokens)
{
	const struct shape *s = &network->shape;
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(&size, attention_cache_format(network), tokens * s->kv_heads, s->head_cols));
	return size;
}

size_t attention_blocks_bytes(const struct network *network, size_t capacity)
{
	const struct shape *s = &network->shape;

	if (capacity > SIZE_MAX / sizeof(float) / 2 / s->kv_heads / s->head_cols / s->layers)
		return 0;
	const struct mxfp_sizes size = blocks_size(network, capacity);
	return 2 * (size.codes_bytes + size.scales_bytes);
}

static struct cache cache_of(const struct network *network, uint8_t *memory, size_t capacity)
{
	const struct mxfp_sizes size = blocks_size(network, capacity);
	struct mxfp_blocks keys = {
		.size = sizeof keys, .format = attention_cache_format(network),
		.rows = capacity * network->shape.kv_heads,
		.cols = network->shape.head_cols,
		.codes = memory,
		.scales = memory + size.codes_bytes,
	};
	struct mxfp_blocks values = keys;

	values.codes = memory + size.codes_bytes + size.scales_bytes;
	values.scales = memory + 2 * size.codes_bytes + size.scales_bytes;
	return (struct cache){keys, values};
}

/* Quantizes rows of a piece into its slot. Their tensor scale, which is that of all others, stays in `all`. */
static void store(struct network *network, const struct network_piece *piece, struct mxfp_blocks *all, const float *x)
{
	const struct mxfp_sizes before = blocks_size(network, piece->first);
	struct mxfp_blocks some = *all;

	some.rows = piece->n * network->shape.kv_heads;
	some.codes = (uint8_t *)all->codes + before.codes_bytes;
	some.scales = (uint8_t *)all->scales + before.scales_bytes;
	linear_quantize_into(network, &some, x);
	all->tensor_scale = some.tensor_scale;
	all->tensor_scale_divides = some.tensor_scale_divides;
}

/* One head of the keys or values of a tile in blocks. */
static struct mxfp_matrix head_blocks(const struct network *network, const struct tile *tile, const struct mxfp_blocks *blocks,
                                      size_t head)
{
	const size_t heads = network->shape.kv_heads;
	struct mxfp_matrix matrix = linear_blocks(blocks, tile->first_key * heads + head, tile->cols);
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(&size, blocks->format, 1, blocks->cols));
	matrix.stride = heads * size.codes_row_bytes;
	matrix.scales_stride = heads * size.scales_row_bytes;
	return matrix;
}

/* The queries of a group's heads, head after head. */
static void gather(struct network *network, const struct tile *tile, float *heads)
{
	const double begun = clock_seconds();
	const struct shape *s = &network->shape;
	const size_t cols = s->heads * s->head_cols, shared = s->heads / s->kv_heads;

	for (size_t h = 0; h < tile->heads * shared; h++)
		for (size_t i = 0; i < tile->n; i++)
			memcpy(heads + (h * tile->n + i) * s->head_cols,
			       network->q + (tile->row + i) * cols + (tile->first_head * shared + h) * s->head_cols,
			       s->head_cols * sizeof *heads);
	work_end(network, NETWORK_ATTENTION, begun);
}

/* Their sums back to their rows. */
static void scatter(struct network *network, const struct tile *tile, const float *heads)
{
	const double begun = clock_seconds();
	const struct shape *s = &network->shape;
	const size_t cols = s->heads * s->head_cols, shared = s->heads / s->kv_heads;

	for (size_t h = 0; h < tile->heads * shared; h++)
		for (size_t i = 0; i < tile->n; i++)
			memcpy(network->sums + (tile->row + i) * cols + (tile->first_head * shared + h) * s->head_cols,
			       heads + (h * tile->n + i) * s->head_cols, s->head_cols * sizeof *heads);
	work_end(network, NETWORK_ATTENTION, begun);
}

/* Numbers of a group's heads, or what they become: a block is part of a row, so that a row depends on no other. */
static int quantize_tile(struct network *network, const struct tile *tile, struct inputs *rows, const float *x,
                         size_t cols, struct error *error)
{
	const struct shape *s = &network->shape;

	*rows = (struct inputs){.x = x, .rows = tile->heads * (s->heads / s->kv_heads) * tile->n, .cols = cols};
	return query_format(network) != MXFP_FORMAT_F32 ? linear_quantize(network, rows, query_format(network), error) : EXIT_OK;
}

/* Those of head i of the group. */
static struct mxfp_matrix rows_of(const struct tile *tile, const struct inputs *rows, size_t i)
{
	const size_t n = rows->rows / tile->heads;

	return rows->blocks.rows > 0 ? linear_blocks(&rows->blocks, i * n, n)
	                             : linear_numbers(rows->x + i * n * rows->cols, n, rows->cols, 0);
}

/* Rows of a matrix of numbers whose columns lie one after the other. */
static struct mxfp_matrix columns(const float *x, size_t rows, size_t cols)
{
	struct mxfp_matrix matrix = linear_numbers(x, rows, cols, 0);

	matrix.transposed = true;
	return matrix;
}

/* A product for each head of keys and values, of the queries of all heads that share it. */
struct group {
	struct mxfp_product *products;
	struct mxfp_matrix *matrices; /* two for each */
	struct mxfp_result *results;
	size_t n;
};

static bool take_group(struct network *network, const struct tile *tile, struct group *group)
{
	group->n = 0;
	group->products = scratch_take(network, SCRATCH_PRODUCTS,
	                               tile->heads * (sizeof *group->products + 2 * sizeof *group->matrices + sizeof *group->results));
	if (group->products == NULL)
		return false;
	group->matrices = (struct mxfp_matrix *)(void *)(group->products + tile->heads);
	group->results = (struct mxfp_result *)(void *)(group->matrices + 2 * tile->heads);
	return true;
}

static void add_product(struct group *group, float *c, struct mxfp_matrix a, struct mxfp_matrix w)
{
	struct mxfp_matrix *matrices = &group->matrices[2 * group->n];

	matrices[0] = a;
	matrices[1] = w;
	group->results[group->n] = mxfp_to_numbers(MXFP_FORMAT_F32, c);
	group->products[group->n] = (struct mxfp_product){
		.size = sizeof *group->products,
		.c = &group->results[group->n],
		.a = &matrices[0],
		.w = &matrices[1],
	};
	group->n++;
}

static int run_group(struct network *network, const struct group *group, enum mxfp_format a_format, struct error *error)
{
	return linear_products(network, group->products, group->n, MXFP_FUNCTION_IDENTITY, a_format, NETWORK_ATTENTION, error);
}

/* Scores of queries with all keys. */
static int multiply_keys(struct network *network, const struct tile *tile, float *scores, const float *queries,
                         struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t rows = s->heads / s->kv_heads * tile->n;
	struct inputs q;
	struct group group;
	int code = quantize_tile(network, tile, &q, queries, s->head_cols, error);

	if (code != EXIT_OK)
		return code;
	if (!take_group(network, tile, &group))
		return fail_memory(error);
	for (size_t i = 0; i < tile->heads; i++) {
		add_product(&group, scores + i * rows * tile->cols, rows_of(tile, &q, i),
		            head_blocks(network, tile, &tile->cache->keys, tile->first_head + i));
	}
	return run_group(network, &group, query_format(network), error);
}

/* Decodes the values of a head. A block of these runs along the head, and a product would want it along the tokens, where it
   would hold some that come later. */
static void decode_values(struct network *network, const struct tile *tile, size_t head, float *values)
{
	const double begun = clock_seconds();
	const struct mxfp_matrix blocks = head_blocks(network, tile, &tile->cache->values, head);

	must_succeed(dense_dequantize(values, MXFP_FORMAT_F32, &blocks, &network->exec));
	work_end(network, NETWORK_QUANTIZE, begun);
}

/* Sums of values. */
static int multiply_values(struct network *network, const struct tile *tile, float *sums, const float *softmaxes,
                           struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t rows = s->heads / s->kv_heads * tile->n, numbers = tile->cols * s->head_cols;
	float *decoded = scratch_take(network, SCRATCH_VALUES, tile->heads * numbers * sizeof *decoded);
	struct inputs probabilities;
	struct group group;
	int code = quantize_tile(network, tile, &probabilities, softmaxes, tile->cols, error);

	if (code != EXIT_OK)
		return code;
	if (decoded == NULL || !take_group(network, tile, &group))
		return fail_memory(error);
	for (size_t i = 0; i < tile->heads; i++) {
		decode_values(network, tile, tile->first_head + i, decoded + i * numbers);
		add_product(&group, sums + i * rows * s->head_cols, rows_of(tile, &probabilities, i),
		            columns(decoded + i * numbers, s->head_cols, tile->cols));
	}
	return run_group(network, &group, query_format(network), error);
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
	const double begun = clock_seconds();
	const struct shape *s = &network->shape;
	const size_t rows = tile->heads * (s->heads / s->kv_heads) * tile->n;
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, rows, tile->cols, scores);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, scores);
	struct mxfp_matrix mask = mxfp_numbers(MXFP_FORMAT_F32, tile->n, tile->cols, NULL);
	struct mxfp_softmax_options options = {
		.size = sizeof options,
		.scale = mxfp_some((float)(1 / sqrt((double)s->head_cols))),
		.head_rows = tile->n,
		.causal = true,
		.causal_offset = (ptrdiff_t)(tile->position - tile->first_key),
		.sinks = layer->sinks != NULL ? layer->sinks + tile->first_head * (s->heads / s->kv_heads) : NULL,
	};

	if (window > 0 && tile->first_key + tile->cols > window) {
		mask.data = make_mask(network, tile, window);
		if (mask.data == NULL)
			return fail_memory(error);
		options.mask = &mask;
	}
	must_succeed(mxfp_softmax(&dst, &src, &options, work_exec(network, EXP_OPERATIONS * (double)(rows * tile->cols))));
	work_end(network, NETWORK_ATTENTION, begun);
	return EXIT_OK;
}

/* Runs a group of a tile's heads. */
static int run_heads(struct network *network, const struct layer *layer, const struct tile *tile, size_t window,
                     struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t rows = tile->heads * (s->heads / s->kv_heads) * tile->n;
	float *queries = scratch_take(network, SCRATCH_QUERIES, rows * s->head_cols * sizeof *queries);
	float *scores = scratch_take(network, SCRATCH_SCORES, rows * tile->cols * sizeof *scores);
	float *sums = scratch_take(network, SCRATCH_SUMS, rows * s->head_cols * sizeof *sums);

	if (queries == NULL || scores == NULL || sums == NULL)
		return fail_memory(error);
	gather(network, tile, queries);
	int code = multiply_keys(network, tile, scores, queries, error);
	if (code == EXIT_OK)
		code = softmax(network, layer, tile, window, scores, error);
	if (code == EXIT_OK)
		code = multiply_values(network, tile, sums, scores, error);
	if (code == EXIT_OK)
		scatter(network, tile, sums);
	return code;
}

/* Runs a tile: all heads at once, unless its keys are so many that their scores and values would take too much memory. */
static int run_tile(struct network *network, const struct layer *layer, struct tile *tile, size_t window,
                    struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t numbers = tile->cols * (s->heads / s->kv_heads * tile->n + s->head_cols);
	const size_t most = GROUP_BYTES / sizeof(float) / numbers > 0 ? GROUP_BYTES / sizeof(float) / numbers : 1;
	int code = EXIT_OK;

	for (tile->first_head = 0; tile->first_head < s->kv_heads && code == EXIT_OK; tile->first_head += tile->heads) {
		const size_t left = s->kv_heads - tile->first_head;

		tile->heads = left < most ? left : most;
		code = run_heads(network, layer, tile, window, error);
	}
	return code;
}

int attention_run_blocks(struct network *network, size_t layer, const struct network_piece *piece, size_t row, void *memory,
                         struct error *error)
{
	const size_t cols = network->shape.kv_heads * network->shape.head_cols, window = network->shape.windows[layer];
	struct cache cache = cache_of(network, memory, network->slots[piece->slot].capacity);
	struct tile tile = {.cache = &cache};
	int code = EXIT_OK;

	store(network, piece, &cache.keys, network->k + row * cols);
	store(network, piece, &cache.values, network->v + row * cols);
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
