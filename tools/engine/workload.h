/* SPDX-License-Identifier: MIT */
/* A list of products C[m][n] = A[m][k] W[n][k]^T for the model of the tensor engine: shapes, experts, a model's
   layers. */
#ifndef TOOLS_ENGINE_WORKLOAD_H
#define TOOLS_ENGINE_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "engine/route.h"
#include "model/model.h"

enum { WORKLOAD_MAX = 1 << 20 }; /* products */

struct workload_item {
	const char *name;
	size_t m, n, k;
};

/* Zeroed, it is empty; the caller may set `cut`. */
struct workload {
	uint64_t cut; /* products are cut along n into parts of at most this many columns; 0: they stay whole */
	size_t n_items, capacity;
	struct workload_item *items;
	bool routed; /* tokens were routed to experts */
	struct arena names;
};

/* Adds a product, or its parts. EXIT_USAGE: too many products, or a size that overflows. EXIT_MEMORY. */
int workload_add(struct workload *workload, const char *name, const struct workload_item *item, struct error *error);

/* Adds the products of experts with n rows of k weights; the routing decides the rows of A of each. */
int workload_add_experts(struct workload *workload, const char *name, uint64_t experts,
                         const struct workload_item *shape, const struct routing *routing, struct error *error);

/* Adds each linear layer (select.h) with routing->tokens rows of A, and weights of experts, [e][n][k] or a tensor for each
   ("x.experts.0.y"), with as many rows as the routing gives. EXIT_INPUT: the model has no such layers. */
int workload_add_model(struct workload *workload, const struct model *model, const struct routing *routing,
                       struct error *error);

void workload_free(struct workload *workload);

#endif
