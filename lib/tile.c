/* SPDX-License-Identifier: MIT */
/* Cuts a matrix into pieces by its shape alone, so that no result can depend on the number of threads. */
#include "tile.h"

#include "args.h"

/* About the elements of a piece: tens of microseconds of work. A multiple of every block length. */
enum { PIECE = 1 << 16 };

size_t mxfp_tile_count(size_t rows, size_t cols)
{
	if (cols == 0)
		return 0;
	return cols > PIECE ? rows * mxfp_divide_up(cols, PIECE) : mxfp_divide_up(rows, PIECE / cols);
}

struct mxfp_tile mxfp_tile(size_t rows, size_t cols, size_t i)
{
	struct mxfp_tile tile = {.rows = 1, .cols = cols};

	if (cols > PIECE) {
		size_t per_row = mxfp_divide_up(cols, PIECE);

		tile.row = i / per_row;
		tile.col = i % per_row * PIECE;
		tile.cols = mxfp_least(cols - tile.col, PIECE);
	} else {
		tile.row = i * (PIECE / cols);
		tile.rows = mxfp_least(rows - tile.row, PIECE / cols);
	}
	return tile;
}

/* The length of a row as long as mxfp_tile() cuts none. */
static size_t uncut(size_t cols)
{
	return cols == 0 ? 1 : mxfp_least(cols, PIECE);
}

size_t mxfp_row_tile_count(size_t rows, size_t cols)
{
	return cols == 0 ? 0 : mxfp_tile_count(rows, uncut(cols));
}

struct mxfp_tile mxfp_row_tile(size_t rows, size_t cols, size_t i)
{
	struct mxfp_tile tile = mxfp_tile(rows, uncut(cols), i);

	tile.cols = cols;
	return tile;
}
