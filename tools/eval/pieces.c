/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/pieces.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int pieces_append(struct pieces *pieces, const char *bytes, size_t n, struct error *error)
{
	if (n > pieces->bytes_room - pieces->n_bytes) {
		const size_t room = pieces->bytes_room + (n > pieces->bytes_room ? n : pieces->bytes_room) + 64;
		char *grown = room < n ? NULL : realloc(pieces->bytes, room);

		if (grown == NULL)
			return fail_memory(error);
		pieces->bytes = grown;
		pieces->bytes_room = room;
	}
	if (n > 0)
		memcpy(pieces->bytes + pieces->n_bytes, bytes, n);
	pieces->n_bytes += n;
	return EXIT_OK;
}

int pieces_end(struct pieces *pieces, struct error *error)
{
	const size_t start = pieces->n > 0 ? pieces->ends[pieces->n - 1] : 0;

	if (pieces->n_bytes == start)
		return EXIT_OK;
	if (pieces->n == pieces->ends_room) {
		const size_t room = 2 * pieces->ends_room + 16;
		size_t *grown = room > SIZE_MAX / sizeof *grown ? NULL : realloc(pieces->ends, room * sizeof *grown);

		if (grown == NULL)
			return fail_memory(error);
		pieces->ends = grown;
		pieces->ends_room = room;
	}
	pieces->ends[pieces->n++] = pieces->n_bytes;
	return EXIT_OK;
}

const char *pieces_get(const struct pieces *pieces, size_t i, size_t *n)
{
	const size_t start = i > 0 ? pieces->ends[i - 1] : 0;

	*n = pieces->ends[i] - start;
	return pieces->bytes + start;
}

void pieces_clear(struct pieces *pieces)
{
	pieces->n_bytes = 0;
	pieces->n = 0;
}

void pieces_free(struct pieces *pieces)
{
	free(pieces->bytes);
	free(pieces->ends);
	*pieces = (struct pieces){0};
}

int pieces_set(struct pieces *pieces, const char *bytes, size_t n, struct error *error)
{
	pieces_clear(pieces);
	int code = pieces_append(pieces, bytes, n, error);
	return code == EXIT_OK ? pieces_end(pieces, error) : code;
}
