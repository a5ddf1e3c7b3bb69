/* SPDX-License-Identifier: MIT */
/* Matrices in pieces that fit memory: whole rows, or a part of one row that starts at a block. */
#ifndef TOOLS_IO_PIECE_H
#define TOOLS_IO_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements of a piece at most, rows counted as padded to whole blocks. A multiple of every block length; small enough
   that what is read and what comes of it stay in one processor's cache, large enough for system calls not to matter. */
enum { PIECE_ELEMENTS = 1 << 17, PIECE_BLOCK = 32 };

/* Starts zeroed. */
struct piece {
	uint64_t row, col;
	size_t rows, cols;
};

/* Moves to the next piece of a matrix, in the order of its elements; false after the last. */
bool piece_next(struct piece *piece, uint64_t rows, uint64_t cols);

#endif
