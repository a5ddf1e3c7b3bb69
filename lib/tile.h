/* SPDX-License-Identifier: MIT */
/* Cuts a matrix into pieces of work, for the functions that run on all threads. */
#ifndef MXFP_TILE_H
#define MXFP_TILE_H

#include <stddef.h>

/* A piece: whole rows, or a part of one row that starts at a multiple of every block length. */
struct mxfp_tile {
	size_t row, rows, col, cols;
};

/* Returns how many pieces a matrix of rows x cols has; rows * cols must not overflow. An array is a one-row matrix. */
size_t mxfp_tile_count(size_t rows, size_t cols);

/* Returns piece i of a matrix. */
struct mxfp_tile mxfp_tile(size_t rows, size_t cols, size_t i);

/* The same with pieces of squares of 32 x 32, which only the ends of the matrix cut. */
size_t mxfp_square_tile_count(size_t rows, size_t cols);
struct mxfp_tile mxfp_square_tile(size_t rows, size_t cols, size_t i);

/* The same with pieces that are whole rows, however long; a row of no numbers is a row. */
size_t mxfp_row_tile_count(size_t rows, size_t cols);
struct mxfp_tile mxfp_row_tile(size_t rows, size_t cols, size_t i);

#endif
