/* SPDX-License-Identifier: MIT */
/* Merges neighbours of a row of symbols, always the cheapest pair and of equal ones the leftmost, as byte pair
   encodings do; in O(n log n) for n symbols. */
#ifndef TOOLS_EVAL_MERGE_H
#define TOOLS_EVAL_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MERGE_NO_ID UINT32_MAX

struct merge_symbol {
	size_t from, n;    /* its bytes of the text */
	size_t left, right;
	uint32_t id;       /* of its token, or MERGE_NO_ID */
};

struct merge_candidate {
	double cost;
	size_t left, right, n; /* symbols, and their bytes together */
	uint32_t id;
};

/* Zeroed: empty. */
struct merge {
	size_t n; /* symbols */
	struct merge_symbol *symbols;
	size_t n_heap;
	struct merge_candidate *heap;
	size_t symbols_room, heap_room;
};

/* Whether two neighbours may become one symbol, what that costs, and its id. The same pair always has the same
   answer. */
typedef bool merge_pair(const void *context, const struct merge_symbol *left, const struct merge_symbol *right,
                        double *cost, uint32_t *id);

/* Adds a symbol of n > 0 bytes behind the others, whose bytes follow theirs. EXIT_MEMORY. */
int merge_add(struct merge *merge, size_t n, uint32_t id, struct error *error);

/* Merges until no pair may be; symbols 0 to n - 1 are what is left. EXIT_MEMORY. */
int merge_run(struct merge *merge, merge_pair *pair, const void *context, struct error *error);

/* Empties it and keeps the memory. */
void merge_clear(struct merge *merge);

void merge_free(struct merge *merge);

#endif
