/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include <string.h>

#include "sized.h"

enum mxfp_status mxfp_check_row_input(struct mxfp_rows *checked, const struct mxfp_row_input *input, size_t rows,
                                      size_t cols)
{
	struct mxfp_row_input copy;

	if (input == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_row_input *i = MXFP_SIZED(input, &copy, stride);
	return i == NULL ? MXFP_ERR_OPTION : mxfp_check_rows(checked, i->data, i->format, i->stride, rows, cols);
}

bool mxfp_sink_touches(const struct mxfp_row_sink *sink, const struct mxfp_region *memory)
{
	return mxfp_overlap(&sink->data.memory, memory) || mxfp_overlap(&sink->codes, memory) || mxfp_overlap(&sink->scales, memory);
}

void mxfp_fill(float *at, size_t n, uint32_t bits)
{
	for (size_t i = 0; i < n; i++)
		memcpy(at + i, &bits, sizeof bits);
}

uint64_t mxfp_row_total(const struct mxfp_kernels *kernels, enum mxfp_sum sum, const struct mxfp_rows *rows, size_t row,
                        size_t cols, uint64_t mean)
{
	uint64_t lanes[MXFP_SUM_LANES] = {0}, total = 0;
	float buffer[MXFP_STRIP];

	for (size_t col = 0, n; col < cols; col += n) {
		n = mxfp_strip_length(cols, col);
		const struct mxfp_row_sum_job job = {
			.sum = sum,
			.x = mxfp_load_strip(kernels, rows, row, col, n, buffer),
			.n = n,
			.mean = mean,
			.lanes = lanes,
			.total = col + n == cols ? &total : NULL,
		};

		kernels->row_sum(&job);
	}
	return total;
}
