/* SPDX-License-Identifier: MIT */
/* The order in which products are summed, as a tree: Xie, Gao, Xue, "FPRev: Revealing Floating-Point Summation Order", arXiv
   2411.00442. Leaves are products; a node adds what its children give, several at once if it has more than two. */
#ifndef TOOLS_CONFORM_PROBE_TREE_H
#define TOOLS_CONFORM_PROBE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TREE_NONE SIZE_MAX

struct node {
	size_t first, next, parent; /* children, linked from the lowest leaf on */
	size_t leaves, low;         /* how many leaves, and the lowest */
	bool exact;                 /* nothing is lost among its leaves */
	bool several;               /* it adds more than two at once, or is the first of such steps */
};

/* Nodes 0 to n_leaves - 1 are the leaves. */
struct tree {
	size_t n_leaves, n_nodes, root;
	struct node *nodes;
	bool consistent; /* else the answers are those of no tree */
};

/* Finds for each of n other leaves how many are lost, with leaf `pivot` M, the other one -M, and all others 1; those two are
   counted as lost. That is the number of leaves of the node at which they meet. */
typedef int tree_asker(void *context, size_t pivot, const size_t *others, size_t n, size_t *lost, struct error *error);

/* Makes the tree of n leaves. Pivots are chosen by `random`. EXIT_MEMORY. */
int tree_make(struct tree *tree, size_t n, uint64_t random, tree_asker *ask, void *context, struct error *error);
void tree_free(struct tree *tree);

bool tree_is_leaf(const struct tree *tree, size_t node);

enum { LEVELS_MAX = 16, SIZES_MAX = 16 };

/* A level of a regular order: n parts, each `distance` leaves after the one before, added to the sum one after the other, or sums
   that are added at once. */
struct level {
	size_t n;
	ptrdiff_t distance;
	size_t together;            /* leaves that a part adds at once, with the sum; 0: a part is one leaf or sum */
	bool at_once;
	bool exact;
	size_t period;              /* parts go in this order within each `period` of them */
	size_t order[64];           /* the leaves of the first period, or of the first part of several, from 0 on */
	size_t sizes[SIZES_MAX];    /* leaves of each part, in ascending order of leaves, if they are not alike, else 0 */
};

/* Describes the tree, the last addition first. Returns how many levels there are, 0: the order is not regular. */
size_t tree_levels(const struct tree *tree, struct level levels[LEVELS_MAX]);

#endif
