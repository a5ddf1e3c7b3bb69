/* SPDX-License-Identifier: MIT */
/*
 * Errors of decoded weights, of several variants of the same source at once: the statistics of stats.h, and a histogram
 * of relative errors. What bounds the speed of a sum in element order is the latency of an addition, so the sums of
 * several variants stand side by side in the lanes of a vector, each of them in its order: no number depends on the
 * width of the vectors, nor on the pieces in which elements are added.
 */
#ifndef TOOLS_ANALYSE_ELEMENT_ERRORS_H
#define TOOLS_ANALYSE_ELEMENT_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/stats.h"

/* Bins of relative errors: 0 is an exact element, i > 0 is the exponent ERROR_EXPONENT_MIN + i - 1; the outer two of
   these take what lies beyond them. A flushed element is in that of exponent 0. */
enum { ERROR_EXPONENT_MIN = -14, ERROR_EXPONENT_MAX = 3, N_ERROR_BINS = ERROR_EXPONENT_MAX - ERROR_EXPONENT_MIN + 2 };

/* All zero: nothing added yet. */
struct element_errors {
	struct stats stats;              /* decoded against source elements */
	uint64_t non_finite;             /* source elements that are NaN or Inf */
	uint64_t flushed;                /* nonzero elements whose decoded value is zero */
	uint64_t relative[N_ERROR_BINS]; /* finite elements by the binary exponent of |decoded - source| / |source| */
};

/* Adds n elements: measured[v] to *errors[v], for each of the n_variants. With noise_only, n, signal, noise and non_finite are
   all that has a meaning then. */
void element_errors_add(struct element_errors *const *errors, const float *const *measured, size_t n_variants,
                        const float *source, size_t n, bool noise_only);

#endif
