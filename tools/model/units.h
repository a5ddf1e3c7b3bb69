/* SPDX-License-Identifier: MIT */
/*
 * Layers that must be quantized alike, because loaders make one layer of them: the projections q, k and v of an
 * attention, gate and up of an MLP, and all experts of a mixture. Names tell: q_proj, k_proj, v_proj; gate_proj,
 * up_proj; w1, w3; q_a_proj, kv_a_proj_with_mqa; *.experts.*.
 */
#ifndef TOOLS_MODEL_UNITS_H
#define TOOLS_MODEL_UNITS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

struct unit {
	const char *name;       /* "model.layers.0.self_attn.qkv_proj" */
	size_t first, n;        /* of units.members */
};

struct units {
	size_t n;
	struct unit *items;     /* in the order of their names */
	size_t *members;        /* numbers of tensors, in their order within a unit */
	struct arena arena;
};

/* Sorts tensors into units; units_free() follows in any case. EXIT_MEMORY. */
int units_make(struct units *units, const char *const *tensors, size_t n, struct error *error);

void units_free(struct units *units);

#endif
