/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "analyse/column_order.h"

#include <assert.h>
#include <math.h>

static size_t swapped(size_t place)
{
	return place ^ 1;
}

static size_t swapped_8(size_t place)
{
	return place ^ 8;
}

static size_t swapped_16(size_t place)
{
	return place ^ 16;
}

/* Read as pairs, written as halves of `n`. */
static size_t from_halves(size_t place, size_t n)
{
	return place / n * n + place % n / 2 + place % 2 * (n / 2);
}

/* Read as halves of `n`, written as pairs. */
static size_t from_pairs(size_t place, size_t n)
{
	return place / n * n + place % (n / 2) * 2 + place % n / (n / 2);
}

static size_t from_halves_16(size_t place)
{
	return from_halves(place, 16);
}

static size_t from_halves_32(size_t place)
{
	return from_halves(place, 32);
}

static size_t from_pairs_16(size_t place)
{
	return from_pairs(place, 16);
}

static size_t from_pairs_32(size_t place)
{
	return from_pairs(place, 32);
}

/* Other orders, and the column whose codes stand at a place if the file was written so. */
static const struct {
	const char *phrase;
	size_t period;
	size_t (*column)(size_t place);
} orders[] = {
	{"with the nibbles of each byte swapped", 16, swapped},
	{"with the nibbles of each byte swapped, 8 columns apart", 16, swapped_8},
	{"with the nibbles of each byte swapped, 16 columns apart", 32, swapped_16},
	{"with columns i and i + 16 in a byte, as in GGUF, for 2i and 2i + 1", 32, from_halves_32},
	{"with columns i and i + 8 in a byte, as in GGUF, for 2i and 2i + 1", 16, from_halves_16},
	{"with columns 2i and 2i + 1 in a byte, for i and i + 16", 32, from_pairs_32},
	{"with columns 2i and 2i + 1 in a byte, for i and i + 8", 16, from_pairs_16},
};

enum { N_ORDERS = sizeof orders / sizeof orders[0] };
static_assert(N_ORDERS == (int)COLUMN_ORDERS, "column_order.h says how many");

const char *column_order_phrase(size_t order)
{
	return orders[order].phrase;
}

size_t column_order_column(size_t order, size_t place)
{
	return orders[order].column(place);
}

size_t column_order_period(size_t order)
{
	return orders[order].period;
}

/* Centered ranks of a group, equal sizes sharing theirs; returns the sum of their squares. */
static double rank(const double *sizes, double ranks[COLUMN_GROUP])
{
	double squares = 0;

	for (int i = 0; i < COLUMN_GROUP; i++) {
		ranks[i] = 0;
		for (int k = 0; k < COLUMN_GROUP; k++)
			ranks[i] += (sizes[k] < sizes[i]) - (sizes[k] > sizes[i]);
		squares += ranks[i] * ranks[i];
	}
	return squares;
}

void column_order_compare(struct column_order *result, const double *columns, const double *reference, size_t n)
{
	double covariance[N_ORDERS + 1] = {0}, variance = 0, largest = 0;

	for (size_t from = 0; from + COLUMN_GROUP <= n; from += COLUMN_GROUP) {
		double a[COLUMN_GROUP], b[COLUMN_GROUP];
		double squares_a = rank(columns + from, a), squares_b = rank(reference + from, b);

		variance += squares_a * squares_b / (COLUMN_GROUP - 1);
		largest += sqrt(squares_a * squares_b);
		for (size_t i = 0; i < COLUMN_GROUP; i++) {
			covariance[N_ORDERS] += a[i] * b[i];
			for (int k = 0; k < N_ORDERS; k++)
				covariance[k] += a[i] * b[orders[k].column(i)];
		}
	}
	int best = 0;
	for (int k = 1; k < N_ORDERS; k++)
		best = fabs(covariance[k]) > fabs(covariance[best]) ? k : best;
	*result = (struct column_order){.other = orders[best].phrase};
	if (variance > 0) {
		result->z = covariance[N_ORDERS] / sqrt(variance);
		result->correlation = covariance[N_ORDERS] / largest;
		result->other_z = covariance[best] / sqrt(variance);
		result->other_correlation = covariance[best] / largest;
	}
}

bool column_order_is_wrong(const struct column_order *result)
{
	return fabs(result->other_z) >= 7 && fabs(result->z) < fabs(result->other_z) / 2;
}
