/* SPDX-License-Identifier: MIT */
/* The inner loops of the measurements and of scores (eval/score.h), lanes.c, which the build compiles once for each tier of vectors: with its flags,
   its number of lanes and its name. They give the same bits in each. */
#ifndef TOOLS_ANALYSE_LANES_H
#define TOOLS_ANALYSE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/element_errors.h"

enum {
	LANES_MAX = 8,      /* numbers in a vector of binary64, */
	LANES_CHUNK = 512,  /* elements that are added at once, */
	LANES_ROWS = 4,     /* rows and */
	LANES_VECTORS = 2,  /* vectors of tokens that are summed together: their sums fit 8 registers, */
	LANES_DEPTH = 256   /* and elements of K, so that both factors stay in the first cache */
};

/* At most LANES_CHUNK elements of one source, and of a variant a lane. */
struct lanes_elements {
	size_t n;
	bool noise_only; /* signal and noise are all that is wanted */
	const float *source, *measured[LANES_MAX];
	double signal[LANES_MAX], noise[LANES_MAX], sum_measured[LANES_MAX], product[LANES_MAX], max_absolute[LANES_MAX];
	double limit[LANES_MAX]; /* no relative error was above it, or above a little more */
	int64_t above[LANES_MAX], flushed[LANES_MAX]; /* whether some element is above the limit; elements flushed */
	uint32_t relative[LANES_MAX][N_ERROR_BINS];
};

/* x[k][tokens], w[row][k]; adds to sums[row][tokens], k ascending. */
struct lanes_product {
	size_t n; /* elements of K */
	const double *x, *w[LANES_ROWS];
	double *sums[LANES_ROWS];
};

/* A tier: the sums become NaN or infinite if any element is not finite. */
struct lanes {
	unsigned n; /* lanes; tokens of a product: LANES_VECTORS times as many */
	void (*add_elements)(struct lanes_elements *elements);
	void (*add_products)(const struct lanes_product *product);
	/* Of n logits x = logit - largest and e = exp(x), by SLEEF's deterministic exp (1 ulp). */
	void (*exponentials)(double *x, double *e, const float *logits, size_t n, double largest);
	/* The first of the largest numbers, or the first NaN. */
	size_t (*find_top)(const float *x, size_t n);
};

/* The tier that mxfp_isa_active() allows. */
const struct lanes *lanes_active(void);

extern const struct lanes lanes_plain, lanes_avx2, lanes_avx512;

#endif
