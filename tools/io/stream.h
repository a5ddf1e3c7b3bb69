/* SPDX-License-Identifier: MIT */
/* Reads and writes raw bytes of any length: a file, or standard input and output. */
#ifndef TOOLS_IO_STREAM_H
#define TOOLS_IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/output.h"

struct source {
	const char *name;  /* for messages */
	int fd;
	bool seekable;     /* a regular file, which can be read twice */
	uint64_t size;     /* of a regular file, from where reading starts; else 0 */
};

/* Opens a file, or standard input for "-" or NULL. A file of tensors is refused: EXIT_INPUT. EXIT_IO. */
int source_open(struct source *source, const char *path, struct error *error);

/* Reads what is available, at most `size` bytes; *n is 0 only at the end. EXIT_IO; EXIT_SIGNAL. */
int source_read(const struct source *source, void *buffer, size_t size, size_t *n, struct error *error);

/* Reads `size` bytes, or up to the end; *n tells how many. EXIT_IO; EXIT_SIGNAL. */
int source_fill(const struct source *source, void *buffer, size_t size, size_t *n, struct error *error);

/* Goes back to the start of a seekable source. EXIT_IO. */
int source_rewind(const struct source *source, struct error *error);

/* Refuses a sink that is the source's file. EXIT_USAGE. */
int source_check_apart(const struct source *source, const char *sink, struct error *error);

void source_close(struct source *source);

struct sink {
	const char *name;
	int fd;
	struct output output; /* zeroed for standard output */
};

/* Starts a file, which appears at sink_commit(), or standard output for "-" or NULL, unless that is a terminal.
   EXIT_USAGE, EXIT_IO, EXIT_MEMORY. */
int sink_open(struct sink *sink, const char *path, bool force, struct error *error);

/* EXIT_IO; EXIT_SIGNAL. */
int sink_write(const struct sink *sink, const void *bytes, size_t n, struct error *error);

/* Gives a file its name. EXIT_IO. */
int sink_commit(struct sink *sink, struct error *error);

/* Gives two files their names, or neither if one of the names is taken. EXIT_USAGE, EXIT_IO; EXIT_SIGNAL. */
int sink_commit_pair(struct sink sinks[2], struct error *error);

/* Removes a file that was not committed, and releases what sink_open() took; does nothing if that was never called and
   fd is -1. */
void sink_end(struct sink *sink);

#endif
