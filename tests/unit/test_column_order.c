/* SPDX-License-Identifier: MIT */
/* The test for the order of columns: by hand, how often chance looks like evidence, and every other order found. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "analyse/column_order.h"
#include "suite.h"

enum { COLUMNS = 512, TRIALS = 20000 };

static uint64_t state;

/* Uniform in 0..1. */
static double draw(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 11) / 9007199254740992.0;
}

/* Sizes with a heavy tail, as columns with outliers have. */
static void draw_sizes(double *sizes)
{
	for (int i = 0; i < COLUMNS; i++)
		sizes[i] = 1 / (draw() + 1e-6);
}

/* 32 columns in the order of the reference: the sum of squares of the ranks -31, -29, ... 31 is 10912 for both, so the
   covariance is 10912 and z = 10912 / sqrt(10912 * 10912 / 31) = sqrt(31). */
TEST(z_by_hand)
{
	double a[COLUMN_GROUP], b[COLUMN_GROUP];
	struct column_order order;

	for (int i = 0; i < COLUMN_GROUP; i++) {
		a[i] = i;
		b[i] = exp(i);
	}
	column_order_compare(&order, a, b, COLUMN_GROUP);
	ck_assert_double_eq_tol(order.z, sqrt(31), 1e-12);
	ck_assert_double_eq_tol(order.correlation, 1, 1e-12);
	/* Neighbors swapped: each pair (r, r + 2) gives 2 r (r + 2) for r^2 + (r + 2)^2, 4 less: 16 pairs, 64 in all. */
	ck_assert_double_eq_tol(order.other_correlation, (10912. - 64) / 10912, 1e-12);
	ck_assert(!column_order_is_wrong(&order));
	for (int i = 0; i < COLUMN_GROUP; i++)
		b[i] = -i;
	column_order_compare(&order, a, b, COLUMN_GROUP);
	ck_assert_double_eq_tol(order.z, -sqrt(31), 1e-12);
	/* Without differences there is nothing to say. */
	memset(b, 0, sizeof b);
	column_order_compare(&order, a, b, COLUMN_GROUP);
	ck_assert_double_eq(order.z, 0);
	ck_assert_double_eq(order.other_z, 0);
	suite_compared(6);
}

/* Where the two have nothing to do with each other z has variance 1, and no order looks right. */
TEST(chance_is_no_evidence)
{
	double a[COLUMNS], b[COLUMNS], squares = 0, most = 0;

	for (int i = 0; i < TRIALS; i++) {
		struct column_order order;

		draw_sizes(a);
		draw_sizes(b);
		column_order_compare(&order, a, b, COLUMNS);
		squares += order.z * order.z;
		most = fabs(order.other_z) > most ? fabs(order.other_z) : most;
		ck_assert(!column_order_is_wrong(&order));
	}
	/* The mean of 20000 squares is 1 with a deviation of 0.01. */
	ck_assert_double_eq_tol(squares / TRIALS, 1, 0.05);
	ck_assert_double_lt(most, 6);
	suite_compared(TRIALS);
}

/* Where the elements of byte j of a group were meant to be, and where a reader of pairs takes them. */
static void written_otherwise(double *columns, const double *meant, unsigned distance, bool swapped)
{
	for (unsigned from = 0; from < COLUMNS; from += 2 * distance)
		for (unsigned j = 0; j < distance; j++) {
			unsigned low = distance == 1 ? from : from + j, high = low + distance;

			columns[from + 2 * j] = meant[swapped ? high : low];
			columns[from + 2 * j + 1] = meant[swapped ? low : high];
		}
}

TEST(other_orders_are_found)
{
	static const struct {
		unsigned distance;
		bool swapped;
		const char *phrase;
	} cases[] = {
		{1, true, "nibbles of each byte swapped"},
		{16, false, "columns i and i + 16"},
		{8, false, "columns i and i + 8"},
	};
	double meant[COLUMNS], columns[COLUMNS], reference[COLUMNS];

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct column_order order;

		draw_sizes(meant);
		/* Related, but far from the same. */
		for (int i = 0; i < COLUMNS; i++)
			reference[i] = log(meant[i]) + 2 * draw();
		column_order_compare(&order, meant, reference, COLUMNS);
		ck_assert_double_gt(order.z, 12);
		ck_assert(!column_order_is_wrong(&order));
		written_otherwise(columns, meant, cases[k].distance, cases[k].swapped);
		column_order_compare(&order, columns, reference, COLUMNS);
		ck_assert(column_order_is_wrong(&order));
		ck_assert_ptr_nonnull(strstr(order.other, cases[k].phrase));
		/* And a file of the other kind that is read as this one. */
		written_otherwise(columns, reference, cases[k].distance, cases[k].swapped);
		column_order_compare(&order, meant, columns, COLUMNS);
		ck_assert(column_order_is_wrong(&order));
		ck_assert_double_gt(fabs(order.other_z), 12);
		suite_compared(2);
	}
}

int main(void)
{
	state = suite_seed();
	return suite_run(NULL);
}
