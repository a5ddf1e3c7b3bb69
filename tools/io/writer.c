/* SPDX-License-Identifier: MIT */
/* Writes a tensor file in any format: creates it, writes the tensors' data in place, completes it. */
#include "config.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

static uint64_t end_of(const struct tensor *tensor)
{
	return tensor->offset + tensor->size;
}

uint64_t writer_length(const struct writer *writer)
{
	const uint64_t alignment = writer->alignment > 0 ? writer->alignment : 1;
	uint64_t end = 0;

	for (size_t i = 0; i < writer->n_tensors; i++)
		if (end_of(&writer->tensors[i]) > end)
			end = end_of(&writer->tensors[i]);
	return writer->header_bytes + (end + alignment - 1) / alignment * alignment;
}

static int set_length(const struct writer *writer, struct error *error)
{
	return ftruncate(writer->fd, (off_t)writer_length(writer)) == 0 ? EXIT_OK : fail_errno(error, writer->path, "cannot write");
}

/* Creates the file. Its length is set first: a full disk is told of early where the file system can tell. */
static int create(struct writer *writer, struct error *error)
{
	writer->fd = open(writer->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (writer->fd < 0)
		return fail_errno(error, writer->path, "cannot create");
	return set_length(writer, error);
}

int writer_restore(struct writer *writer, struct error *error)
{
	static const unsigned char zeros[1 << 12];
	const uint64_t length = writer_length(writer);
	int code = set_length(writer, error);

	/* Tensors are in the order of their data. */
	for (size_t i = 0; i < writer->n_tensors; i++) {
		const uint64_t next = i + 1 < writer->n_tensors ? writer->header_bytes + writer->tensors[i + 1].offset : length;

		for (uint64_t at = writer->header_bytes + end_of(&writer->tensors[i]), n; at < next && code == EXIT_OK; at += n) {
			n = next - at < sizeof zeros ? next - at : sizeof zeros;
			code = descriptor_write(writer->fd, writer->path, at, zeros, (size_t)n, error);
		}
	}
	return code;
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
		code = writer->reopen ? descriptor_open_own(writer->path, O_RDWR, &writer->fd, error) : create(writer, error);
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
