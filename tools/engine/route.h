/* SPDX-License-Identifier: MIT */
/*
 * Seeded routing of tokens to experts. Expert e, counted from 0, has the weight (e + 1)^-skew, a Zipf distribution;
 * each token takes topk different experts, one after the other, each by its weight among those not taken yet.
 *
 * The weights are floor(2^32 (e + 1)^-skew), at least 1; draw j of token t is the 64-bit number that Philox4x32-10
 * gives for counter (t, j) and key `seed`, modulo the sum of the weights left. So the rows are the same on every
 * machine.
 */
#ifndef TOOLS_ENGINE_ROUTE_H
#define TOOLS_ENGINE_ROUTE_H

#include <stdint.h>

#include "base/error.h"

enum { EXPERTS_MAX = 1 << 16, TOKENS_MAX = 1 << 24 };

struct routing {
	uint64_t tokens, topk, seed;
	double skew; /* 0: all experts have the same weight */
};

/* Sets rows[e] to the number of tokens that take expert e; topk above `experts` counts as `experts`. EXIT_MEMORY. */
int route(uint64_t *rows, uint64_t experts, const struct routing *routing, struct error *error);

#endif
