/* SPDX-License-Identifier: MIT */
/* What is found out about a machine that sums products, step by step. */
#ifndef TOOLS_CONFORM_PROBE_FIND_H
#define TOOLS_CONFORM_PROBE_FIND_H

#include "conform/probe_ask.h"

/* What is known of a rule; what is false has a value that does as well as others. */
struct known {
	bool any, fraction, term, measure, lowest, bits, result;
};

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

struct found {
	size_t k, length;             /* of the order; products of a leaf */
	bool has_order;
	struct machine machine;
	size_t n_levels;
	struct level levels[LEVELS_MAX];
	bool has_several, has_pair;   /* nodes of each kind */
	struct known several, pair;
	size_t n_leaves, n_rounded;   /* of single leaves in pairs: rounded before they are added */
	enum answer products_seen;    /* whether rounding of products can be seen */
	enum answer operands_kept[2], results_kept, overflows; /* the last: products of 2^128 are Inf */
	enum answer numbers;          /* whether codes of NaN and Inf, in formats of 8 bits, are numbers */
	bool inside_known;
	size_t n, n_equal, n_special, n_special_equal; /* random dot products, and how many are as described */
};

/* Finds what can be found with dot products of asker->k elements. If asker->child is not `unsupported` after that, *found is
   filled in; found_free() in any case. With one_by_one the order takes n^3 dot products of n leaves in place of n^2 at most. */
int find_machine(struct found *found, struct asker *asker, bool one_by_one, struct error *error);

/* Compares what was found with answers to the items of the asker. `special` tells which of them have NaN or Inf. */
int find_equal(struct found *found, struct asker *asker, const float *answers, size_t n_special, struct error *error);

/* Whether what was found gives all answers but those of NaN and Inf; whether all is known besides; how good it is. */
bool found_equal(const struct found *found);
bool found_all(const struct found *found);
double found_score(const struct found *found);
void found_free(struct found *found);

#endif
