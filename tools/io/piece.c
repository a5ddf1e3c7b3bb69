/* SPDX-License-Identifier: MIT */
/* piece_next(): steps through a matrix. */
#include "io/piece.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool piece_next(struct piece *piece, uint64_t rows, uint64_t cols)
{
	if (piece->rows > 0 && piece->col + piece->cols < cols) {
		piece->col += piece->cols;
	} else {
		piece->row += piece->rows;
		piece->col = 0;
	}
	if (piece->row >= rows || cols == 0)
		return false;
	if (cols > PIECE_ELEMENTS && piece->band == 0) {
		piece->rows = 1;
		piece->cols = (size_t)smaller(PIECE_ELEMENTS, cols - piece->col);
		return true;
	}
	const uint64_t padded = ((cols - 1) / PIECE_BLOCK + 1) * PIECE_BLOCK;
	uint64_t most = PIECE_ELEMENTS / padded;
	if (piece->band != 0)
		most = most < piece->band ? piece->band : most - most % piece->band;
	piece->rows = (size_t)smaller(most, rows - piece->row);
	piece->cols = (size_t)cols;
	return true;
}
