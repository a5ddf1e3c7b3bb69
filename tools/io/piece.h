/* SPDX-License-Identifier: MIT */
/* Cuts matrices into pieces that fit memory: whole rows, or a part of one row that starts at a block. */
#ifndef TOOLS_IO_PIECE_H
#define TOOLS_IO_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most elements of a piece, with rows padded to whole blocks. A multiple of every block length; small enough that
   input and result stay in one processor's cache, large enough to make system calls cheap. */
enum { PIECE_ELEMENTS = 1 << 17, PIECE_BLOCK = 32 };

/* Starts zeroed. */
struct piece {
	uint64_t row, col;
	size_t rows, cols;
};

/* Moves to the next piece of a matrix, in the order of its elements; false after the last. */
bool piece_next(struct piece *piece, uint64_t rows, uint64_t cols);

#endif
