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
	/* The name of the k-th tensor that it writes, or completes, of which there may be none (NULL); false: there is no k-th. */
	bool (*output)(const void *context, size_t i, size_t k, const char **name);
	/* The item with which what it writes is complete, a later one if several write a tensor; NULL: itself. */
	size_t (*ends)(const void *context, size_t i);
	/* A file that it would be made from, and that is deleted, or NULL; no function: there is none. */
	const char *(*lacks)(const void *context, size_t i);
	const void *context;
};

/* Opens the journal of a file of `n` items. EXIT_IO, EXIT_MEMORY, EXIT_INPUT. resumed_end() follows in every case. */
int resumed_begin(struct resumed *resumed, const struct partial *partial, const char *name, size_t n,
                  struct error *error);

/* Opens the transfer's writer, which has this path: continues the file if its journal has any lines; else replaces a file
   that is there. Looks at what the journal says that it holds. Then writes the other items: those that the journal does not have, or that
   are not what was written then. If one of these lacks a file, changes nothing: EXIT_INPUT. EXIT_IO, EXIT_MEMORY, EXIT_USAGE, codes of
   the job's function. The caller closes the writer. */
int resumed_write(struct resumed *resumed, struct transfer *transfer, const struct resumed_job *job,
                  struct error *error);

/* After the writer was closed: has the journal and both names of the file survive a crash, so that what the file was made of
   may go. EXIT_IO. */
int resumed_secure(const struct resumed *resumed, const struct partial *partial, struct error *error);

void resumed_end(struct resumed *resumed);

#endif
