/* SPDX-License-Identifier: MIT */
/* Errors of the pieces of a layer, added up on several threads: each set of numbers on one of them, in its order. */
#ifndef TOOLS_MEASURE_ERRORS_H
#define TOOLS_MEASURE_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include "product.h"
#include "stats.h"

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
};

/* Adds n sets of products and, unless it is NULL, the elements. */
void measure_errors(const struct product_errors *products, size_t n, const struct element_errors *elements,
                    unsigned threads);

#endif
