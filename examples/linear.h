/* SPDX-License-Identifier: MIT */
/* Linear layers, forward and backward, in binary32. Each sum is one chain in ascending order, so the bits do not depend
   on the compiler or the machine. Adjacent outputs are computed side by side, which compilers vectorize. */
#ifndef EXAMPLES_LINEAR_H
#define EXAMPLES_LINEAR_H

#include <stddef.h>

/* The largest number of inputs, outputs or rows. */
enum { LINEAR_MAX = 384 };

/* weight[outputs][inputs], row-major; both are multiples of 32. */
struct linear {
	const float *weight;
	size_t outputs, inputs;
};

/* y[rows][outputs] += x[rows][inputs] * weight^T. rows is a multiple of 4. */
void linear_forward(float *y, const struct linear *layer, const float *x, size_t rows);

/* Gradients: d_weight += d_y^T * x and d_x += d_y * weight. */
void linear_backward_weight(float *d_weight, const struct linear *layer, const float *x, const float *d_y, size_t rows);
void linear_backward_input(float *d_x, const struct linear *layer, const float *d_y, size_t rows);

#endif
