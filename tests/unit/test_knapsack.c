/* SPDX-License-Identifier: MIT */
/* The choice of advise: an instance by hand, small ones beside all choices there are, larger ones beside a table of the
   least error at every number of bytes. Errors are integers, so that sums are exact. */
#include "analyse/knapsack.h"

#include <stdlib.h>

#include "oracle/inputs.h"
#include "suite.h"

enum { UNITS = 60, OPTIONS = 5, BYTES = 4000 };

struct instance {
	struct knapsack_option options[UNITS * OPTIONS];
	struct knapsack knapsack;
	uint64_t capacity, least;
};

static void make(struct instance *instance, struct random *r, size_t units, unsigned sizes, unsigned errors)
{
	const size_t options = 1 + random_below(r, OPTIONS);
	uint64_t most = 0;

	instance->knapsack = (struct knapsack){units, options, instance->options};
	instance->least = 0;
	for (size_t u = 0; u < units; u++) {
		const struct knapsack_option *own = &instance->options[u * options];
		uint64_t smallest = UINT64_MAX, largest = 0;

		for (size_t i = 0; i < options; i++) {
			struct knapsack_option *option = &instance->options[u * options + i];

			/* One in four like one of the unit before, as the layers of a model are. */
			if (u > 0 && random_below(r, 4) == 0)
				*option = own[(int)i - (int)options];
			else
				*option = (struct knapsack_option){1 + random_below(r, sizes), random_below(r, errors)};
			smallest = option->bytes < smallest ? option->bytes : smallest;
			largest = option->bytes > largest ? option->bytes : largest;
		}
		instance->least += smallest;
		most += largest;
	}
	instance->capacity = instance->least + random_below(r, (unsigned)(most - instance->least) + 2);
}

/* Checks that the choice fits, and returns its error. */
static double solved(const struct instance *instance)
{
	const struct knapsack *k = &instance->knapsack;
	struct error error;
	size_t chosen[UNITS];
	uint64_t bytes = 0;
	double sum = 0;
	bool exact;

	ck_assert_int_eq(knapsack_solve(chosen, &exact, k, instance->capacity, &error), EXIT_OK);
	ck_assert(exact);
	for (size_t u = 0; u < k->n_units; u++) {
		ck_assert_uint_lt(chosen[u], k->n_options);
		bytes += k->options[u * k->n_options + chosen[u]].bytes;
		sum += k->options[u * k->n_options + chosen[u]].error;
	}
	ck_assert_uint_le(bytes, instance->capacity);
	return sum;
}

/* The least error of all choices of the units from one on. */
static double least_of_all(const struct instance *instance, size_t unit, uint64_t left)
{
	const struct knapsack *k = &instance->knapsack;
	double least = 1e9;

	if (unit == k->n_units)
		return 0;
	for (size_t i = 0; i < k->n_options; i++) {
		const struct knapsack_option *option = &k->options[unit * k->n_options + i];

		if (option->bytes > left)
			continue;
		const double with = option->error + least_of_all(instance, unit + 1, left - option->bytes);
		least = with < least ? with : least;
	}
	return least;
}

/* Two units of 1 byte at an error of 10: one falls to 4 at 3 bytes (3 a byte) and to 0 at 6, the other to 3 at 4 bytes
   (7/3 a byte). In 6 bytes the greedy choice is the first step, 4 + 10, after which nothing fits; the other step alone
   gives 10 + 3. */
TEST(greedy_is_not_enough)
{
	const struct knapsack_option options[] = {{1, 10}, {3, 4}, {6, 0}, {1, 10}, {4, 3}, {9, 3}};
	const struct knapsack knapsack = {2, 3, options};
	struct error error;
	size_t chosen[2];
	bool exact;

	ck_assert_int_eq(knapsack_solve(chosen, &exact, &knapsack, 6, &error), EXIT_OK);
	ck_assert(exact);
	ck_assert_uint_eq(chosen[0], 0);
	ck_assert_uint_eq(chosen[1], 1);
	/* All that is worth its bytes; nothing that is; what does not even fit. */
	ck_assert_int_eq(knapsack_solve(chosen, &exact, &knapsack, 100, &error), EXIT_OK);
	ck_assert_uint_eq(chosen[0], 2);
	ck_assert_uint_eq(chosen[1], 1);
	for (uint64_t capacity = 0; capacity < 3; capacity++) {
		ck_assert_int_eq(knapsack_solve(chosen, &exact, &knapsack, capacity, &error), EXIT_OK);
		ck_assert_uint_eq(chosen[0], 0);
		ck_assert_uint_eq(chosen[1], 0);
	}
	suite_compared(5);
}

TEST(small_ones_equal_a_search_of_all_choices)
{
	static struct instance instance;
	struct random r = {suite_seed()};

	for (int i = 0; i < 20000; i++) {
		make(&instance, &r, 1 + random_below(&r, 6), i % 2 == 0 ? 12 : 1000, i % 3 == 0 ? 10 : 1000);
		ck_assert_double_eq(solved(&instance), least_of_all(&instance, 0, instance.capacity));
	}
	suite_compared(20000);
}

/* The least error at every number of bytes, one unit after the other. */
static double least_by_table(const struct instance *instance)
{
	static double table[2][BYTES + 1];
	const struct knapsack *k = &instance->knapsack;
	const size_t capacity = instance->capacity < BYTES ? (size_t)instance->capacity : BYTES;

	for (size_t c = 0; c <= capacity; c++)
		table[0][c] = 0;
	for (size_t u = 0; u < k->n_units; u++)
		for (size_t c = 0; c <= capacity; c++) {
			double *to = &table[(u + 1) % 2][c];

			*to = 1e9;
			for (size_t i = 0; i < k->n_options; i++) {
				const struct knapsack_option *option = &k->options[u * k->n_options + i];

				if (option->bytes <= c && table[u % 2][c - option->bytes] + option->error < *to)
					*to = table[u % 2][c - option->bytes] + option->error;
			}
		}
	return table[k->n_units % 2][capacity];
}

TEST(large_ones_equal_a_table)
{
	static struct instance instance;
	struct random r = {suite_seed()};

	for (int i = 0; i < 300; i++) {
		make(&instance, &r, 20 + random_below(&r, UNITS - 20), i % 2 == 0 ? 8 : 60, i % 3 == 0 ? 20 : 1000);
		ck_assert_double_eq(solved(&instance), least_by_table(&instance));
	}
	suite_compared(300);
}
