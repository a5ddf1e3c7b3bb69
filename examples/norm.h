/* SPDX-License-Identifier: MIT */
/* RMS norm, y = gain * x / sqrt(mean(x^2) + 1e-5) over each row, in binary32 with sums in ascending order. */
#ifndef EXAMPLES_NORM_H
#define EXAMPLES_NORM_H

#include <stddef.h>

void norm_forward(float *y, const float *gain, const float *x, size_t rows, size_t columns);

/* Gradients of one row, added to d_x and d_gain. */
void norm_backward(float *d_x, float *d_gain, const float *gain, const float *x, const float *d_y, size_t columns);

#endif
