/* SPDX-License-Identifier: MIT */
/* Weights that loaders make one matrix of, which then has one tensor scale: q, k and v of an attention, gate and up of
   an MLP. Names tell. */
#ifndef TOOLS_MODEL_FUSED_H
#define TOOLS_MODEL_FUSED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

enum { FUSED_MAX = 3 };

/* A name that is one of such a set. */
struct fused {
	const char *name;
	const char *const *parts; /* what tells them apart, n of them */
	size_t n, which;          /* the name has parts[which] */
	size_t at;                /* there */
};

/* False if the name is of no set. */
bool fused_find(struct fused *fused, const char *name);

/* malloc'ed name of another of the set; NULL without memory. */
char *fused_name(const struct fused *fused, size_t which);

/*
 * Layers that must be quantized alike, because loaders make one layer of them: the projections q, k and v of an
 * attention, gate and up of an MLP, and all experts of a mixture. Names tell: q_proj, k_proj, v_proj; gate_proj,
 * up_proj; w1, w3; q_a_proj, kv_a_proj_with_mqa; *.experts.*.
 */
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
