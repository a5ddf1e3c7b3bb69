/* SPDX-License-Identifier: MIT */
/* What row operations share: checking what they read, sums over rows in strips, parts of a row without results. */
#ifndef MXFP_ROWS_H
#define MXFP_ROWS_H

#include "f64.h"
#include "row_output.h"

/* Checks an input of rows x cols numbers: MXFP_ERR_NULL for a NULL input, MXFP_ERR_OPTION, and as mxfp_check_rows(). */
enum mxfp_status mxfp_check_row_input(struct mxfp_rows *checked, const struct mxfp_row_input *input, size_t rows,
                                      size_t cols);

/* Whether results may overwrite any of this memory. */
bool mxfp_sink_touches(const struct mxfp_row_sink *sink, const struct mxfp_region *memory);

/* The numbers from `col` on that one strip of a row of cols numbers holds. */
static inline size_t mxfp_strip_length(size_t cols, size_t col)
{
	return cols - col < MXFP_STRIP ? cols - col : MXFP_STRIP;
}

/* Sets n numbers to the binary32 with these bits. */
void mxfp_fill(float *at, size_t n, uint32_t bits);

/* Returns the sum over cols numbers; `mean` is that of deviations. */
uint64_t mxfp_row_total(const struct mxfp_kernels *kernels, enum mxfp_sum sum, const struct mxfp_rows *rows, size_t row,
                        size_t cols, uint64_t mean);

#endif
