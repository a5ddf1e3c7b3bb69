/* SPDX-License-Identifier: MIT */
/* Seeded routing of tokens to experts: route.h describes the distribution. */
#include "engine/route.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "mxfp/philox.h"

struct experts {
	uint64_t n, total;
	uint64_t *weights;
	bool *taken; /* by the current token */
};

static uint64_t draw(uint64_t seed, uint64_t token, uint64_t j)
{
	return mxfp_philox_word(seed, j, 4 * token) | (uint64_t)mxfp_philox_word(seed, j, 4 * token + 1) << 32;
}

/* Returns the expert that the number `at`, below the sum of the weights left, selects. */
static uint64_t find(const struct experts *x, uint64_t at)
{
	uint64_t e = 0;

	while (x->taken[e] || at >= x->weights[e]) {
		at -= x->taken[e] ? 0 : x->weights[e];
		e++;
	}
	return e;
}

static void route_token(uint64_t *rows, const struct experts *x, const struct routing *routing, uint64_t token)
{
	uint64_t left = x->total;

	memset(x->taken, 0, x->n * sizeof *x->taken);
	for (uint64_t j = 0; j < routing->topk && j < x->n; j++) {
		uint64_t e = find(x, draw(routing->seed, token, j) % left);

		x->taken[e] = true;
		left -= x->weights[e];
		rows[e]++;
	}
}

int route(uint64_t *rows, uint64_t experts, const struct routing *routing, struct error *error)
{
	struct experts x = {.n = experts};
	int code = EXIT_OK;

	x.weights = calloc(experts + 1, sizeof *x.weights);
	x.taken = calloc(experts + 1, sizeof *x.taken);
	if (x.weights == NULL || x.taken == NULL) {
		code = fail_memory(error);
	} else {
		for (uint64_t e = 0; e < experts; e++) {
			double weight = 0x1p32 * Sleef_cinz_powd1_u10purec((double)(e + 1), -routing->skew);

			x.weights[e] = weight < 1 ? 1 : (uint64_t)weight;
			x.total += x.weights[e];
			rows[e] = 0;
		}
		for (uint64_t t = 0; t < routing->tokens; t++)
			route_token(rows, &x, routing, t);
	}
	free(x.weights);
	free(x.taken);
	return code;
}
