/* SPDX-License-Identifier: MIT */
/*
 * Logits of a base model, beside which others are scored: a temporary file in $TMPDIR (or /tmp) that no name is left of,
 * which may be saved, and saved ones. A saved file is little-endian:
 *
 *   bytes 0 to 7    "MXFPLOGI"
 *   bytes 8 to 15   1, the version
 *   bytes 16 to 23  numbers in a row: the vocabulary
 *   bytes 24 to 31  rows: predictions
 *   bytes 32 to 39  a hash of the tokens, windows and what is skipped, by which rows and predictions are known to agree
 *   bytes 40 to 63  0
 *   then            the rows, binary32
 */
#ifndef TOOLS_EVAL_LOGITS_FILE_H
#define TOOLS_EVAL_LOGITS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* What the rows are of. */
struct logits_kind {
	uint64_t vocabulary, rows, hash;
};

struct logits_file {
	struct logits_kind kind;
	const char *path; /* for errors */
	bool open;
	int fd;
};

/* Whether a path is a file that begins as saved logits do; false if it cannot be read. */
bool logits_is_file(const char *path);

/* Opens a saved file, whose rows must be of that kind: EXIT_INPUT, saying what is different. The path must stay. EXIT_IO.
   logits_close() follows in any case. */
int logits_open(struct logits_file *file, const char *path, const struct logits_kind *kind, struct error *error);

/* Creates a temporary file for rows of that kind, whose numbers are 0, if there is room for it, and for saving it as `save`,
   unless that is NULL. EXIT_IO, EXIT_MEMORY. logits_close() follows in any case. */
int logits_create(struct logits_file *file, const struct logits_kind *kind, const char *save, struct error *error);

/* Read and write rows `row` to row + n - 1. Writing changes the numbers in memory on big-endian machines. EXIT_IO. */
int logits_read(const struct logits_file *file, uint64_t row, size_t n, float *logits, struct error *error);
int logits_write(const struct logits_file *file, uint64_t row, size_t n, float *logits, struct error *error);

/* Writes all of it to a new file `path`, the temporary name of an output (io/output.h), and syncs it. EXIT_IO,
   EXIT_MEMORY, signals. */
int logits_save(const struct logits_file *file, const char *path, struct error *error);

void logits_close(struct logits_file *file);

#endif
