/* SPDX-License-Identifier: MIT */
/* Errors of the pieces of a layer, added up on several threads: each set of numbers on one of them, in its order. */
#ifndef TOOLS_ANALYSE_MEASURE_ERRORS_H
#define TOOLS_ANALYSE_MEASURE_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "analyse/product.h"
#include "base/stats.h"

/* One set of products of a piece. */
struct product_errors {
	struct stats *into;
	const double *exact;    /* [rows][tokens] */
	const float *measured;  /* [tokens][rows] */
	size_t rows, tokens;
};

/* The elements of a piece of weights. */
struct element_errors {
	struct stats *into;
	const float *exact, *measured;
	size_t n;
	uint64_t *flushed;      /* nonzero elements whose measured value is zero */
	uint64_t *relative;     /* [N_ERROR_BINS]: finite elements by the binary exponent of |measured - exact| / |exact| */
};

/* Bins of relative errors: 0 is no error at all, i > 0 is the exponent ERROR_EXPONENT_MIN + i - 1; the outer two of
   these take what lies beyond them. A flushed element is in that of exponent 0. */
enum { ERROR_EXPONENT_MIN = -14, ERROR_EXPONENT_MAX = 3, N_ERROR_BINS = ERROR_EXPONENT_MAX - ERROR_EXPONENT_MIN + 2 };

/* Adds n sets of products and, unless it is NULL, the elements. */
void measure_errors(const struct product_errors *products, size_t n, const struct element_errors *elements,
                    unsigned threads);

#endif
