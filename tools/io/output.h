/* SPDX-License-Identifier: MIT */
/*
 * Output that appears whole or not at all. A file or directory is built under a temporary name beside its final one,
 * synced, and renamed. Until then whatever had the final name is intact, and after a failure or a signal nothing
 * partial is left.
 */
#ifndef TOOLS_IO_OUTPUT_H
#define TOOLS_IO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct output {
	char *path;        /* final name, without slashes at its end; the output's own copy */
	char *temporary;   /* name while it is built; a directory exists already, a file must be created with O_EXCL */
	bool is_directory;
	bool force;
	bool holds;        /* whether it holds signals, until it is committed or abandoned */
};

/*
 * Starts an output file or directory. The final name may exist only with `force`, and then must be a regular file, or
 * a directory that holds only what mxfp writes (directory_check_ours()), which is checked here and again at the end;
 * else EXIT_USAGE with the remedy. EXIT_IO, EXIT_MEMORY. Signals (interrupt.h) are held from here on for a directory,
 * and from output_build() on for a file; computing before that can be stopped at any moment.
 */
int output_begin_file(struct output *output, const char *path, bool force, struct error *error);
int output_begin_directory(struct output *output, const char *path, bool force, struct error *error);

/* Sets the final name of an output that is built under the caller's own temporary name (partial.h); all fields except
   the names are set. EXIT_USAGE, EXIT_MEMORY. */
int output_set_path(struct output *output, const char *path, struct error *error);

/* Refuses, even with `force`, a final name with the device and inode of an input, however spelled or linked.
   EXIT_USAGE. */
int output_check_apart(const char *path, const char *input, struct error *error);

/* Returns the temporary name, under which the caller creates the output. Holds signals. */
const char *output_build(struct output *output);

/* Returns the malloc'ed path of a file in an output directory being built, or NULL if memory ran out. */
char *output_member(const struct output *output, const char *name);

/* Writes `n` bytes to a new file `path` and syncs it. EXIT_IO. */
int output_write_file(const char *path, const void *bytes, size_t n, struct error *error);

/* Whether two outputs, both begun, have the same final name, however spelled. */
bool output_same_name(const struct output *a, const struct output *b);

/* Fails as output_commit() would, for a signal or because the final name has been taken meanwhile. Called for every
   output of a set before the first is committed. EXIT_USAGE, EXIT_IO, signals. */
int output_check_commit(const struct output *output, struct error *error);

/* Fails as interrupt_check() does if a signal is held. Else syncs the directory and gives the output its final name,
   atomically replacing what had it. */
int output_commit(struct output *output, struct error *error);

/* Removes what was built, unless it was committed, and releases the struct, which may be zeroed. Always called
   last. */
void output_abandon(struct output *output);

#endif
