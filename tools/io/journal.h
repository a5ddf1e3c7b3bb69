/* SPDX-License-Identifier: MIT */
/*
 * The journal of an output file says which of its tensors are on the disk, for `--resume`. A line of text is added for
 * each tensor once its data are synced: the tensor's number in the file, XXH3-128 of its source data and of what was written, the
 * counts of its elements, and XXH3-64 of all that. A line that is cut off or damaged says nothing; of several the last one counts.
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
	bool written; /* the journal has its line */
	XXH128_hash_t hash, output;
	struct mxfp_counts counts;
};

struct journal {
	const char *path;
	int fd;
	uint64_t bytes; /* of whole lines: where the next one goes */
};

/* Opens or creates a journal for a file of `n` tensors, and reads it into `records`, which are zeroed; changes nothing in it.
   EXIT_IO, EXIT_MEMORY, EXIT_USAGE (descriptor_open_own()). journal_close() follows in every case. */
int journal_open(struct journal *journal, const char *path, struct journal_record *records, size_t n,
                 struct error *error);

/* Adds a line for tensor `number`. EXIT_IO. */
int journal_add(struct journal *journal, size_t number, struct journal_record *record, struct error *error);

void journal_close(struct journal *journal);

#endif
