/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/resumed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/content.h"
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
	if (resumed->path == NULL || resumed->journal_path == NULL || resumed->records == NULL)
		return fail_memory(error);
	return journal_open(&resumed->journal, resumed->journal_path, resumed->records, n, error);
}

/* What resumed_write() works on. */
struct resuming {
	struct resumed *resumed;
	struct transfer *transfer;
	const struct resumed_job *job;
};

static size_t end_of(const struct resuming *r, size_t i)
{
	return r->job->ends == NULL ? i : r->job->ends(r->job->context, i);
}

static const char *lacks(const struct resuming *r, size_t i)
{
	return r->job->lacks == NULL ? NULL : r->job->lacks(r->job->context, i);
}

/* Hashes what an item wrote. */
static int hash_output(const struct resuming *r, size_t i, XXH128_hash_t *hash, struct error *error)
{
	const struct writer *writer = &r->transfer->writer;
	const char *name;
	size_t n = 0;

	while (r->job->output(r->job->context, i, n, &name))
		n++;
	struct content_range *ranges = malloc((n + 1) * sizeof *ranges);
	if (ranges == NULL)
		return fail_memory(error);
	for (size_t k = 0; r->job->output(r->job->context, i, k, &name); k++) {
		const struct tensor *tensor = name == NULL ? NULL : writer_find(writer, name);

		ranges[k] = (struct content_range){0};
		if (tensor != NULL)
			ranges[k] = (struct content_range){writer->header_bytes + tensor->offset, tensor->size};
	}
	const int code = content_hash_descriptor(hash, writer->fd, writer->path, ranges, n, r->transfer->threads, error);
	free(ranges);
	return code;
}

static const char lost[] = "has lost what it said of a file";

/* Which items are to be made again. */
enum again { AGAIN_ALL, AGAIN_UNWRITTEN };

/* Refuses to go on if one of them cannot be. */
static int check_sources(const struct resuming *r, enum again again, const char *path, const char *what, struct error *error)
{
	for (size_t i = 0; i < r->resumed->n; i++) {
		const char *source = again == AGAIN_ALL || !r->resumed->records[i].written ? lacks(r, i) : NULL;

		if (source != NULL)
			return fail(error, EXIT_INPUT, "%s: %s, and %s, from which it was made, is deleted; put either back as it was", path, what,
			            source);
	}
	return EXIT_OK;
}

/* Has items written anew whose tensors are not what the journal says, or not whole. */
static int check_items(const struct resuming *r, struct error *error)
{
	struct journal_record *records = r->resumed->records;
	int code = EXIT_OK;

	for (size_t i = 0; i < r->resumed->n && code == EXIT_OK; i++) {
		const char *name = NULL;
		char what[256];
		XXH128_hash_t hash;

		if (!records[i].written || end_of(r, i) != i)
			continue;
		code = hash_output(r, i, &hash, error);
		if (code != EXIT_OK || XXH128_isEqual(hash, records[i].output))
			continue;
		for (size_t k = 0; name == NULL && r->job->output(r->job->context, i, k, &name);)
			k++;
		snprintf(what, sizeof what, "'%.200s' is not what was written", name == NULL ? "" : name);
		records[i].written = false;
		code = check_sources(r, AGAIN_UNWRITTEN, r->resumed->path, what, error);
	}
	for (size_t i = 0; i < r->resumed->n; i++)
		records[i].written &= records[end_of(r, i)].written;
	return code == EXIT_OK ? check_sources(r, AGAIN_UNWRITTEN, r->resumed->path, "is not what was written", error) : code;
}

/* Looks at what an earlier run left, whose file is open. */
static int check_left(const struct resuming *r, struct error *error)
{
	struct writer *writer = &r->transfer->writer;
	const uint64_t length = writer_length(writer);
	struct stat status;
	char what[96];
	int code = EXIT_OK;

	if (fstat(writer->fd, &status) != 0)
		return fail_errno(error, writer->path, "cannot read");
	snprintf(what, sizeof what, "has %llu bytes, and not %llu", (unsigned long long)status.st_size, (unsigned long long)length);
	if ((uint64_t)status.st_size != length)
		code = check_sources(r, AGAIN_ALL, writer->path, what, error);
	if (code == EXIT_OK)
		code = check_sources(r, AGAIN_UNWRITTEN, r->resumed->journal_path, lost, error);
	if (code == EXIT_OK)
		code = writer_restore(writer, error);
	return code == EXIT_OK ? check_items(r, error) : code;
}

static int open_writer(const struct resuming *r, struct error *error)
{
	const struct resumed *resumed = r->resumed;
	struct writer *writer = &r->transfer->writer;
	struct stat status;
	const bool is_there = lstat(resumed->path, &status) == 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < resumed->n; i++)
		writer->reopen |= resumed->records[i].written && is_there;
	for (size_t i = 0; i < resumed->n && !writer->reopen; i++)
		resumed->records[i].written = false;
	if (!writer->reopen)
		code = check_sources(r, AGAIN_ALL, is_there ? resumed->journal_path : resumed->path, is_there ? lost : "is missing", error);
	if (code == EXIT_OK && !writer->reopen && unlink(resumed->path) != 0 && errno != ENOENT)
		code = fail_errno(error, resumed->path, "cannot replace");
	if (code == EXIT_OK)
		code = writer_open(writer, error);
	return code == EXIT_OK && writer->reopen ? check_left(r, error) : code;
}

/* Puts the items before `end` into the journal, after their data are on the disk. They are hashed while it writes. */
static int write_journal(const struct resuming *r, size_t end, struct error *error)
{
	struct resumed *resumed = r->resumed;
	const struct writer *writer = &r->transfer->writer;
	int code = EXIT_OK;

	descriptor_begin_sync(writer->fd);
	for (size_t i = resumed->n_journaled; i < end && code == EXIT_OK; i++)
		if (!resumed->records[i].written)
			code = hash_output(r, i, &resumed->records[i].output, error);
	if (code == EXIT_OK)
		code = descriptor_sync(writer->fd, resumed->path, error);
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
	const struct resuming r = {resumed, transfer, job};
	int code = open_writer(&r, error);

	for (size_t i = 0; i < resumed->n && code == EXIT_OK; i++) {
		uint64_t read, written;

		job->sizes(job->context, i, &read, &written);
		if (resumed->records[i].written) {
			transfer->progress.total -= read;
			writer_skip(&transfer->writer, written);
			continue;
		}
		resumed->records[i] = (struct journal_record){0};
		code = job->write(job->context, i, &resumed->records[i], error);
		resumed->unsynced_bytes += written;
		if (code == EXIT_OK && resumed->unsynced_bytes >= SYNC_BYTES)
			code = write_journal(&r, i + 1, error);
	}
	return code != EXIT_OK ? code : write_journal(&r, resumed->n, error);
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
