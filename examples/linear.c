/* SPDX-License-Identifier: MIT */
#include "linear.h"

#include <assert.h>
#include <string.h>

enum { STRIP = 32 }; /* columns computed side by side */

/* A matrix with any strides of rows and columns, so that its transpose is a view of the same memory. */
struct view {
	const float *values;
	size_t row_stride, column_stride;
};

/* Copies k rows of STRIP columns, from column `first` on, to consecutive memory. */
static void pack(float *panel, struct view b, size_t first, size_t k)
{
	for (size_t i = 0; i < k; i++)
		for (size_t j = 0; j < STRIP; j++)
			panel[i * STRIP + j] = b.values[i * b.row_stride + (first + j) * b.column_stride];
}

/* sum[j] += a[0] * panel[0][j] + a[1] * panel[1][j] + ..., k products added one after the other. */
static void add_products(float sum[STRIP], const float *a, size_t a_stride, const float *panel, size_t k)
{
	for (size_t i = 0; i < k; i += 4, a += 4 * a_stride, panel += 4 * STRIP) {
		float a0 = a[0], a1 = a[a_stride], a2 = a[2 * a_stride], a3 = a[3 * a_stride];

		for (size_t j = 0; j < STRIP; j++) {
			float s = sum[j];

			s += a0 * panel[j];
			s += a1 * panel[STRIP + j];
			s += a2 * panel[2 * STRIP + j];
			s += a3 * panel[3 * STRIP + j];
			sum[j] = s;
		}
	}
}

/* c[m][n] += a[m][k] * b[k][n]. n is a multiple of STRIP, k of 4. */
static void multiply(float *c, struct view a, struct view b, size_t m, size_t n, size_t k)
{
	float panel[LINEAR_MAX * STRIP], sum[STRIP];

	assert(n % STRIP == 0 && k % 4 == 0 && k <= LINEAR_MAX);
	for (size_t j = 0; j < n; j += STRIP) {
		pack(panel, b, j, k);
		for (size_t i = 0; i < m; i++) {
			memcpy(sum, c + i * n + j, sizeof(sum));
			add_products(sum, a.values + i * a.row_stride, a.column_stride, panel, k);
			memcpy(c + i * n + j, sum, sizeof(sum));
		}
	}
}

void linear_forward(float *y, const struct linear *layer, const float *x, size_t rows)
{
	struct view inputs = {x, layer->inputs, 1}, transposed = {layer->weight, 1, layer->inputs};

	multiply(y, inputs, transposed, rows, layer->outputs, layer->inputs);
}

void linear_backward_weight(float *d_weight, const struct linear *layer, const float *x, const float *d_y, size_t rows)
{
	struct view transposed = {d_y, 1, layer->outputs}, inputs = {x, layer->inputs, 1};

	multiply(d_weight, transposed, inputs, layer->outputs, layer->inputs, rows);
}

void linear_backward_input(float *d_x, const struct linear *layer, const float *d_y, size_t rows)
{
	struct view outputs = {d_y, layer->outputs, 1}, weight = {layer->weight, layer->inputs, 1};

	multiply(d_x, outputs, weight, rows, layer->inputs, layer->outputs);
}
