/* SPDX-License-Identifier: MIT */
/* The cut depends on the shape alone, so that no result can depend on the number of threads. */
#include "tile.h"

/* Elements in a piece, about: some tens of microseconds at any speed. A multiple of every block length. */
enum { PIECE = 1 << 16 };

static size_t divide_up(size_t a, size_t b)
{
	return a / b + (a % b != 0);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t mxfp_tile_count(size_t rows, size_t cols)
{
	if (cols == 0)
		return 0;
	return cols > PIECE ? rows * divide_up(cols, PIECE) : divide_up(rows, PIECE / cols);
}

struct mxfp_tile mxfp_tile(size_t rows, size_t cols, size_t i)
{
	struct mxfp_tile tile = {.rows = 1, .cols = cols};

	if (cols > PIECE) {
		size_t per_row = divide_up(cols, PIECE);

		tile.row = i / per_row;
		tile.col = i % per_row * PIECE;
		tile.cols = least(cols - tile.col, PIECE);
	} else {
		tile.row = i * (PIECE / cols);
		tile.rows = least(rows - tile.row, PIECE / cols);
	}
	return tile;
}
