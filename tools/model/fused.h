/* SPDX-License-Identifier: MIT */
/* Weights that loaders make one matrix of, which then has one tensor scale: q, k and v of an attention, gate and up of
   an MLP. Names tell. */
#ifndef TOOLS_MODEL_FUSED_H
#define TOOLS_MODEL_FUSED_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
