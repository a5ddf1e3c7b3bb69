/* SPDX-License-Identifier: MIT */
/* Cuts a matrix into pieces by its shape alone, so that no result can depend on the number of threads. */
#include "tile.h"

#include "args.h"

/* About the elements of a piece: tens of microseconds of work. A multiple of every block length. */
enum { PIECE = 1 << 16 };

/* Rows of a square, and the elements of one of them in a piece. */
enum { SIDE = 32, SIDE_PIECE = PIECE / SIDE };

static size_t count(size_t rows, size_t cols, size_t piece)
{
	if (cols == 0)
		return 0;
	return cols > piece ? rows * mxfp_divide_up(cols, piece) : mxfp_divide_up(rows, piece / cols);
}

static struct mxfp_tile cut(size_t rows, size_t cols, size_t piece, size_t i)
{
	struct mxfp_tile tile = {.rows = 1, .cols = cols};

	if (cols > piece) {
		size_t per_row = mxfp_divide_up(cols, piece);

		tile.row = i / per_row;
		tile.col = i % per_row * piece;
		tile.cols = mxfp_least(cols - tile.col, piece);
	} else {
		tile.row = i * (piece / cols);
		tile.rows = mxfp_least(rows - tile.row, piece / cols);
	}
	return tile;
}

size_t mxfp_tile_count(size_t rows, size_t cols)
{
	return count(rows, cols, PIECE);
}

struct mxfp_tile mxfp_tile(size_t rows, size_t cols, size_t i)
{
	return cut(rows, cols, PIECE, i);
}

size_t mxfp_square_tile_count(size_t rows, size_t cols)
{
	return count(mxfp_divide_up(rows, SIDE), cols, SIDE_PIECE);
}

struct mxfp_tile mxfp_square_tile(size_t rows, size_t cols, size_t i)
{
	struct mxfp_tile tile = cut(mxfp_divide_up(rows, SIDE), cols, SIDE_PIECE, i);

	tile.row *= SIDE;
	tile.rows = mxfp_least(rows - tile.row, tile.rows * SIDE);
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
