/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"

/* Takes the memory for rows that run at once. */
static int take_rows(struct network *network, struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t batch = network->options.batch;
	const size_t cols = s->intermediate > s->shared_cols ? s->intermediate : s->shared_cols;
	const struct {
		float **rows;
		size_t cols;
	} rows[] = {
		{&network->x, s->hidden},
		{&network->h, s->hidden},
		{&network->q, s->heads * s->head_cols},
		{&network->k, s->kv_heads * s->head_cols},
		{&network->v, s->kv_heads * s->head_cols},
		{&network->sums, s->heads * s->head_cols},
		{&network->up, cols},
		{&network->gate, cols},
	};

	/* Rows of experts lie beside these. */
	network->rows_bytes = batch * s->experts_per_token * 2 * (s->hidden + s->expert_cols) * sizeof(float);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const size_t bytes = batch * rows[i].cols * sizeof **rows[i].rows;

		network->rows_bytes += bytes;
		*rows[i].rows = malloc(bytes + 1);
		if (*rows[i].rows == NULL)
			return fail_memory(error);
	}
	network->positions = malloc(batch * sizeof *network->positions);
	network->slots = calloc(batch, sizeof *network->slots);
	network->done = calloc(s->layers + 1, sizeof *network->done);
	if (network->positions == NULL || network->slots == NULL || network->done == NULL)
		return fail_memory(error);
	return EXIT_OK;
}

int network_open(struct network **opened, const struct model *model, const struct network_options *options,
                 struct error *error)
{
	struct network *network = *opened = calloc(1, sizeof *network);

	if (network == NULL)
		return fail_memory(error);
	network->model = model;
	network->options = *options;
	network->exec = (struct mxfp_exec){.size = sizeof network->exec, .threads = options->threads};
	network->one = *ONE_THREAD;
	int code = shape_read(&network->shape, model, error);
	if (code == EXIT_OK)
		code = take_rows(network, error);
	if (code == EXIT_OK)
		code = weights_load(network, error);
	if (code != EXIT_OK) {
		network_close(network);
		*opened = NULL;
	}
	return code;
}

uint64_t network_vocabulary(const struct network *network)
{
	return network->shape.vocabulary;
}

uint64_t network_bytes(const struct network *network)
{
	return network->bytes;
}

struct network_size network_size(const struct network *network)
{
	return network->size;
}

size_t network_layers(const struct network *network)
{
	return network->shape.layers;
}

uint64_t network_quantized(const struct network *network)
{
	return network->quantized;
}

/* Memory for keys and values. Where layers run one by one, pages of the others stay untouched; elsewhere the system finds them
   now, before anything runs. */
static void *slot_memory(const struct network *network, size_t bytes)
{
	void *memory = bytes > 0 ? calloc(bytes, 1) : NULL;

	pages_advise(memory, bytes);
	if (memory != NULL && !network->options.by_layer)
		memset(memory, 0, bytes);
	return memory;
}

/* Gives a slot memory for a sequence that begins. Values in blocks that no token has written are zeros, because sums of a tile
   of keys multiply them by zeros. */
static int begin_slot(struct network *network, const struct network_piece *piece, struct error *error)
{
	struct slot *slot = &network->slots[piece->slot];
	const size_t total = piece->total > piece->n ? piece->total : piece->n;
	const size_t capacity = (total + ATTENTION_TILE - 1) / ATTENTION_TILE * ATTENTION_TILE;
	const size_t bytes = attention_cache_bytes(network, capacity);

	network_release(network, piece->slot);
	if (network->spare.capacity == capacity) {
		*slot = network->spare;
		network->spare = (struct slot){0};
		if (attention_cache_format(network) != MXFP_FORMAT_F32)
			memset(slot->memory, 0, bytes);
		return EXIT_OK;
	}
	/* Slots hold no more than a batch and a window (packed_more()), so what does not fit goes first. */
	free(network->spare.memory);
	network->spare = (struct slot){0};
	*slot = (struct slot){slot_memory(network, bytes), capacity};
	return slot->memory != NULL ? EXIT_OK : fail_memory(error);
}

/* Begins the sequences that pieces begin, and checks their tokens. */
static int begin_pieces(struct network *network, const struct network_piece *pieces, size_t n, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		if (pieces[i].first == 0)
			code = begin_slot(network, &pieces[i], error);
		for (size_t t = 0; t < pieces[i].n && code == EXIT_OK; t++)
			if (pieces[i].ids[t] >= network->shape.vocabulary)
				code = fail(error, EXIT_INPUT, "token %zu of a sequence: id %u is not below %zu, the vocabulary of %s",
				            pieces[i].first + t, (unsigned)pieces[i].ids[t], network->shape.vocabulary,
				            network->model->path);
	}
	return code;
}

int network_run(struct network *network, const struct network_piece *pieces, size_t n, network_sink *sink,
                void *context, struct error *error)
{
	const int code = begin_pieces(network, pieces, n, error);

	return code == EXIT_OK ? forward_run(network, pieces, n, sink, context, error) : code;
}

size_t network_steps(const struct network *network)
{
	return NETWORK_STEPS * network->shape.layers;
}

void network_begin_at(struct network *network, size_t first, network_state *state, void *context)
{
	network->first_step = first;
	network->state = state;
	network->state_context = context;
}

/* Whether the options quantize a linear layer. */
static bool is_changed(const struct network *network, const struct linear *linear, const struct network_options *options)
{
	const struct file *file;
	const struct tensor *tensor = linear->name != NULL ? model_find(network->model, linear->name, &file) : NULL;

	return tensor != NULL && !options->keeps(options->keeps_context, linear->name) &&
	       quantize_entry_of(options->plan, tensor, file)->quantized;
}

/* The first step of a layer that has a linear layer which the options quantize; NETWORK_STEPS: none. */
static size_t find_step(const struct network *network, size_t layer, const struct network_options *options)
{
	size_t first = NETWORK_STEPS;
	const struct linear *linear;

	for (size_t i = 0; (linear = layer_linear(&network->layers[layer], network_experts(network, layer), i)) != NULL; i++) {
		const bool of_attention = linear->site == NETWORK_SITE_QKV || linear->site == NETWORK_SITE_OUTPUT;

		if ((size_t)!of_attention < first && is_changed(network, linear, options))
			first = (size_t)!of_attention;
	}
	return first;
}

int network_change(struct network *network, const struct network_options *options, size_t *step, struct error *error)
{
	const size_t layers = network->shape.layers;
	struct network_kept *kept = network->kept = calloc(1, sizeof *kept);
	int code = EXIT_OK;

	*step = SIZE_MAX;
	if (kept == NULL)
		return fail_memory(error);
	*kept = (struct network_kept){network->options, network->size, network->bytes, network->quantized, network->packed_more,
	                              network->head, calloc(layers, sizeof *kept->layers), calloc(layers + 1, sizeof(bool))};
	if (kept->layers == NULL || kept->changed == NULL)
		return fail_memory(error);
	network->options.plan = options->plan;
	network->options.keeps = options->keeps;
	network->options.keeps_context = options->keeps_context;
	network->options.activations = options->activations;
	network->options.activation_rule = options->activation_rule;
	for (size_t i = 0; i < layers && code == EXIT_OK; i++) {
		const size_t first = find_step(network, i, options);

		if (first == NETWORK_STEPS)
			continue;
		if (*step == SIZE_MAX)
			*step = NETWORK_STEPS * i + first;
		kept->layers[i] = network->layers[i];
		kept->changed[i] = true;
		network->layers[i] = (struct layer){.attention_norm = NULL};
		code = weights_load_layer(network, i, error);
	}
	/* The embedding as a head stays as it is stored. */
	const bool tied = strcmp(network->head.name, network->embedding.name) == 0;
	if (code == EXIT_OK && !tied && is_changed(network, &network->head, options)) {
		if (*step == SIZE_MAX)
			*step = network_steps(network);
		kept->changed[layers] = true;
		network->head = (struct linear){.name = NULL};
		code = weights_load_head(network, error);
	}
	return code;
}

void network_restore(struct network *network)
{
	struct network_kept *kept = network->kept;

	network->kept = NULL;
	if (kept == NULL)
		return;
	for (size_t i = 0; kept->layers != NULL && kept->changed != NULL && i < network->shape.layers; i++)
		if (kept->changed[i]) {
			weights_drop_layer(network, i);
			network->layers[i] = kept->layers[i];
		}
	if (kept->changed != NULL && kept->changed[network->shape.layers]) {
		weights_free_linear(&network->head);
		network->head = kept->head;
	}
	network->options = kept->options;
	network->size = kept->size;
	network->bytes = kept->bytes;
	network->quantized = kept->quantized;
	network->packed_more = kept->packed_more;
	free(kept->layers);
	free(kept->changed);
	free(kept);
}

size_t network_hidden(const struct network *network)
{
	return network->shape.hidden;
}

int network_embed(struct network *network, const struct network_piece *pieces, size_t n, float *x, struct error *error)
{
	size_t rows;
	int code = begin_pieces(network, pieces, n, error);

	if (code == EXIT_OK)
		code = forward_embed(network, pieces, n, &rows, error);
	if (code == EXIT_OK)
		memcpy(x, network->x, rows * network->shape.hidden * sizeof *x);
	return code;
}

int network_run_layer(struct network *network, size_t layer, const struct network_piece *pieces, size_t n, float *x,
                      struct error *error)
{
	size_t rows = 0;
	int code = begin_pieces(network, pieces, n, error);

	for (size_t i = 0; i < n; i++)
		rows += pieces[i].n;
	forward_set_positions(network, pieces, n);
	memcpy(network->x, x, rows * network->shape.hidden * sizeof *x);
	for (size_t step = 0; step < NETWORK_STEPS && code == EXIT_OK; step++)
		code = forward_step(network, NETWORK_STEPS * layer + step, pieces, n, rows, error);
	if (code == EXIT_OK)
		memcpy(x, network->x, rows * network->shape.hidden * sizeof *x);
	for (size_t i = 0; i < n; i++)
		network_release(network, pieces[i].slot);
	return code;
}

int network_load_layer(struct network *network, size_t layer, struct error *error)
{
	return weights_load_layer(network, layer, error);
}

void network_drop_layer(struct network *network, size_t layer)
{
	weights_drop_layer(network, layer);
}

uint64_t network_layer_bytes(const struct network *network)
{
	return network->layer_bytes;
}

uint64_t network_scratch_bytes(const struct network *network)
{
	const struct shape *s = &network->shape;
	const size_t batch = network->options.batch, rows = batch * s->experts_per_token;
	const size_t tokens = (batch + ATTENTION_TILE - 1) / ATTENTION_TILE * ATTENTION_TILE;
	size_t inputs = batch * s->hidden;

	inputs = batch * s->intermediate > inputs ? batch * s->intermediate : inputs;
	inputs = batch * s->shared_cols > inputs ? batch * s->shared_cols : inputs;
	inputs = rows * s->hidden > inputs ? rows * s->hidden : inputs;
	inputs = rows * s->expert_cols > inputs ? rows * s->expert_cols : inputs;
	/* What experts are given and make, and up and gate, which may hold both in turns; 8 bits a number, and those of its scale;
	   pages of keys and values of other layers are not touched. */
	return rows * (2 * s->hidden + 3 * s->expert_cols) * sizeof(float) + inputs * 17 / 16 +
	       attention_cache_bytes(network, tokens) / s->layers;
}

void network_watch(struct network *network, network_watcher *watch, void *context)
{
	network->watch = watch;
	network->watch_context = context;
}

void network_round(struct network *network, float *x, size_t rows, size_t cols)
{
	const enum mxfp_format format = network->options.activations;

	if (format != OPTION_FORMAT_NONE)
		network_round_inputs(format, network->options.activation_rule, x, rows, cols, &network->exec);
}

void network_follow(struct network *network, const struct network *leader)
{
	network->leader = leader;
}

size_t network_experts(const struct network *network, size_t layer)
{
	return network->shape.routed[layer] ? network->shape.experts : 0;
}

size_t network_experts_per_token(const struct network *network)
{
	return network->shape.experts_per_token;
}

int network_linears(const struct network *network, size_t layer, struct network_linear **linears, size_t *n,
                    struct error *error)
{
	const size_t experts = network_experts(network, layer);
	size_t all = 0;

	while (layer_linear(&network->layers[layer], experts, all) != NULL)
		all++;
	*n = 0;
	*linears = malloc(all * sizeof **linears + 1);
	for (size_t i = 0; *linears != NULL && i < all; i++) {
		const struct linear *linear = layer_linear(&network->layers[layer], experts, i);

		if (linear->name != NULL)
			(*linears)[(*n)++] = (struct network_linear){
				.weight = linear->name, .row = linear->row, .rows = linear->n, .cols = linear->k, .site = linear->site,
				.routes = linear == &network->layers[layer].router};
	}
	return *linears != NULL ? EXIT_OK : fail_memory(error);
}

/* The linear layer whose rows begin there; NULL: none. */
static struct linear *find_linear(const struct network *network, size_t layer, const char *weight, size_t row)
{
	struct linear *linear;

	for (size_t i = 0; (linear = layer_linear(&network->layers[layer], network_experts(network, layer), i)) != NULL; i++)
		if (linear->name != NULL && linear->row == row && strcmp(linear->name, weight) == 0)
			return linear;
	return NULL;
}

int network_replace(struct network *network, size_t layer, const struct network_linear *replaced,
                    const struct mxfp_blocks *blocks, struct error *error)
{
	struct linear *linear = find_linear(network, layer, replaced->weight, replaced->row);
	const enum mxfp_format activations = network->options.activations;
	struct mxfp_blocks copy = *blocks;
	struct mxfp_sizes size;

	must_succeed(mxfp_blocks_size(&size, blocks->format, blocks->rows, blocks->cols));
	uint8_t *memory = malloc(size.codes_bytes + size.scales_bytes + 1);
	if (memory == NULL)
		return fail_memory(error);
	copy.codes = memcpy(memory, blocks->codes, size.codes_bytes);
	copy.scales = memcpy(memory + size.codes_bytes, blocks->scales, size.scales_bytes);
	linear_free_w(linear);
	linear->memory = memory;
	linear->packed_bytes = 0;
	linear->w = mxfp_blocks_matrix(&copy);
	linear->a_format = activations != OPTION_FORMAT_NONE ? activations : MXFP_FORMAT_F32;
	return EXIT_OK;
}

void network_release(struct network *network, unsigned slot)
{
	struct slot *released = &network->slots[slot];

	if (released->memory != NULL && !network->options.by_layer) {
		free(network->spare.memory);
		network->spare = *released;
	} else {
		free(released->memory);
	}
	*released = (struct slot){0};
}

const struct network_done *network_done(const struct network *network, size_t layer)
{
	return network->done[layer];
}

void network_restart(struct network *network)
{
	memset(network->done, 0, (network->shape.layers + 1) * sizeof *network->done);
}

const char *network_work_name(enum network_work work)
{
	static const char *const names[N_NETWORK_WORKS] = {"products", "attention", "vector", "quantize", "read"};

	return names[work];
}

void network_close(struct network *network)
{
	if (network == NULL)
		return;
	float *const rows[] = {network->x, network->h, network->q, network->k, network->v, network->sums, network->up,
	                       network->gate};

	network_restore(network);
	weights_free(network);
	pages_end(&network->pages);
	for (size_t i = 0; network->slots != NULL && i < network->options.batch; i++)
		free(network->slots[i].memory);
	free(network->spare.memory);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		free(rows[i]);
	for (int i = 0; i < N_SCRATCHES; i++)
		free(network->scratch[i].memory);
	free(network->slots);
	free(network->positions);
	free(network->done);
	arena_free(&network->arena);
	shape_free(&network->shape);
	free(network);
}
