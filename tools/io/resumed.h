/* SPDX-License-Identifier: MIT */
/* A tensor file of an output that a later run can continue (partial.h): its items, each a tensor or several that are
   written together, are written one after the other, and those whose data are on the disk are in its journal. */
#ifndef TOOLS_IO_RESUMED_H
#define TOOLS_IO_RESUMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/journal.h"
#include "io/partial.h"
#include "io/transfer.h"

struct resumed {
	char *path, *journal_path;      /* of the file, for its writer */
	bool is_final;                  /* something is kept of a file of that name, which was deleted: this one is complete */
	struct journal journal;
	size_t n;                       /* items */
	struct journal_record *records; /* one an item */
	size_t n_journaled;             /* items before this one are in the journal */
	uint64_t unsynced_bytes;
};

struct resumed_job {
	/* Writes an item; fills in hash and counts of the record, if anybody wants them. */
	int (*write)(const void *context, size_t i, struct journal_record *record, struct error *error);
	/* The bytes that writing it reads, and those that it writes. */
	void (*sizes)(const void *context, size_t i, uint64_t *read, uint64_t *written);
	const void *context;
};

/* Opens the journal of a file of `n` items. EXIT_IO, EXIT_MEMORY, EXIT_INPUT. resumed_end() follows in every case. */
int resumed_begin(struct resumed *resumed, const struct partial *partial, const char *name, size_t n,
                  struct error *error);

/* Opens the transfer's writer, which has this path: continues the file if its journal has any lines; else replaces a file
   that is there. Then writes the items that the journal does not have. EXIT_IO, EXIT_INPUT, EXIT_MEMORY, codes of the
   job's function. The caller closes the writer. */
int resumed_write(struct resumed *resumed, struct transfer *transfer, const struct resumed_job *job,
                  struct error *error);

/* After the writer was closed: has the journal and both names of the file survive a crash, so that what the file was made of
   may go. EXIT_IO. */
int resumed_secure(const struct resumed *resumed, const struct partial *partial, struct error *error);

void resumed_end(struct resumed *resumed);

#endif
