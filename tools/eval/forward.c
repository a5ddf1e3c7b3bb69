/* SPDX-License-Identifier: MIT */
/* Runs rows of tokens through the layers of a network. */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"

enum { LOGITS_BYTES = 1 << 25 }; /* of logits that are computed at once, unless one row is larger */

/* y may be x. */
static void normalize(struct network *network, float *y, const float *x, const float *weight, size_t rows, size_t cols)
{
	const double begun = clock_seconds();
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, x);
	const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, weight);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_norm_options options = {
		.size = sizeof options, .epsilon = network->shape.epsilon, .weight = &weights,
	};

	must_succeed(mxfp_rms_norm(&dst, &src, &options, &network->exec));
	work_end(network, NETWORK_VECTOR, begun);
}

/* Rotates the heads of rows in place. */
static void rotate(struct network *network, float *x, size_t rows, size_t heads)
{
	const double begun = clock_seconds();
	const struct shape *s = &network->shape;
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, rows, heads * s->head_cols, x);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, x);
	const struct mxfp_rotary_options options = {
		.size = sizeof options,
		.head_cols = s->head_cols,
		.rotary_cols = s->rotary_cols,
		.interleaved = s->interleaved,
		.positions = network->positions,
		.attention_factor = mxfp_some(s->attention_factor),
	};

	must_succeed(mxfp_rotary(&dst, &src, s->frequencies, &options, &network->exec));
	work_end(network, NETWORK_VECTOR, begun);
}

static int run_attention(struct network *network, const struct layer *layer, const struct network_piece *pieces, size_t n,
                         size_t rows, struct error *error)
{
	const struct shape *s = &network->shape;
	struct inputs h = {.x = network->h, .rows = rows, .cols = s->hidden};
	struct inputs sums = {.x = network->sums, .rows = rows, .cols = s->heads * s->head_cols};
	const struct result qkv[] = {
		{.linear = &layer->q, .c = network->q},
		{.linear = &layer->k, .c = network->k},
		{.linear = &layer->v, .c = network->v},
	};
	const struct result output = {.linear = &layer->output, .c = network->x, .residual = network->x};

	normalize(network, network->h, network->x, layer->attention_norm, rows, s->hidden);
	int code = linear_multiply(network, &h, MXFP_FUNCTION_IDENTITY, qkv, 3, error);
	if (code != EXIT_OK)
		return code;
	if (layer->q_norm != NULL)
		normalize(network, network->q, network->q, layer->q_norm, rows * s->heads, s->head_cols);
	if (layer->k_norm != NULL)
		normalize(network, network->k, network->k, layer->k_norm, rows * s->kv_heads, s->head_cols);
	rotate(network, network->q, rows, s->heads);
	rotate(network, network->k, rows, s->kv_heads);
	for (size_t i = 0, row = 0; i < n && code == EXIT_OK; row += pieces[i++].n)
		code = attention_run(network, network->at, &pieces[i], row, error);
	return code == EXIT_OK ? linear_multiply(network, &sums, MXFP_FUNCTION_IDENTITY, &output, 1, error) : code;
}

static int run_dense(struct network *network, const struct layer *layer, size_t rows, struct error *error)
{
	struct inputs h = {.x = network->h, .rows = rows, .cols = network->shape.hidden};
	struct inputs gated = {.x = network->gate, .rows = rows, .cols = layer->gate.n};
	const struct result up = {.linear = &layer->up, .c = network->up};
	const struct result gate = {.linear = &layer->gate, .c = network->gate, .gate = network->up};
	const struct result down = {.linear = &layer->down, .c = network->x, .residual = network->x};
	int code = linear_multiply(network, &h, MXFP_FUNCTION_IDENTITY, &up, 1, error);

	if (code == EXIT_OK)
		code = linear_multiply(network, &h, MXFP_FUNCTION_SILU, &gate, 1, error);
	return code == EXIT_OK ? linear_multiply(network, &gated, MXFP_FUNCTION_IDENTITY, &down, 1, error) : code;
}

/* Gives rows of logits that are pieces' rows one after the other, the first being number `from` of all, to the sink. */
static int deliver(const struct network_piece *pieces, size_t from, size_t n, const float *logits, size_t vocabulary,
                   network_sink *sink, void *context, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; n > 0 && code == EXIT_OK; i++) {
		const size_t wanted = pieces[i].wanted < pieces[i].n ? pieces[i].n - pieces[i].wanted : 0;

		if (from >= wanted) {
			from -= wanted;
			continue;
		}
		const size_t some = wanted - from < n ? wanted - from : n;
		code = sink(context, i, pieces[i].wanted + from, some, logits, error);
		logits += some * vocabulary;
		n -= some;
		from = 0;
	}
	return code;
}

/* Computes the logits of the rows that are wanted. */
static int run_head(struct network *network, const struct network_piece *pieces, size_t n, network_sink *sink,
                    void *context, struct error *error)
{
	const struct shape *s = &network->shape;
	const size_t most = LOGITS_BYTES / sizeof(float) / s->vocabulary;
	size_t rows = 0, row = 0;
	int code = EXIT_OK;

	const double begun = clock_seconds();
	for (size_t i = 0; i < n; row += pieces[i++].n)
		for (size_t j = pieces[i].wanted; j < pieces[i].n; j++)
			memcpy(network->h + rows++ * s->hidden, network->x + (row + j) * s->hidden, s->hidden * sizeof *network->h);
	work_end(network, NETWORK_VECTOR, begun);
	normalize(network, network->h, network->h, network->norm, rows, s->hidden);
	for (size_t from = 0, some; from < rows && code == EXIT_OK; from += some) {
		some = most < 1 ? 1 : rows - from < most ? rows - from : most;
		float *logits = scratch_take(network, SCRATCH_LOGITS, some * s->vocabulary * sizeof *logits);
		struct inputs h = {.x = network->h + from * s->hidden, .rows = some, .cols = s->hidden};
		const struct result result = {.linear = &network->head, .c = logits};

		if (logits == NULL)
			return fail_memory(error);
		code = linear_multiply(network, &h, MXFP_FUNCTION_IDENTITY, &result, 1, error);
		if (code == EXIT_OK)
			code = deliver(pieces, from, some, logits, s->vocabulary, sink, context, error);
	}
	return code;
}

int forward_embed(struct network *network, const struct network_piece *pieces, size_t n, size_t *rows, struct error *error)
{
	const double begun = clock_seconds();
	int code = EXIT_OK;

	*rows = 0;
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		for (size_t t = 0; t < pieces[i].n && code == EXIT_OK; t++)
			code = weight_numbers(&network->embedding, pieces[i].ids[t], 1,
			                      network->x + (*rows)++ * network->shape.hidden, error);
	work_end(network, NETWORK_READ, begun);
	return code;
}

void forward_set_positions(struct network *network, const struct network_piece *pieces, size_t n)
{
	uint32_t *position = network->positions;

	for (size_t i = 0; i < n; i++)
		for (size_t t = 0; t < pieces[i].n; t++)
			*position++ = (uint32_t)(pieces[i].first + t);
}

int forward_step(struct network *network, size_t step, const struct network_piece *pieces, size_t n, size_t rows,
                 struct error *error)
{
	const size_t i = step / NETWORK_STEPS;
	const struct layer *layer = &network->layers[i];
	int code;

	network->at = i;
	if (step % NETWORK_STEPS == 0) {
		code = run_attention(network, layer, pieces, n, rows, error);
	} else {
		normalize(network, network->h, network->x, layer->mlp_norm, rows, network->shape.hidden);
		code = network->shape.routed[i] ? experts_run(network, layer, rows, error)
		                                : run_dense(network, layer, rows, error);
	}
	network->at = network->shape.layers;
	return code;
}

int forward_run(struct network *network, const struct network_piece *pieces, size_t n, network_sink *sink, void *context,
                struct error *error)
{
	const size_t steps = NETWORK_STEPS * network->shape.layers;
	size_t rows = 0;
	int code = EXIT_OK;

	network->at = network->shape.layers;
	forward_set_positions(network, pieces, n);
	if (network->first_step == 0)
		code = forward_embed(network, pieces, n, &rows, error);
	for (size_t i = 0; i < n && network->first_step > 0; i++)
		rows += pieces[i].n;
	for (size_t step = network->first_step; step <= steps && code == EXIT_OK; step++) {
		if (network->state != NULL)
			network->state(network->state_context, step, network->x, rows);
		code = step < steps ? forward_step(network, step, pieces, n, rows, error)
		                    : run_head(network, pieces, n, sink, context, error);
	}
	return code;
}
