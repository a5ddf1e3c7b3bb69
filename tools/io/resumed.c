/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/resumed.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/descriptor.h"

/* The bytes of output between writes of the journal: many enough to make waiting for the disk cheap, few enough to lose
   little work. */
enum { SYNC_BYTES = 1 << 26 };

int resumed_begin(struct resumed *resumed, const struct partial *partial, const char *name, size_t n,
                  struct error *error)
{
	*resumed = (struct resumed){
		.path = partial_file(partial, name),
		.journal_path = partial_journal(partial, name),
		.journal.fd = -1,
		.n = n,
		.records = calloc(n + 1, sizeof *resumed->records),
	};
	char *kept = partial_kept(partial, name);
	resumed->is_final = kept != NULL && access(kept, F_OK) == 0;
	free(kept);
	if (kept == NULL || resumed->path == NULL || resumed->journal_path == NULL || resumed->records == NULL)
		return fail_memory(error);
	return journal_open(&resumed->journal, resumed->journal_path, resumed->records, n, error);
}

static int open_writer(const struct resumed *resumed, struct writer *writer, struct error *error)
{
	writer->reopen = resumed->journal.bytes > 0;
	if (!writer->reopen && resumed->is_final)
		return fail(error, EXIT_INPUT, "%s: has lost what it said of a file that is complete, and whose source is deleted; the file is %s",
		            resumed->journal_path, resumed->path);
	if (!writer->reopen && unlink(resumed->path) != 0 && errno != ENOENT)
		return fail_errno(error, resumed->path, "cannot replace");
	return writer_open(writer, error);
}

/* Puts the items before `end` into the journal, after their data are on the disk. */
static int write_journal(struct resumed *resumed, const struct writer *writer, size_t end, struct error *error)
{
	int code = descriptor_sync(writer->fd, resumed->path, error);

	for (; resumed->n_journaled < end && code == EXIT_OK; resumed->n_journaled++)
		if (!resumed->records[resumed->n_journaled].written)
			code = journal_add(&resumed->journal, resumed->n_journaled,
			                   &resumed->records[resumed->n_journaled], error);
	resumed->unsynced_bytes = 0;
	return code;
}

int resumed_write(struct resumed *resumed, struct transfer *transfer, const struct resumed_job *job,
                  struct error *error)
{
	int code = open_writer(resumed, &transfer->writer, error);

	for (size_t i = 0; i < resumed->n && code == EXIT_OK; i++) {
		uint64_t read, written;

		job->sizes(job->context, i, &read, &written);
		if (resumed->records[i].written) {
			transfer->progress.total -= read;
			writer_skip(&transfer->writer, written);
			continue;
		}
		code = job->write(job->context, i, &resumed->records[i], error);
		resumed->unsynced_bytes += written;
		if (code == EXIT_OK && resumed->unsynced_bytes >= SYNC_BYTES)
			code = write_journal(resumed, &transfer->writer, i + 1, error);
	}
	return code != EXIT_OK ? code : write_journal(resumed, &transfer->writer, resumed->n, error);
}

int resumed_secure(const struct resumed *resumed, const struct partial *partial, struct error *error)
{
	const int code = descriptor_sync(resumed->journal.fd, resumed->journal_path, error);

	return code == EXIT_OK ? partial_sync(partial, error) : code;
}

void resumed_end(struct resumed *resumed)
{
	journal_close(&resumed->journal);
	free(resumed->records);
	free(resumed->journal_path);
	free(resumed->path);
}
