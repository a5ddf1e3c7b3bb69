/* SPDX-License-Identifier: MIT */
/*
 * Products y = x W^T of activations x[tokens][cols] and rows of a weight matrix W[rows][cols], for measuring what
 * quantization does to them: exact enough to measure against, and as a program gets them.
 */
#ifndef TOOLS_ANALYSE_PRODUCT_H
#define TOOLS_ANALYSE_PRODUCT_H

#include <stddef.h>

#include "base/error.h"
#include "mxfp/gemm.h"

/* y[rows][tokens] in binary64: y[n][t] = sum over k of W[n][k] x[t][k], k ascending from 0, the sum starting from +0;
   each product of two binary32 numbers is exact. So y does not depend on the rows that are computed together, nor on
   `threads` (0: one a processor). */
void product(double *y, const float *weights, size_t rows, const float *x, size_t tokens, size_t cols,
             unsigned threads);

enum {
	PRODUCTS_MAX = 3,
	PRODUCT_PASS = 512,      /* elements of K in a pass of two block formats, */
	PRODUCT_PASS_CHAIN = 128 /* and of other pairs */
};

/* Memory that product_gemm() keeps from call to call. All zero: none yet. */
struct product_memory {
	float *y[PRODUCTS_MAX]; /* results: y[i][tokens][rows] */
	size_t y_numbers[PRODUCTS_MAX];
	void *workspace;
	size_t workspace_bytes;
};

/* The products of n <= PRODUCTS_MAX matrices x with one W by mxfp_gemm_grouped(), into memory->y: exact block sums of
   two block formats, chains of others. EXIT_MEMORY. */
int product_gemm(struct product_memory *memory, const struct mxfp_matrix *x, size_t n, const struct mxfp_matrix *w,
                 unsigned threads, struct error *error);

void product_memory_free(struct product_memory *memory);

#endif
