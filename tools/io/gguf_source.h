/* SPDX-License-Identifier: MIT */
/* The bytes of a GGUF file's header, one after the other; nothing is believed that the file is too short for. */
#ifndef TOOLS_IO_GGUF_SOURCE_H
#define TOOLS_IO_GGUF_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

struct gguf_source {
	int fd;
	const char *path;
	uint64_t at, size;       /* in the file, and the file's */
	unsigned char *bytes;    /* GGUF_SOURCE_BYTES, of which `n` are those of the file from `from` on */
	uint64_t from;
	size_t n;
};

enum { GGUF_SOURCE_BYTES = 1 << 16, GGUF_HEADER_MAX = 1 << 30 };

/* `what` is being read, for the text of an error: "key 3". All: EXIT_INPUT if the file ends before, or the header has
   more than GGUF_HEADER_MAX bytes; EXIT_IO. */
int gguf_take(struct gguf_source *source, void *bytes, size_t n, const char *what, struct error *error);
int gguf_take_u32(struct gguf_source *source, uint32_t *value, const char *what, struct error *error);
int gguf_take_u64(struct gguf_source *source, uint64_t *value, const char *what, struct error *error);
int gguf_skip(struct gguf_source *source, uint64_t n, const char *what, struct error *error);

/* A string from the arena, with a NUL after it. *text is NULL if it has more than `max` bytes, is no UTF-8, or holds a
   NUL. EXIT_MEMORY. */
int gguf_take_string(struct gguf_source *source, struct arena *arena, uint64_t max, const char **text,
                     const char *what, struct error *error);

#endif
