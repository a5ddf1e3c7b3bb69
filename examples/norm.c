/* SPDX-License-Identifier: MIT */
#include "norm.h"

#include <math.h>

/* 1 / sqrt(mean(x^2) + 1e-5) of a row. */
static float inverse_rms(const float *x, size_t columns)
{
	float sum = 0;

	for (size_t i = 0; i < columns; i++)
		sum += x[i] * x[i];
	return 1.0f / sqrtf(sum / (float)columns + 1e-5f);
}

void norm_forward(float *y, const float *gain, const float *x, size_t rows, size_t columns)
{
	for (size_t row = 0; row < rows; row++, x += columns, y += columns) {
		float inverse = inverse_rms(x, columns);

		for (size_t i = 0; i < columns; i++)
			y[i] = x[i] * inverse * gain[i];
	}
}

/* With r = inverse_rms(x) and dr/dx_i = -r^3 x_i / columns:
   dL/dx_i = r gain_i dy_i - x_i r^3 / columns * sum_j dy_j gain_j x_j. */
void norm_backward(float *d_x, float *d_gain, const float *gain, const float *x, const float *d_y, size_t columns)
{
	float inverse = inverse_rms(x, columns), sum = 0;

	for (size_t i = 0; i < columns; i++) {
		sum += d_y[i] * gain[i] * x[i];
		d_gain[i] += d_y[i] * x[i] * inverse;
	}
	sum *= inverse * inverse * inverse / (float)columns;
	for (size_t i = 0; i < columns; i++)
		d_x[i] += d_y[i] * gain[i] * inverse - x[i] * sum;
}
