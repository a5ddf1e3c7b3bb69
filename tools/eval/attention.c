/* SPDX-License-Identifier: MIT */
/* Attention of one sequence, whose keys and values are numbers unless options ask for blocks. */
#include "config.h"

#include <math.h>

#include "base/clock.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"
#include "mxfp/attention.h"

/* Cost of softmax and of loading K and V, in multiply-adds. For one token a second thread pays from 30 keys on. */
enum { LIKE_OPERATIONS = 32 };

/* Numbers of a layer in a slot. */
static struct mxfp_attention_cache numbers(const struct network *network, size_t capacity)
{
	return (struct mxfp_attention_cache){
		.size = sizeof(struct mxfp_attention_cache),
		.heads = network->shape.kv_heads,
		.head_cols = network->shape.head_cols,
		.capacity = capacity,
	};
}

/* The bytes of one layer; 0: too many. */
static size_t layer_bytes(const struct network *network, size_t capacity)
{
	const struct mxfp_attention_cache cache = numbers(network, capacity);
	size_t bytes;

	if (attention_cache_format(network) != MXFP_FORMAT_F32)
		return attention_blocks_bytes(network, capacity);
	return mxfp_attention_cache_size(&bytes, &cache) == MXFP_OK ? bytes : 0;
}

size_t attention_cache_bytes(const struct network *network, size_t capacity)
{
	const size_t bytes = layer_bytes(network, capacity), layers = network->shape.layers;

	return bytes <= PTRDIFF_MAX / layers ? bytes * layers : 0;
}

/* How many keys the queries of a piece see together. */
static double keys_seen(const struct network_piece *piece, size_t window)
{
	double keys = 0;

	for (size_t t = piece->first; t < piece->first + piece->n; t++)
		keys += (double)(window > 0 && t + 1 > window ? window : t + 1);
	return keys;
}

static int run_numbers(struct network *network, size_t layer, const struct network_piece *piece, size_t row, void *memory,
                       struct error *error)
{
	const double begun = clock_seconds();
	const struct shape *s = &network->shape;
	const size_t kv_cols = s->kv_heads * s->head_cols, cols = s->heads * s->head_cols;
	const double operations = 2 * 2 * (double)cols * keys_seen(piece, s->windows[layer]);
	struct mxfp_attention_cache cache = numbers(network, network->slots[piece->slot].capacity);
	const struct mxfp_attention_options options = {
		.size = sizeof options,
		.scale = mxfp_some((float)(1 / sqrt((double)s->head_cols))),
		.window = s->windows[layer],
		.sinks = network->layers[layer].sinks,
	};
	const struct mxfp_exec *exec = work_exec(network, LIKE_OPERATIONS * operations);
	const struct mxfp_matrix keys = mxfp_numbers(MXFP_FORMAT_F32, piece->n, kv_cols, network->k + row * kv_cols);
	const struct mxfp_matrix values = mxfp_numbers(MXFP_FORMAT_F32, piece->n, kv_cols, network->v + row * kv_cols);
	const struct mxfp_matrix queries = mxfp_numbers(MXFP_FORMAT_F32, piece->n, cols, network->q + row * cols);
	const struct mxfp_result sums = mxfp_to_numbers(MXFP_FORMAT_F32, network->sums + row * cols);
	size_t bytes;

	cache.memory = memory;
	cache.memory_bytes = layer_bytes(network, cache.capacity);
	must_succeed(mxfp_attention_workspace_size(&bytes, &cache, piece->first, s->heads, piece->n, &options, exec));
	void *workspace = scratch_take(network, SCRATCH_WORKSPACE, bytes);
	if (workspace == NULL)
		return fail_memory(error);
	must_succeed(mxfp_attention_store(&cache, piece->first, &keys, &values, exec));
	must_succeed(mxfp_attention(&sums, &queries, &cache, piece->first, &options, workspace, bytes, exec));
	network->done[network->at][NETWORK_ATTENTION].operations += operations;
	network->done[network->at][NETWORK_ATTENTION].bytes +=
		2 * (double)kv_cols * (double)(piece->first + piece->n) * sizeof(float);
	work_end(network, NETWORK_ATTENTION, begun);
	return EXIT_OK;
}

int attention_run(struct network *network, size_t layer, const struct network_piece *piece, size_t row,
                  struct error *error)
{
	const struct slot *slot = &network->slots[piece->slot];
	uint8_t *memory = (uint8_t *)slot->memory + layer_bytes(network, slot->capacity) * layer;

	return attention_cache_format(network) == MXFP_FORMAT_F32
	               ? run_numbers(network, layer, piece, row, memory, error)
	               : attention_run_blocks(network, layer, piece, row, memory, error);
}
