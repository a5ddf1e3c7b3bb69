/* SPDX-License-Identifier: MIT */
/* Weights that loaders make one matrix of, which then has one tensor scale: q, k and v of an attention, gate and up of
   an MLP. Names tell, by fused.def. */
#ifndef TOOLS_MODEL_FUSED_H
#define TOOLS_MODEL_FUSED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

enum { FUSED_MAX = 13 };

/* A row of the table. */
struct fused_set {
	const char *whole;            /* what the loader calls the layer that it makes */
	const char *parts[FUSED_MAX]; /* components of names; NULL after the last */
};

/* Which tensors there are. */
struct fused_names {
	bool (*has)(const void *context, const char *name);
	const void *context;
};

/* A name that is one of such a set. */
struct fused {
	const char *name;
	const struct fused_set *set;
	size_t n, which; /* parts of the set; the name has parts[which] */
	size_t at;       /* there */
};

/* Finds the set of a name: *found is false if there is none, or nothing else of it among the names. EXIT_MEMORY. */
int fused_find(struct fused *fused, bool *found, const char *name, const struct fused_names *names, struct error *error);

/* malloc'ed name of another of the set; NULL without memory. */
char *fused_name(const struct fused *fused, size_t which);

/*
 * Layers that must be quantized alike, because loaders make one layer of them: those of a row of fused.def, and all
 * experts of a mixture, *.experts.*.
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
