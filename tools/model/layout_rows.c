/* SPDX-License-Identifier: MIT */
/* Orders in which a tensor [..., N, K] has its rows of codes one after the other, and likewise its rows of scales. */
#include "config.h"

#include <string.h>

#include "base/must_succeed.h"
#include "model/grid.h"
#include "model/layout.h"
#include "model/quantized.h"

/* Bytes of a row of `cols` elements in a part. */
static uint64_t row_bytes(const struct layout_choice *choice, enum layout_part part, uint64_t cols)
{
	struct mxfp_sparse_sizes sparse = {0};
	struct mxfp_sizes row = {0};

	must_succeed(mxfp_blocks_size(&row, choice->form->format, 1, (size_t)cols));
	if (part == LAYOUT_SCALES)
		return row.scales_row_bytes;
	if (!choice->form->sparse)
		return row.codes_row_bytes;
	must_succeed(mxfp_sparse_size(&sparse, choice->form->format, choice->sparsity, 1, (size_t)cols));
	return part == LAYOUT_CODES ? sparse.codes_row_bytes : sparse.masks_row_bytes;
}

static const char *refuses(const struct layout_choice *choice, const struct layout_shape *source)
{
	struct mxfp_sizes row;
	uint64_t cols = source->dims[source->rank - 1];

	if (cols > SIZE_MAX || mxfp_blocks_size(&row, choice->form->format, 1, (size_t)cols) != MXFP_OK)
		return "its rows are too long";
	return NULL;
}

static void describe(const struct layout_choice *choice, enum layout_part part, const struct layout_shape *source,
                     struct layout_shape *shape)
{
	*shape = *source;
	shape->dims[shape->rank - 1] = row_bytes(choice, part, source->dims[source->rank - 1]) * 8 /
	                               dtype_info(choice->form->parts[part].dtype)->bits;
}

/* The row is as long as its scales say. */
static bool padded_shape(const struct layout_choice *choice, const struct tensor *const *parts,
                         struct layout_shape *source)
{
	const struct tensor *scales = parts[LAYOUT_SCALES];
	unsigned block = mxfp_format_get_info(choice->form->format)->block_length;

	if (scales->rank < 1 || scales->rank > LAYOUT_RANK_MAX || scales->shape[scales->rank - 1] > SIZE_MAX / 64)
		return false;
	*source = (struct layout_shape){.rank = scales->rank};
	for (unsigned i = 0; i < scales->rank; i++)
		source->dims[i] = scales->shape[i];
	source->dims[source->rank - 1] *= block;
	return refuses(choice, source) == NULL;
}

static int read_rows(const struct quantized *q, const struct piece *piece, const struct mxfp_blocks *blocks,
                     struct error *error)
{
	struct layout_slice slice = layout_slice(q->choice.form->format, q->cols, piece);
	int code = file_read(q->files[LAYOUT_CODES], q->parts[LAYOUT_CODES], slice.codes_from, blocks->codes,
	                     slice.size.codes_bytes, error);

	return code == EXIT_OK ? layout_read_scales(q, piece, blocks->scales, error) : code;
}

static int write_rows(const struct layout_target *target, const struct piece *piece, const struct mxfp_blocks *blocks,
                      struct error *error)
{
	struct layout_slice slice = layout_slice(target->choice.form->format, target->cols, piece);
	int code = writer_write(target->writer, target->parts[LAYOUT_CODES], slice.codes_from, blocks->codes,
	                        slice.size.codes_bytes, error);

	if (code != EXIT_OK)
		return code;
	return writer_write(target->writer, target->parts[LAYOUT_SCALES], slice.scales_from, blocks->scales,
	                    slice.size.scales_bytes, error);
}

const struct layout_order layout_rows = {
	.refuses = refuses, .describe = describe, .source = padded_shape, .read = read_rows, .write = write_rows,
};

/* Codes [..., N, blocks, bytes of a block] beside scales [..., N, blocks]. */
static void describe_blocks(const struct layout_choice *choice, enum layout_part part,
                            const struct layout_shape *source, struct layout_shape *shape)
{
	if (part != LAYOUT_CODES) {
		describe(choice, part, source, shape);
		return;
	}
	describe(choice, LAYOUT_SCALES, source, shape);
	shape->dims[shape->rank++] = row_bytes(choice, LAYOUT_CODES, mxfp_format_get_info(choice->form->format)->block_length);
}

const struct layout_order layout_block_rows = {
	.refuses = refuses, .describe = describe_blocks, .source = padded_shape, .read = read_rows, .write = write_rows,
};

/* Rows and columns of elements that share a scale. */
struct grid {
	uint64_t rows, cols;
};

/* The elements of a row in the file. */
static uint64_t cols_of(const struct layout_choice *choice, const struct tensor *codes)
{
	const unsigned bits = mxfp_format_get_info(mxfp_format_get_info(choice->form->format)->element)->bits;

	return codes->shape[codes->rank - 1] * dtype_info(codes->dtype)->bits / bits;
}

/* How many of `n` elements share one of `n_scales` scales, if the configuration does not say it; 0: that cannot be told. */
static uint64_t share_of(uint64_t n, uint64_t n_scales)
{
	return n_scales != 0 && n % n_scales == 0 && grid_is_certain(n, n_scales) ? n / n_scales : 0;
}

/* The grid that the configuration states where it is that of the scales, else that of the shapes; false if there is none, or
   if it is none of whole blocks. A scale may also be that of a whole row, or of all. */
static bool grid_of(const struct layout_choice *choice, const struct tensor *const *parts, struct grid *grid)
{
	const struct tensor *codes = parts[LAYOUT_CODES], *scales = parts[LAYOUT_SCALES];
	const unsigned block = mxfp_format_get_info(choice->form->format)->block_length;
	const bool one = scales->rank < 2 && tensor_elements(scales) == 1;

	if (codes->rank < 2 || (!one && scales->rank != codes->rank))
		return false;
	const uint64_t rows = codes->shape[codes->rank - 2], cols = cols_of(choice, codes);
	for (unsigned i = 0; i + 2 < codes->rank; i++)
		if (codes->shape[i] != (one ? 1 : scales->shape[i]))
			return false;
	const uint64_t n_rows = one ? 1 : scales->shape[codes->rank - 2], n_cols = one ? 1 : scales->shape[codes->rank - 1];
	*grid = (struct grid){choice->grid[0], choice->grid[1]};
	if (!grid_is_cut(rows, grid->rows, n_rows) || !grid_is_cut(cols, grid->cols, n_cols))
		*grid = (struct grid){share_of(rows, n_rows), share_of(cols, n_cols)};
	if (grid->rows == 0 || grid->cols == 0)
		return false;
	/* FP4 has blocks alone: two codes in a byte are as many bytes as 8-bit codes in larger blocks. */
	if (mxfp_format_get_info(mxfp_format_get_info(choice->form->format)->element)->bits < 8)
		return grid->rows == 1 && n_rows == rows && n_cols * block == cols;
	return grid->cols % block == 0 || grid->cols >= cols;
}

static bool repeats_scales(const struct layout_choice *choice, const struct tensor *const *parts)
{
	const unsigned block = mxfp_format_get_info(choice->form->format)->block_length;
	struct grid grid;

	return grid_of(choice, parts, &grid) && (grid.rows != 1 || grid.cols != block || cols_of(choice, parts[LAYOUT_CODES]) % block != 0);
}

static bool grid_shape(const struct layout_choice *choice, const struct tensor *const *parts, struct layout_shape *source)
{
	const struct tensor *codes = parts[LAYOUT_CODES];
	struct grid grid;

	if (codes->rank > LAYOUT_RANK_MAX || codes->rank < 2 || !grid_of(choice, parts, &grid))
		return false;
	*source = (struct layout_shape){.rank = codes->rank};
	for (unsigned i = 0; i < codes->rank; i++)
		source->dims[i] = codes->shape[i];
	source->dims[codes->rank - 1] = cols_of(choice, codes);
	return refuses(choice, source) == NULL;
}

/* The codes of a row from column `col` on, padded to whole blocks. */
static int read_codes(const struct quantized *q, uint64_t row, uint64_t col, uint8_t *codes, size_t n, struct error *error)
{
	const struct tensor *part = q->parts[LAYOUT_CODES];
	const unsigned bits = mxfp_format_get_info(mxfp_format_get_info(q->choice.form->format)->element)->bits;
	const uint64_t in_file = cols_of(&q->choice, part), from = (row * in_file + col) * bits / 8, left = (in_file - col) * bits / 8;
	const size_t there = left < n ? (size_t)left : n;

	memset(codes + there, 0, n - there);
	return file_read(q->files[LAYOUT_CODES], part, from, codes, there, error);
}

/* The scales of `n` blocks of a row, the first in column `col`. */
static int read_repeated(const struct quantized *q, const struct grid *grid, uint64_t row, uint64_t col, uint8_t *scales, size_t n,
                         struct error *error)
{
	const struct tensor *codes = q->parts[LAYOUT_CODES];
	const uint64_t rows = codes->shape[codes->rank - 2], cols = cols_of(&q->choice, codes);
	const unsigned block = mxfp_format_get_info(q->choice.form->format)->block_length;
	const uint64_t per_matrix = rows / grid->rows + (rows % grid->rows != 0), per_row = cols / grid->cols + (cols % grid->cols != 0);
	const uint64_t first = col / grid->cols, last = (col + (n - 1) * block) / grid->cols, line = row / rows * per_matrix + row % rows / grid->rows;
	const size_t count = (size_t)(last - first) + 1;
	/* At the end of their place, so that what is repeated never reaches what is still to be. */
	uint8_t *once = scales + (n - count);
	const int code = file_read(q->files[LAYOUT_SCALES], q->parts[LAYOUT_SCALES], line * per_row + first, once, count, error);

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		scales[i] = once[(col + i * block) / grid->cols - first];
	return code;
}

static int read_grid(const struct quantized *q, const struct piece *piece, const struct mxfp_blocks *blocks, struct error *error)
{
	const struct layout_slice slice = layout_slice(q->choice.form->format, q->cols, piece);
	const size_t codes = slice.size.codes_row_bytes, scales = slice.size.scales_row_bytes;
	struct grid grid = {1, 32};
	uint64_t of_row = UINT64_MAX;
	int code = EXIT_OK;

	if (!q->repeated)
		return read_rows(q, piece, blocks, error);
	(void)grid_of(&q->choice, q->parts, &grid);
	for (size_t i = 0; i < piece->rows && scales > 0 && code == EXIT_OK; i++) {
		const uint64_t row = piece->row + i, rows = q->shape.dims[q->shape.rank - 2];
		const uint64_t line = row / rows * rows + row % rows / grid.rows * grid.rows;
		uint8_t *at = (uint8_t *)blocks->scales + i * scales;

		code = read_codes(q, row, piece->col, (uint8_t *)blocks->codes + i * codes, codes, error);
		if (code == EXIT_OK && line == of_row)
			memcpy(at, at - scales, scales);
		else if (code == EXIT_OK)
			code = read_repeated(q, &grid, row, piece->col, at, scales, error);
		of_row = line;
	}
	return code;
}

const struct layout_order layout_grid = {
	.refuses = refuses,
	.describe = describe,
	.source = grid_shape,
	.read = read_grid,
	.write = write_rows,
	.checks_shapes = true,
	.repeats = repeats_scales,
};
