/* SPDX-License-Identifier: MIT */
/* A text cut into pieces: bytes that grow, and where each piece of them ends. */
#ifndef TOOLS_EVAL_PIECES_H
#define TOOLS_EVAL_PIECES_H

#include <stddef.h>

#include "base/error.h"

/* Zeroed: empty. */
struct pieces {
	char *bytes;
	size_t n_bytes;
	size_t n;     /* pieces; piece i begins where piece i - 1 ends */
	size_t *ends;
	size_t bytes_room, ends_room;
};

/* Adds bytes to the piece that is being made. EXIT_MEMORY. */
int pieces_append(struct pieces *pieces, const char *bytes, size_t n, struct error *error);

/* Ends that piece if it is not empty. EXIT_MEMORY. */
int pieces_end(struct pieces *pieces, struct error *error);

/* The bytes of piece i. */
const char *pieces_get(const struct pieces *pieces, size_t i, size_t *n);

/* Empties it and keeps the memory. */
void pieces_clear(struct pieces *pieces);

void pieces_free(struct pieces *pieces);

/* Makes the bytes the only piece. EXIT_MEMORY. */
int pieces_set(struct pieces *pieces, const char *bytes, size_t n, struct error *error);

#endif
