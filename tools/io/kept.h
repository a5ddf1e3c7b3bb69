/* SPDX-License-Identifier: MIT */
/*
 * What is kept of a file that is deleted once all of it has been read: the bytes that a later run reads again before its work
 * begins, such as the header, with the size and the time of the last change of the whole. A text says which:
 *
 *   mxfp.kept 1 SIZE SECONDS NANOSECONDS N HASH
 *   FROM BYTES          N lines, in the order of the file
 *   CHECK
 *
 * and the bytes follow. HASH is XXH3-64 of these, CHECK of the lines before it.
 */
#ifndef TOOLS_IO_KEPT_H
#define TOOLS_IO_KEPT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

#define KEPT_SUFFIX ".kept"

struct kept_range {
	uint64_t from, n;
	uint64_t at; /* of its first byte in the file of what is kept */
};

struct kept {
	size_t n;
	struct kept_range *ranges; /* in order, and apart */
	uint64_t size;
	struct timespec changed;
};

/* Adds bytes that were read. EXIT_MEMORY. */
int kept_add(struct kept *kept, uint64_t from, uint64_t n, struct error *error);

/* Sorts the ranges and joins those that touch. */
void kept_sort(struct kept *kept);

/* Writes what is kept of the open file `fd`, named `path`, over what stands at `to`, and syncs it. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int kept_write(struct kept *kept, int fd, const char *path, const char *to, struct error *error);

/* Reads the text of the open file `fd`, named `path`, and checks all of it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY; kept_free() follows
   in every case. */
int kept_read(struct kept *kept, int fd, const char *path, struct error *error);

/* Finds where `n` bytes from `from` on are in that file. EXIT_INPUT: not all of them are kept of the file `name`. */
int kept_find(const struct kept *kept, uint64_t from, size_t n, const char *name, uint64_t *at, struct error *error);

void kept_free(struct kept *kept);

#endif
