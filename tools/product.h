/* SPDX-License-Identifier: MIT */
/*
 * Products y = x W^T of activations x[tokens][cols] and rows of a weight matrix W[rows][cols], for
 * measuring what quantization does to them. y[n][t] = sum over k of W[n][k] x[t][k] in binary64, k
 * ascending from 0, the sum starting from +0; each product of two binary32 numbers is exact. So y
 * does not depend on the rows that are computed together.
 */
#ifndef TOOLS_PRODUCT_H
#define TOOLS_PRODUCT_H

#include <stddef.h>

/* Activations stored [cols][lanes] so that the loop over tokens is innermost; lanes is tokens
   rounded up to whole groups, the added ones zero. */
struct product_operand {
	size_t tokens, cols, lanes;
	float *x;
};

enum { PRODUCT_GROUP = 8 }; /* tokens that are summed together */

/* Number of floats that product_operand_set() stores for such a matrix. */
size_t product_operand_size(size_t tokens, size_t cols);

/* Stores x, tokens rows of cols, into operand->x, which the caller owns. */
void product_operand_set(struct product_operand *operand, const float *x, size_t tokens, size_t cols);

/* y[rows][tokens] for `rows` rows of weights, by at most `threads` threads (0: one a processor). */
void product(double *y, const float *weights, size_t rows, const struct product_operand *operand, unsigned threads);

#endif
