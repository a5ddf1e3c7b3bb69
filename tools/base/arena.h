/* SPDX-License-Identifier: MIT */
/* Many small allocations that are freed together, for the readers of files; they cost little more than their bytes. */
#ifndef TOOLS_BASE_ARENA_H
#define TOOLS_BASE_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_chunk *chunk; /* the newest, which links to the others */
	size_t used, capacity;     /* bytes of the newest */
};

/* Returns `n` bytes aligned for any 8-byte type, or NULL. A zeroed arena is empty. */
void *arena_take(struct arena *arena, size_t n);

/* Returns a copy of the string, or NULL. */
char *arena_string(struct arena *arena, const char *string);

void arena_free(struct arena *arena);

#endif
