/* SPDX-License-Identifier: MIT */
/* The cut of a matrix into pieces of work. */
#ifndef MXFP_TILE_H
#define MXFP_TILE_H

#include <stddef.h>

/* Whole rows, or a part of one row that starts at a multiple of every block length. */
struct mxfp_tile {
	size_t row, rows, col, cols;
};

/* How many pieces a matrix of rows x cols has; the product must not overflow. An array is a matrix of one row. */
size_t mxfp_tile_count(size_t rows, size_t cols);

/* Piece i of it. */
struct mxfp_tile mxfp_tile(size_t rows, size_t cols, size_t i);

#endif
