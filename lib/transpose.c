/* SPDX-License-Identifier: MIT */
/* mxfp_blocks_transpose(): codes of squares of 32 x 32 change places; scales that a square's rows share serve its columns. */
#include <string.h>

#include "args.h"
#include "blocks.h"
#include "exec.h"
#include "pack.h"
#include "scale.h"
#include "sized.h"

enum { SIDE = MXFP_MX_BLOCK };

struct transposition {
	struct mxfp_matrix src;
	struct mxfp_spans from, to;
	uint8_t *codes, *scales;
	unsigned bits;
};

static const uint8_t *scale_at(const struct transposition *t, size_t row, size_t col)
{
	return (const uint8_t *)t->src.scales + mxfp_scales_offset(t->src.format, t->from.scales_stride, row, col);
}

static bool has_squares(const struct transposition *t)
{
	for (size_t row = 0; row < t->src.rows; row++)
		if (row % SIDE != 0 && memcmp(scale_at(t, row, 0), scale_at(t, row - 1, 0), mxfp_divide_up(t->src.cols, SIDE)) != 0)
			return false;
	return true;
}

static void transpose_square(const struct transposition *t, size_t row, size_t col)
{
	const size_t rows = mxfp_least(t->src.rows - row, SIDE), cols = mxfp_least(t->src.cols - col, SIDE);
	uint8_t from[SIDE][SIDE], to[SIDE][SIDE] = {{0}};

	for (size_t i = 0; i < rows; i++) {
		mxfp_ref_unpack(from[i],
		                (const uint8_t *)t->src.data +
		                        mxfp_codes_offset(t->src.format, t->from.codes_stride, row + i, col),
		                SIDE, t->bits);
		for (size_t j = 0; j < cols; j++)
			to[j][i] = from[i][j];
	}
	for (size_t j = 0; j < cols; j++) {
		mxfp_ref_pack(t->codes + mxfp_codes_offset(t->src.format, t->to.codes_stride, col + j, row), to[j], SIDE,
		              t->bits);
		t->scales[mxfp_scales_offset(t->src.format, t->to.scales_stride, col + j, row)] = *scale_at(t, row, col);
	}
}

static void transpose_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                            struct mxfp_counts *counts)
{
	const struct transposition *t = context;
	const struct mxfp_tile tile = mxfp_square_tile(t->src.rows, t->src.cols, piece);

	(void)kernels, (void)counts;
	for (size_t row = 0; row < tile.rows; row += SIDE)
		for (size_t col = 0; col < tile.cols; col += SIDE)
			transpose_square(t, tile.row + row, tile.col + col);
}

enum mxfp_status mxfp_blocks_transpose(const struct mxfp_blocks *dst, const struct mxfp_blocks *src,
                                       const struct mxfp_exec *exec)
{
	struct mxfp_blocks dst_copy, src_copy;
	struct transposition t;
	struct mxfp_runner runner;

	if (dst == NULL || src == NULL)
		return MXFP_ERR_NULL;
	dst = MXFP_SIZED(dst, &dst_copy, tensor_scale_divides);
	src = MXFP_SIZED(src, &src_copy, tensor_scale_divides);
	if (dst == NULL || src == NULL)
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix to = mxfp_blocks_matrix(dst);
	t.src = mxfp_blocks_matrix(src);
	t.codes = dst->codes;
	t.scales = dst->scales;
	status = mxfp_check_codes(&t.src, &t.from);
	if (status == MXFP_OK)
		status = mxfp_check_codes(&to, &t.to);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_format_info *info = mxfp_format_get_info(src->format);
	if (dst->format != src->format || info->tensor_scale)
		return MXFP_ERR_FORMAT;
	if (dst->rows != src->cols || dst->cols != src->rows)
		return MXFP_ERR_SIZE;
	if (src->rows == 0 || src->cols == 0)
		return MXFP_OK;
	if (src->codes == NULL || src->scales == NULL || dst->codes == NULL || dst->scales == NULL)
		return MXFP_ERR_NULL;
	if (mxfp_overlap(dst->codes, t.to.codes, src->codes, t.from.codes) ||
	    mxfp_overlap(dst->codes, t.to.codes, src->scales, t.from.scales) ||
	    mxfp_overlap(dst->scales, t.to.scales, src->codes, t.from.codes) ||
	    mxfp_overlap(dst->scales, t.to.scales, src->scales, t.from.scales) ||
	    mxfp_overlap(dst->codes, t.to.codes, dst->scales, t.to.scales))
		return MXFP_ERR_OVERLAP;
	if (!has_squares(&t))
		return MXFP_ERR_OPTION;
	t.bits = mxfp_format_get_info(info->element)->bits;
	mxfp_run_pieces(&runner, mxfp_square_tile_count(src->rows, src->cols), transpose_piece, &t, NULL);
	return MXFP_OK;
}
