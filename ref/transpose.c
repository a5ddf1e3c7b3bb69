/* SPDX-License-Identifier: MIT */
/* Codes of squares change places. */
#include <string.h>

#include "pack.h"
#include "ref.h"

enum { SIDE = MXFP_MX_BLOCK };

static void transpose_square(const struct mxfp_transpose_job *job, unsigned bits, size_t row, size_t col)
{
	const size_t rows = job->rows - row < SIDE ? job->rows - row : SIDE, cols = job->cols - col < SIDE ? job->cols - col : SIDE;
	uint8_t from[SIDE], to[SIDE][SIDE] = {{0}};

	for (size_t i = 0; i < rows; i++) {
		mxfp_ref_unpack(from, job->src + (row + i) * job->src_stride + col / 8 * bits, SIDE, bits);
		for (size_t j = 0; j < cols; j++)
			to[j][i] = from[j];
	}
	for (size_t j = 0; j < cols; j++)
		mxfp_ref_pack(job->dst + (col + j) * job->dst_stride + row / 8 * bits, to[j], SIDE, bits);
}

void mxfp_transpose_ref(const struct mxfp_transpose_job *job)
{
	const unsigned bits = mxfp_format_get_info(mxfp_format_get_info(job->format)->element)->bits;

	for (size_t row = 0; row < job->rows; row += SIDE)
		for (size_t col = 0; col < job->cols; col += SIDE)
			transpose_square(job, bits, row, col);
}
