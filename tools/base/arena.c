/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Chunks grow: models can have thousands of files with one tensor each, and files with many. */
enum { FIRST_BYTES = 512, CHUNK_BYTES = 16384, ALIGNMENT = 8 };

struct arena_chunk {
	struct arena_chunk *older;
	uint64_t bytes[];
};

/* Adds a chunk for at least `n` bytes, as the newest. */
static int grow(struct arena *arena, size_t n)
{
	size_t more = arena->chunk == NULL ? FIRST_BYTES : arena->capacity < CHUNK_BYTES / 2 ? 2 * arena->capacity : CHUNK_BYTES;
	size_t capacity = n > more ? n : more;
	struct arena_chunk *chunk = n > PTRDIFF_MAX / 2 ? NULL : malloc(sizeof *chunk + capacity);

	if (chunk == NULL)
		return -1;
	chunk->older = arena->chunk;
	*arena = (struct arena){.chunk = chunk, .capacity = capacity};
	return 0;
}

/* Returns `n` bytes, unaligned, or NULL. */
static void *take(struct arena *arena, size_t n)
{
	if ((arena->chunk == NULL || n > arena->capacity - arena->used) && grow(arena, n) != 0)
		return NULL;
	void *bytes = (char *)arena->chunk->bytes + arena->used;
	arena->used += n;
	return bytes;
}

void *arena_take(struct arena *arena, size_t n)
{
	size_t used = (arena->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

	/* A chunk made for one long string may have an unaligned capacity; then nothing is left in it. */
	arena->used = used < arena->capacity ? used : arena->capacity;
	return take(arena, n);
}

char *arena_string(struct arena *arena, const char *string)
{
	size_t n = strlen(string) + 1;
	char *copy = take(arena, n);

	return copy != NULL ? memcpy(copy, string, n) : NULL;
}

void arena_free(struct arena *arena)
{
	struct arena_chunk *chunk = arena->chunk;

	while (chunk != NULL) {
		struct arena_chunk *older = chunk->older;

		free(chunk);
		chunk = older;
	}
	*arena = (struct arena){0};
}
