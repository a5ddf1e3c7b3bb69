/* SPDX-License-Identifier: MIT */
/*
 * The multiple-choice knapsack: of each unit one option is taken, so that the sum of errors is the least at which the
 * bytes fit. The answer is exact, but for the rounding of sums, unless `exact` says otherwise, and always the same.
 */
#ifndef TOOLS_ANALYSE_KNAPSACK_H
#define TOOLS_ANALYSE_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct knapsack_option {
	uint64_t bytes;
	double error; /* finite, not negative */
};

struct knapsack {
	size_t n_units, n_options;             /* of each unit */
	const struct knapsack_option *options; /* [unit][option] */
};

/* Sets chosen[unit] to its option. If not even the smallest options fit, they are taken; of equal errors fewer bytes.
   EXIT_MEMORY. */
int knapsack_solve(size_t *chosen, bool *exact, const struct knapsack *knapsack, uint64_t capacity,
                   struct error *error);

#endif
