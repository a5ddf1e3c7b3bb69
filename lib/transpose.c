/* SPDX-License-Identifier: MIT */
/* mxfp_blocks_transpose(): codes of squares of 32 x 32 change places; scales that a square's rows share serve its columns. */
#include <string.h>

#include "args.h"
#include "blocks.h"
#include "exec.h"
#include "scale.h"
#include "sized.h"

enum { SIDE = MXFP_MX_BLOCK, PIECE_ROWS = 256, PIECE_COLS = 256 };

struct transposition {
	struct mxfp_matrix src;
	struct mxfp_spans from, to;
	uint8_t *codes, *scales;
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

/* Piece i of the squares: several below each other, so that lines of the result are whole. */
static struct mxfp_tile tile_of(const struct mxfp_matrix *m, size_t i)
{
	const size_t across = mxfp_divide_up(m->cols, PIECE_COLS);
	struct mxfp_tile tile = {.row = i / across * PIECE_ROWS, .col = i % across * PIECE_COLS};

	tile.rows = mxfp_least(m->rows - tile.row, PIECE_ROWS);
	tile.cols = mxfp_least(m->cols - tile.col, PIECE_COLS);
	return tile;
}

static void transpose_scales(const struct transposition *t, const struct mxfp_tile *tile)
{
	const size_t n = mxfp_divide_up(tile->rows, SIDE);
	uint8_t *to = t->scales + mxfp_scales_offset(t->src.format, t->to.scales_stride, tile->col, tile->row);

	for (size_t col = 0; col < tile->cols; col += SIDE) {
		const uint8_t *from = scale_at(t, tile->row, tile->col + col);
		uint8_t column[PIECE_ROWS / SIDE];

		for (size_t i = 0; i < n; i++)
			column[i] = from[i * SIDE * t->from.scales_stride];
		for (size_t j = 0; j < mxfp_least(tile->cols - col, SIDE); j++, to += t->to.scales_stride)
			memcpy(to, column, n);
	}
}

static void transpose_piece(const struct mxfp_kernels *kernels, const void *context, size_t piece,
                            struct mxfp_counts *counts)
{
	const struct transposition *t = context;
	const enum mxfp_format format = t->src.format;
	const struct mxfp_tile tile = tile_of(&t->src, piece);
	const struct mxfp_transpose_job job = {
		.format = format,
		.rows = tile.rows,
		.cols = tile.cols,
		.src = (const uint8_t *)t->src.data + mxfp_codes_offset(format, t->from.codes_stride, tile.row, tile.col),
		.src_stride = t->from.codes_stride,
		.dst = t->codes + mxfp_codes_offset(format, t->to.codes_stride, tile.col, tile.row),
		.dst_stride = t->to.codes_stride,
	};

	(void)counts;
	kernels->transpose[format](&job);
	transpose_scales(t, &tile);
}

enum mxfp_status mxfp_blocks_transpose(struct mxfp_blocks *dst, const struct mxfp_matrix *src, const struct mxfp_exec *exec)
{
	struct mxfp_blocks copy;
	struct transposition t;
	struct mxfp_runner runner;

	if (dst == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_blocks *d = MXFP_SIZED((const struct mxfp_blocks *)dst, &copy);
	if (d == NULL)
		return MXFP_ERR_VERSION;
	enum mxfp_status status = mxfp_runner_init(&runner, exec);
	if (status != MXFP_OK)
		return status;
	const struct mxfp_matrix to = mxfp_blocks_matrix(d), *from = &t.src;
	t.codes = d->codes;
	t.scales = d->scales;
	status = mxfp_check_source_blocks(&t.src, &t.from, src);
	if (status == MXFP_OK)
		status = mxfp_check_codes(&to, &t.to);
	if (status != MXFP_OK)
		return status;
	if (to.format != from->format || mxfp_format_get_info(from->format)->tensor_scale)
		return MXFP_ERR_FORMAT;
	if (to.rows != from->cols || to.cols != from->rows)
		return MXFP_ERR_SHAPE;
	if (from->rows == 0 || from->cols == 0)
		return MXFP_OK;
	if (t.codes == NULL || t.scales == NULL)
		return MXFP_ERR_NULL;
	const struct mxfp_region beside_codes[] = {t.from.codes, t.from.scales, t.to.scales};
	if (mxfp_overlap_any(&t.to.codes, beside_codes, 3) || mxfp_overlap_any(&t.to.scales, beside_codes, 2))
		return MXFP_ERR_OVERLAP;
	if (!has_squares(&t))
		return MXFP_ERR_OPTION;
	mxfp_run_pieces(&runner, mxfp_divide_up(from->rows, PIECE_ROWS) * mxfp_divide_up(from->cols, PIECE_COLS), transpose_piece,
	                &t, NULL);
	return MXFP_OK;
}
