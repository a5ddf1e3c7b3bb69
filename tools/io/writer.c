/* SPDX-License-Identifier: MIT */
/* Writes a tensor file in any format: creates it, writes the tensors' data in place, completes it. */
#include "config.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/file_safetensors.h"

/* The bytes after which the disk is asked to start writing: few enough to keep it busy while more is computed, more
   than a disk writes best at once. */
enum { SYNC_BYTES = 1 << 23 };

/* All tensors together have less than this: header and padding then stay below 2^63, what pwrite() can reach. */
#define DATA_BYTES_MAX (UINT64_C(1) << 62)

static int set_sizes(struct writer *writer, struct error *error)
{
	writer->data_bytes = 0;
	for (size_t i = 0; i < writer->n_tensors; i++) {
		struct tensor *tensor = &writer->tensors[i];

		if (!tensor_size(tensor, &tensor->size) || tensor->size > DATA_BYTES_MAX - writer->data_bytes)
			return fail_tensor(error, writer->path, tensor->name, "is too large or not whole bytes");
		writer->data_bytes += tensor->size;
	}
	return EXIT_OK;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct tensor *const *)a)->name, (*(const struct tensor *const *)b)->name);
}

static int sort_names(struct writer *writer, struct error *error)
{
	size_t n = writer->n_tensors;
	const struct tensor **names = calloc(n + 1, sizeof(const struct tensor *));

	if (names == NULL)
		return fail_memory(error);
	writer->by_name = names;
	for (size_t i = 0; i < n; i++)
		names[i] = &writer->tensors[i];
	qsort(names, n, sizeof *names, compare_names);
	for (size_t i = 1; i < n; i++)
		if (compare_names(&names[i - 1], &names[i]) == 0)
			return fail_tensor(error, writer->path, names[i]->name, "the output would hold it twice");
	return EXIT_OK;
}

/* Returns the length of the file up to the end of its tensors. */
static uint64_t length_of(const struct writer *writer)
{
	uint64_t end = 0;

	for (size_t i = 0; i < writer->n_tensors; i++)
		if (writer->tensors[i].offset + writer->tensors[i].size > end)
			end = writer->tensors[i].offset + writer->tensors[i].size;
	return writer->header_bytes + end;
}

/* Creates the file. Its length is set first: whatever a crash leaves has it, so reopen() refuses a foreign file. */
static int create(struct writer *writer, struct error *error)
{
	writer->fd = open(writer->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (writer->fd < 0)
		return fail_errno(error, writer->path, "cannot create");
	if (ftruncate(writer->fd, (off_t)length_of(writer)) != 0)
		return fail_errno(error, writer->path, "cannot write");
	return EXIT_OK;
}

static int reopen(struct writer *writer, struct error *error)
{
	struct stat status;

	writer->fd = open(writer->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (writer->fd < 0 || fstat(writer->fd, &status) != 0)
		return fail_errno(error, writer->path, "cannot open");
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size < length_of(writer))
		return fail(error, EXIT_INPUT, "%s: was changed since it was begun; --force starts over",
		            writer->path);
	return EXIT_OK;
}

int writer_open(struct writer *writer, struct error *error)
{
	writer->fd = -1;
	writer->written_bytes = 0;
	if (writer->format == NULL)
		writer->format = &file_safetensors;
	int code = set_sizes(writer, error);
	if (code == EXIT_OK)
		code = writer->format->lay_out(writer, error);
	if (code == EXIT_OK)
		code = sort_names(writer, error);
	if (code == EXIT_OK)
		code = writer->reopen ? reopen(writer, error) : create(writer, error);
	if (code != EXIT_OK)
		writer_abandon(writer);
	return code;
}

void writer_skip(struct writer *writer, uint64_t n)
{
	atomic_fetch_add(&writer->written_bytes, n);
}

const struct tensor *writer_find(const struct writer *writer, const char *name)
{
	const struct tensor key = {.name = name}, *pointer = &key;
	const struct tensor **found =
		bsearch(&pointer, writer->by_name, writer->n_tensors, sizeof pointer, compare_names);

	return found != NULL ? *found : NULL;
}

int writer_write(struct writer *writer, const struct tensor *tensor, uint64_t from, const void *bytes, size_t n,
                 struct error *error)
{
	assert(from <= tensor->size && n <= tensor->size - from);
	uint64_t at = writer->header_bytes + tensor->offset + from;
	int code = descriptor_write(writer->fd, writer->path, at, bytes, n, error);
	uint64_t before = atomic_fetch_add(&writer->written_bytes, n);
	if ((before + n) / SYNC_BYTES != before / SYNC_BYTES)
		descriptor_begin_sync(writer->fd);
	return code;
}

int writer_close(struct writer *writer, struct error *error)
{
	int code = EXIT_OK;

	if (writer->written_bytes != writer->data_bytes)
		code = fail(error, EXIT_IO, "%s: %" PRIu64 " of %" PRIu64 " bytes were written", writer->path,
		            writer->written_bytes, writer->data_bytes);
	if (code == EXIT_OK)
		code = writer->format->finish(writer, error);
	if (code == EXIT_OK) {
		code = descriptor_finish(writer->fd, writer->path, error);
		writer->fd = -1;
	}
	writer_abandon(writer);
	return code;
}

void writer_abandon(struct writer *writer)
{
	if (writer->fd >= 0)
		close(writer->fd);
	writer->fd = -1;
	free(writer->by_name);
	writer->by_name = NULL;
}
