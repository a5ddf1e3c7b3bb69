/* SPDX-License-Identifier: MIT */
/*
 * The journal of an output file, which says what of it is on the disk: a line of text for each tensor, added once its
 * data are beyond a crash. A line says the tensor's number in the file, XXH3-128 of its source data, what happened to its elements, and XXH3-64 of all
 * that; the first line that is not whole and right ends the journal.
 */
#ifndef TOOLS_IO_JOURNAL_H
#define TOOLS_IO_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xxhash.h>

#include "base/error.h"
#include "mxfp/options.h"

struct journal_record {
	bool written; /* stands in the journal */
	XXH128_hash_t hash;
	struct mxfp_counts counts;
};

struct journal {
	const char *path;
	int fd;
	uint64_t bytes; /* that are right */
};

/* Opens a journal, or makes one, for a file of `n` tensors, and reads it into `records`, which are zeroed. What follows
   a line that is not right is cut off. EXIT_IO, EXIT_MEMORY, EXIT_INPUT (too long for that many tensors).
   journal_close() follows in every case. */
int journal_open(struct journal *journal, const char *path, struct journal_record *records, size_t n,
                 struct error *error);

/* Adds a line for tensor `number`. EXIT_IO. */
int journal_add(struct journal *journal, size_t number, struct journal_record *record, struct error *error);

void journal_close(struct journal *journal);

#endif
