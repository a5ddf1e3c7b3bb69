/* SPDX-License-Identifier: MIT */
/* Errors of the pieces of a layer. */
#include "analyse/measure_errors.h"

#include <math.h>
#include <string.h>


enum { COLUMN = 256 }; /* products that are gathered at once */

struct work {
	const struct product_errors *products;
	size_t n;
	const struct element_errors *elements;
};

/* Row by row, as the exact products lie, so that the order does not depend on the rows in a piece. */
static void add_products(const struct product_errors *errors)
{
	double column[COLUMN];

	for (size_t row = 0; row < errors->rows; row++)
		for (size_t t = 0; t < errors->tokens; t += COLUMN) {
			size_t n = errors->tokens - t < COLUMN ? errors->tokens - t : COLUMN;

			for (size_t i = 0; i < n; i++)
				column[i] = (double)errors->measured[(t + i) * errors->rows + row];
			stats_add_double(errors->into, errors->exact + row * errors->tokens + t, column, n);
		}
}

/* The bin of two finite numbers. An error where the exact number is 0 has an infinite quotient: the last bin. */
static unsigned relative_bin(double exact, double measured)
{
	double quotient = fabs(measured - exact) / fabs(exact);
	uint64_t bits;

	if (exact == measured)
		return 0;
	memcpy(&bits, &quotient, sizeof bits);
	/* The exponent of a binary64 number above those that are subnormal: ilogb() is a call. */
	int exponent = (int)(bits >> 52) - 1023;
	if (exponent < ERROR_EXPONENT_MIN)
		exponent = ERROR_EXPONENT_MIN;
	if (exponent > ERROR_EXPONENT_MAX)
		exponent = ERROR_EXPONENT_MAX;
	return (unsigned)(exponent - ERROR_EXPONENT_MIN + 1);
}

static void add_relative(const struct element_errors *errors)
{
	for (size_t i = 0; i < errors->n; i++)
		if (isfinite(errors->exact[i]) && isfinite(errors->measured[i]))
			errors->relative[relative_bin((double)errors->exact[i], (double)errors->measured[i])]++;
}

static void add_elements(const struct element_errors *errors)
{
	uint64_t flushed = 0;

	for (size_t i = 0; i < errors->n; i++)
		flushed += errors->exact[i] != 0 && errors->measured[i] == 0;
	*errors->flushed += flushed;
	stats_add(errors->into, errors->exact, errors->measured, errors->n);
}

static void add_piece(void *context, size_t piece)
{
	const struct work *work = context;

	if (piece < work->n)
		add_products(&work->products[piece]);
	else if (piece == work->n)
		add_elements(work->elements);
	else
		add_relative(work->elements);
}

void measure_errors(const struct product_errors *products, size_t n, const struct element_errors *elements,
                    unsigned threads)
{
	struct work work = {products, n, elements};

	mxfp_parallel_for(&(struct mxfp_exec){.threads = threads}, n + (elements != NULL ? 2 : 0), add_piece, &work);
}
