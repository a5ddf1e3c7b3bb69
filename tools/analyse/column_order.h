/* SPDX-License-Identifier: MIT */
/*
 * The order of the columns of a matrix: that of something known, or one that comes of reading the nibbles of
 * 4-bit codes in another order than they were written in: that moves elements within groups of 32 columns, and so
 * changes neither scales nor any statistic of a block.
 *
 * For each group the columns are ranked by one size, and the entries of the reference by theirs; what is summed is the
 * covariance of the ranks. If the two have nothing to do with each other, each order of 32 ranks is as likely as any
 * other, the sum has mean 0 and the variance sum A B / 31 (A, B: sums of squares of centered ranks), and divided by its
 * root it is close to a standard normal number z: no assumption is made on the sizes themselves.
 */
#ifndef TOOLS_ANALYSE_COLUMN_ORDER_H
#define TOOLS_ANALYSE_COLUMN_ORDER_H

#include <stdbool.h>
#include <stddef.h>

enum { COLUMN_GROUP = 32, COLUMN_ORDERS = 7 };

/* Other orders by number: a phrase; the column whose codes stand at a place of a group, or any of 32, if the file was written
   so; how many columns follow each other in a group of that order, 16 or 32. */
const char *column_order_phrase(size_t order);
size_t column_order_column(size_t order, size_t place);
size_t column_order_period(size_t order);

struct column_order {
	double z, correlation;             /* as the columns are */
	double other_z, other_correlation; /* in the other order with the largest |z| */
	const char *other;                 /* what that is, as a phrase */
};

/* Compares n columns, of which whole groups are looked at, with a reference. */
void column_order_compare(struct column_order *result, const double *columns, const double *reference, size_t n);

/* Whether the other order is right beyond doubt: |z| is at least 7, which happens by chance once in 10^11 times, and
   that of the columns as they are is not half as large. */
bool column_order_is_wrong(const struct column_order *result);

#endif
