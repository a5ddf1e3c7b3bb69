/* SPDX-License-Identifier: MIT */
/* Cuts matrices into pieces that fit memory: whole rows, or a part of one row that starts at a block; or bands of rows that
   are wanted together, whole, however long they are. */
#ifndef TOOLS_IO_PIECE_H
#define TOOLS_IO_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most elements of a piece, with rows padded to whole blocks. A multiple of every block length; small enough that
   input and result stay in one processor's cache, large enough to make system calls cheap. */
enum { PIECE_ELEMENTS = 1 << 17, PIECE_BLOCK = 32 };

/* Starts zeroed, but for `band`. */
struct piece {
	uint64_t row, col;
	size_t rows, cols;
	size_t band; /* a piece starts at a multiple of so many rows, and has a multiple but at the end; 0: any number */
};

/* Moves to the next piece of a matrix, in the order of its elements; false after the last. */
bool piece_next(struct piece *piece, uint64_t rows, uint64_t cols);

#endif
