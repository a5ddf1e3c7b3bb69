/* SPDX-License-Identifier: MIT */
/*
 * Memory for much that is read over and over, such as the weights of a model: in pages of 2 MiB where the system has them, since
 * otherwise a processor that reads at the speed of memory looks up an address every 4 KiB. Pieces that are taken one after the
 * other lie side by side.
 */
#ifndef TOOLS_BASE_PAGES_H
#define TOOLS_BASE_PAGES_H

#include <stddef.h>

struct pages {
	struct pages_chunk *current; /* NULL at first: whence the next piece is taken */
};

/* Returns memory, aligned to 64 bytes; NULL: there is none. */
void *pages_take(struct pages *pages, size_t bytes);

/* Gives a piece back. NULL is allowed. */
void pages_give(void *memory);

/* No more pieces are taken; those that were stay until they are given back. */
void pages_end(struct pages *pages);

/* Asks for such pages where they fit into memory of which nothing was written yet. */
void pages_advise(void *memory, size_t bytes);

#endif
