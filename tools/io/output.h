/* SPDX-License-Identifier: MIT */
/*
 * Output that appears whole or not at all. A file or directory is built under a temporary name beside its final
 * one, synced, and renamed; until then what stood there is intact, and after a failure or a signal nothing partial
 * is left.
 */
#ifndef TOOLS_IO_OUTPUT_H
#define TOOLS_IO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct output {
	char *path;        /* final name, without slashes at its end; the output's own copy */
	char *temporary;   /* name of what is being built: a directory exists, a file is to be created with O_EXCL */
	bool is_directory;
	bool force;
	bool holds;        /* signals, until it is committed or abandoned */
};

/*
 * Starts an output file or directory. The final name may exist only with `force`, and then must be a regular file,
 * or a directory holding nothing but what mxfp writes (directory_check_ours()), which is checked
 * here and again at the end; else EXIT_USAGE with the remedy. EXIT_IO, EXIT_MEMORY. A directory holds signals
 * (interrupt.h) from here on, a file from output_build() on: what is computed before may be stopped at any moment.
 */
int output_begin_file(struct output *output, const char *path, bool force, struct error *error);
int output_begin_directory(struct output *output, const char *path, bool force, struct error *error);

/* For who builds under a temporary name of his own (partial.h): sets the final name of an output whose other fields are
   set but for the names. EXIT_USAGE, EXIT_MEMORY. */
int output_set_path(struct output *output, const char *path, struct error *error);

/* Refuses, even with `force`, a final name that leads to an input, by whatever spelling or link: the same device and
   inode. EXIT_USAGE. */
int output_check_apart(const char *path, const char *input, struct error *error);

/* The temporary name, under which the output is going to be created. */
const char *output_build(struct output *output);

/* malloc'ed path of a file inside an output directory being built, or NULL if memory ran out. */
char *output_member(const struct output *output, const char *name);

/* Writes `n` bytes as a new file `path` and syncs it. EXIT_IO. */
int output_write_file(const char *path, const void *bytes, size_t n, struct error *error);

/* Whether two outputs, both begun, have one final name, perhaps spelled differently. */
bool output_same_name(const struct output *a, const struct output *b);

/* Fails as output_commit() would for a signal, or because the final name cannot be taken any more: to be asked of
   every output of a set before the first is committed. EXIT_USAGE, EXIT_IO, signals. */
int output_check_commit(const struct output *output, struct error *error);

/* After a signal fails as interrupt_check() does. Else syncs the directory and gives the output its final name,
   replacing what stood there in one step. */
int output_commit(struct output *output, struct error *error);

/* Removes what was built, unless it was committed, and releases the struct, which may be zeroed. Always called
   last. */
void output_abandon(struct output *output);

#endif
