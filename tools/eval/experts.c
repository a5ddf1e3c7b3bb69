/* SPDX-License-Identifier: MIT */
/* Layers with experts: a router sends each token to some of them, and their results are added, weighted. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"

/* alpha of gpt-oss's gates: transformers, GptOssExperts. */
static const float clamped_alpha = 1.702F;

/* Which tokens an expert has: rows starts[e] to starts[e + 1] - 1 of what is gathered. */
struct routes {
	size_t rows;     /* tokens times experts of each */
	float *logits;   /* [tokens][experts] */
	float *weights;  /* [tokens][experts_per_token] */
	size_t *chosen;  /* [tokens][experts_per_token], in the order of the weights */
	size_t *starts;  /* [experts + 1] */
	size_t *tokens;  /* [rows] */
	float *scales;   /* [rows] */
};

/* All of it in one piece of memory; false if there is none. */
static bool take_routes(struct network *network, struct routes *r, size_t tokens)
{
	const struct shape *s = &network->shape;
	const size_t rows = tokens * s->experts_per_token;
	size_t *sizes = scratch_take(network, SCRATCH_ROUTES,
	                             (2 * rows + s->experts + 1) * sizeof *sizes +
	                             (tokens * s->experts + 2 * rows) * sizeof(float));

	if (sizes == NULL)
		return false;
	*r = (struct routes){.rows = rows, .chosen = sizes, .tokens = sizes + rows, .starts = sizes + 2 * rows};
	r->logits = (float *)(void *)(r->starts + s->experts + 1);
	r->weights = r->logits + tokens * s->experts;
	r->scales = r->weights + rows;
	return true;
}

/* The largest logits of a token, the first of equal ones before the others; NaN is the least. */
static void choose(const struct network *network, const struct routes *r, size_t token)
{
	const size_t n = network->shape.experts, k = network->shape.experts_per_token;
	const float *logits = r->logits + token * n;
	size_t *chosen = r->chosen + token * k;

	for (size_t i = 0; i < k; i++) {
		size_t best = n;

		for (size_t e = 0; e < n; e++) {
			bool taken = false;

			for (size_t j = 0; j < i; j++)
				taken = taken || chosen[j] == e;
			if (!taken && (best == n || logits[e] > logits[best] || isnan(logits[best])))
				best = e;
		}
		chosen[i] = best;
	}
}

/* Sets weights: softmax of the chosen logits, or of all. */
static void weigh(struct network *network, const struct routes *r, size_t tokens)
{
	const struct shape *s = &network->shape;
	const size_t k = s->experts_per_token;
	float *all = s->normalized ? r->weights : r->logits;
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, tokens, s->normalized ? k : s->experts, all);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, all);

	for (size_t i = 0; i < tokens; i++)
		for (size_t j = 0; s->normalized && j < k; j++)
			r->weights[i * k + j] = r->logits[i * s->experts + r->chosen[i * k + j]];
	must_succeed(mxfp_softmax(&dst, &src, NULL, &network->exec));
	for (size_t i = 0; i < tokens; i++)
		for (size_t j = 0; !s->normalized && j < k; j++)
			r->weights[i * k + j] = r->logits[i * s->experts + r->chosen[i * k + j]];
}

/* Sorts what was chosen by experts, and by tokens within each. */
static void sort(const struct network *network, const struct routes *r)
{
	const size_t experts = network->shape.experts, k = network->shape.experts_per_token;

	memset(r->starts, 0, (experts + 1) * sizeof *r->starts);
	for (size_t i = 0; i < r->rows; i++)
		r->starts[r->chosen[i] + 1]++;
	for (size_t e = 0; e < experts; e++)
		r->starts[e + 1] += r->starts[e];
	/* starts[e] counts up to the next one's, and moves back after that. */
	for (size_t i = 0; i < r->rows; i++) {
		const size_t at = r->starts[r->chosen[i]]++;

		r->tokens[at] = i / k;
		r->scales[at] = r->weights[i];
	}
	memmove(r->starts + 1, r->starts, experts * sizeof *r->starts);
	r->starts[0] = 0;
}

enum projection { PROJECTION_GATE, PROJECTION_UP, PROJECTION_DOWN };

static const struct linear *linear_of(const struct expert *expert, enum projection projection)
{
	return projection == PROJECTION_GATE ? &expert->gate : projection == PROJECTION_UP ? &expert->up : &expert->down;
}

/* One projection of all experts that have tokens: c of their rows. */
static int multiply(struct network *network, const struct layer *layer, const struct routes *r, struct inputs *inputs,
                    enum projection projection, float *c, const float *gate, enum mxfp_function activation,
                    enum mxfp_format a_format, struct error *error)
{
	const size_t experts = network->shape.experts;
	struct mxfp_product *products = scratch_take(network, SCRATCH_PRODUCTS,
	                                             experts * (sizeof *products + 2 * sizeof(struct mxfp_matrix) + sizeof(struct mxfp_result)));
	size_t n = 0;

	if (products == NULL)
		return fail_memory(error);
	struct mxfp_matrix *matrices = (struct mxfp_matrix *)(void *)(products + experts);
	struct mxfp_result *results = (struct mxfp_result *)(void *)(matrices + 2 * experts);
	for (size_t e = 0; e < experts; e++) {
		const struct linear *linear = linear_of(&layer->experts[e], projection);
		const size_t first = r->starts[e], rows = r->starts[e + 1] - first;
		struct mxfp_matrix *matrix = &matrices[2 * n];

		if (rows == 0 || linear->a_format != a_format)
			continue;
		matrix[0] = linear_inputs(inputs, a_format, first, rows);
		results[n] = mxfp_to_numbers(MXFP_FORMAT_F32, c + first * linear->n);
		products[n] = (struct mxfp_product){.size = sizeof *products, .c = &results[n], .a = &matrix[0]};
		linear_set_w(&products[n], linear);
		if (gate != NULL) {
			matrix[1] = linear_numbers(gate + first * linear->n, rows, linear->n, 0);
			products[n].gate = &matrix[1];
		}
		n++;
	}
	return n == 0 ? EXIT_OK : linear_products(network, products, n, activation, a_format, NETWORK_PRODUCTS, error);
}

/* Shows the inputs of each expert to who watches. */
static int watch(struct network *network, const struct layer *layer, const struct routes *r, const struct inputs *inputs,
                 enum projection projection, struct error *error)
{
	int code = EXIT_OK;

	for (size_t e = 0; network->watch != NULL && e < network->shape.experts && code == EXIT_OK; e++)
		code = network->watch(network->watch_context, linear_of(&layer->experts[e], projection)->site,
		                      inputs->x + r->starts[e] * inputs->cols, r->starts[e + 1] - r->starts[e], inputs->cols, error);
	return code;
}

/* The same with inputs in each form that an expert wants. */
static int project(struct network *network, const struct layer *layer, const struct routes *r, struct inputs *inputs,
                   enum projection projection, float *c, const float *gate, enum mxfp_function activation, struct error *error)
{
	int code = watch(network, layer, r, inputs, projection, error);

	for (size_t e = 0, first; e < network->shape.experts && code == EXIT_OK; e++) {
		const enum mxfp_format a_format = linear_of(&layer->experts[e], projection)->a_format;

		for (first = 0; linear_of(&layer->experts[first], projection)->a_format != a_format;)
			first++;
		if (first != e)
			continue;
		code = linear_prepare(network, inputs, a_format, error);
		if (code == EXIT_OK)
			code = multiply(network, layer, r, inputs, projection, c, gate, activation, a_format, error);
	}
	return code;
}

/* Gates of gpt-oss, clamped; up is NULL where gate holds both in turns, and then y is not gate. */
static void gate_clamped(struct network *network, float *y, const float *gate, const float *up, size_t rows)
{
	const double begun = clock_seconds();
	const size_t cols = network->shape.expert_cols;
	const struct mxfp_matrix gates = mxfp_numbers(MXFP_FORMAT_F32, rows, up != NULL ? cols : 2 * cols, gate);
	const struct mxfp_matrix ups = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, up);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, y);
	const struct mxfp_glu_options options = {
		.size = sizeof options,
		.parameter = mxfp_some(clamped_alpha),
		.limit = mxfp_some(network->shape.clamp),
		.up_plus_one = true,
	};

	must_succeed(mxfp_glu(&dst, MXFP_FUNCTION_SILU, &gates, up != NULL ? &ups : NULL, &options, &network->exec));
	work_end(network, NETWORK_VECTOR, begun);
}

/* What experts make of gathered rows: downs [rows][hidden]. */
static int run_experts(struct network *network, const struct layer *layer, const struct routes *r, const float *gathered,
                       float *downs, struct error *error)
{
	const struct shape *s = &network->shape;
	const bool in_turns = layer->experts[0].up.n == 0, clamped = (s->architecture->has & ARCHITECTURE_CLAMPED) != 0;
	struct inputs inputs = {.x = gathered, .rows = r->rows, .cols = s->hidden};
	float *gates = scratch_take(network, SCRATCH_GATES, r->rows * (in_turns ? 2 : 1) * s->expert_cols * sizeof *gates);
	float *ups = scratch_take(network, SCRATCH_UPS, r->rows * s->expert_cols * sizeof *ups);
	int code = gates != NULL && ups != NULL ? EXIT_OK : fail_memory(error);

	if (code == EXIT_OK && !in_turns)
		code = project(network, layer, r, &inputs, PROJECTION_UP, ups, NULL, MXFP_FUNCTION_IDENTITY, error);
	if (code == EXIT_OK)
		code = project(network, layer, r, &inputs, PROJECTION_GATE, gates, clamped ? NULL : ups,
		               clamped ? MXFP_FUNCTION_IDENTITY : MXFP_FUNCTION_SILU, error);
	if (code != EXIT_OK)
		return code;
	if (in_turns)
		gate_clamped(network, ups, gates, NULL, r->rows);
	else if (clamped)
		gate_clamped(network, gates, gates, ups, r->rows);
	struct inputs gated = {.x = in_turns ? ups : gates, .rows = r->rows, .cols = s->expert_cols};
	return project(network, layer, r, &gated, PROJECTION_DOWN, downs, NULL, MXFP_FUNCTION_IDENTITY, error);
}

/* Adds y times a weight to sums. */
static void add_weighted(float *sums, const float *y, float weight, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sums[i] += weight * y[i];
}

/* Adds what the expert that every token takes makes of it, times a gate of its own. */
static int add_shared(struct network *network, const struct layer *layer, size_t rows, float *sums, struct error *error)
{
	const struct shape *s = &network->shape;
	struct inputs h = {.x = network->h, .rows = rows, .cols = s->hidden};
	struct inputs gated = {.x = network->gate, .rows = rows, .cols = s->shared_cols};
	float *shares = scratch_take(network, SCRATCH_UPS, rows * sizeof *shares);
	float *downs = scratch_take(network, SCRATCH_DOWNS, rows * s->hidden * sizeof *downs);
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, 1, rows, shares);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, shares);
	const struct result first[] = {
		{.linear = &layer->shared_router, .c = shares},
		{.linear = &layer->up, .c = network->up},
	};
	const struct result gate = {.linear = &layer->gate, .c = network->gate, .gate = network->up};
	const struct result down = {.linear = &layer->down, .c = downs};

	if (shares == NULL || downs == NULL)
		return fail_memory(error);
	int code = linear_multiply(network, &h, MXFP_FUNCTION_IDENTITY, first, 2, error);
	if (code == EXIT_OK)
		code = linear_multiply(network, &h, MXFP_FUNCTION_SILU, &gate, 1, error);
	if (code == EXIT_OK)
		code = linear_multiply(network, &gated, MXFP_FUNCTION_IDENTITY, &down, 1, error);
	if (code != EXIT_OK)
		return code;
	const double begun = clock_seconds();
	must_succeed(mxfp_function_apply(&dst, MXFP_FUNCTION_SIGMOID, &src, NULL, &network->exec));
	for (size_t i = 0; i < rows; i++)
		add_weighted(sums + i * s->hidden, downs + i * s->hidden, shares[i], s->hidden);
	work_end(network, NETWORK_VECTOR, begun);
	return EXIT_OK;
}

int experts_run(struct network *network, const struct layer *layer, size_t rows, struct error *error)
{
	const struct shape *s = &network->shape;
	struct inputs h = {.x = network->h, .rows = rows, .cols = s->hidden};
	const struct mxfp_matrix x = mxfp_numbers(MXFP_FORMAT_F32, rows, s->hidden, network->x);
	const struct mxfp_result dst = mxfp_to_numbers(MXFP_FORMAT_F32, network->x);
	struct routes r;

	if (!take_routes(network, &r, rows))
		return fail_memory(error);
	const struct result router = {.linear = &layer->router, .c = r.logits};
	float *gathered = scratch_take(network, SCRATCH_GATHERED, r.rows * s->hidden * sizeof *gathered);
	float *downs = scratch_take(network, SCRATCH_DOWNS, r.rows * s->hidden * sizeof *downs);
	if (gathered == NULL || downs == NULL)
		return fail_memory(error);
	int code = linear_multiply(network, &h, MXFP_FUNCTION_IDENTITY, &router, 1, error);
	if (code != EXIT_OK)
		return code;
	double begun = clock_seconds();
	if (network->leader != NULL)
		memcpy(r.chosen, network->leader->chosen, r.rows * sizeof *r.chosen);
	for (size_t i = 0; network->leader == NULL && i < rows; i++)
		choose(network, &r, i);
	network->chosen = r.chosen;
	weigh(network, &r, rows);
	sort(network, &r);
	for (size_t i = 0; i < r.rows; i++)
		memcpy(gathered + i * s->hidden, network->h + r.tokens[i] * s->hidden, s->hidden * sizeof *gathered);
	work_end(network, NETWORK_VECTOR, begun);
	code = run_experts(network, layer, &r, gathered, downs, error);
	if (code != EXIT_OK)
		return code;
	/* Nothing reads what was gathered any more: its first rows take the sums, in the order of the experts. */
	begun = clock_seconds();
	memset(gathered, 0, rows * s->hidden * sizeof *gathered);
	for (size_t i = 0; i < r.rows; i++)
		add_weighted(gathered + r.tokens[i] * s->hidden, downs + i * s->hidden, r.scales[i], s->hidden);
	work_end(network, NETWORK_VECTOR, begun);
	if (layer->shared_router.n > 0)
		code = add_shared(network, layer, rows, gathered, error);
	if (code != EXIT_OK)
		return code;
	const struct mxfp_matrix sums = mxfp_numbers(MXFP_FORMAT_F32, rows, s->hidden, gathered);
	begun = clock_seconds();
	must_succeed(mxfp_rows_add(&dst, &x, &sums, NULL, &network->exec));
	work_end(network, NETWORK_VECTOR, begun);
	return EXIT_OK;
}
