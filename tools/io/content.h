/* SPDX-License-Identifier: MIT */
/* A hash of what is in files, by all threads: XXH3-128 of those of its pieces of 128 KiB, in their order. */
#ifndef TOOLS_IO_CONTENT_H
#define TOOLS_IO_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#include <xxhash.h>

#include "base/error.h"

struct content_range {
	uint64_t from, n; /* bytes */
};

/* Ranges that follow each other, and how they are read, by several threads at once. */
struct content {
	int (*read)(const void *context, uint64_t at, void *bytes, size_t n, struct error *error);
	const void *context;
	size_t n;
	const struct content_range *ranges;
};

/* By at most `threads`, 0: one a processor. EXIT_MEMORY, EXIT_IO, codes of read(), of the first piece that fails. */
int content_hash(XXH128_hash_t *hash, const struct content *content, unsigned threads, struct error *error);

/* The same for ranges of an open file. */
int content_hash_descriptor(XXH128_hash_t *hash, int fd, const char *path, const struct content_range *ranges, size_t n, unsigned threads,
                            struct error *error);

#endif
