/* SPDX-License-Identifier: MIT */
/*
 * Writer of safetensors files, whose layout file_safetensors.c describes. The same tensors and metadata give the
 * same bytes: those of the format's reference writer, which puts the metadata first, sorts the tensors by falling
 * place of their dtype in dtype.def, then by name, writes JSON without white space, and pads the header so that the
 * data begin at a multiple of 8.
 */
#include "config.h"

#include "file_safetensors.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptor.h"
#include "json.h"

/* After how many bytes the disk is given work: few enough to keep it at work while more is computed, more than a disk
   writes best at once. */
enum { SYNC_BYTES = 1 << 23 };

/* Text that grows; `failed` is the exit code of what went wrong first. */
struct text {
	char *bytes;
	size_t n, capacity;
	int failed;
};

static void append(struct text *text, const char *bytes, size_t n)
{
	if (text->failed != EXIT_OK)
		return;
	if (n > text->capacity - text->n) {
		size_t capacity = 2 * (text->n + n);
		char *moved = realloc(text->bytes, capacity);

		if (moved == NULL) {
			text->failed = EXIT_MEMORY;
			return;
		}
		text->bytes = moved;
		text->capacity = capacity;
	}
	memcpy(text->bytes + text->n, bytes, n);
	text->n += n;
}

static void append_text(struct text *text, const char *string)
{
	append(text, string, strlen(string));
}

static void append_number(struct text *text, uint64_t number)
{
	char digits[24];

	append(text, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number));
}

/* Appends a JSON string. */
static void append_string(struct text *text, const char *string)
{
	json_prepare();
	json_t *value = json_string(string);
	char *quoted = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY);

	if (json_out_of_memory())
		text->failed = EXIT_MEMORY;
	else if (quoted == NULL)
		text->failed = EXIT_INPUT; /* not UTF-8 */
	else
		append_text(text, quoted);
	json_release(quoted);
	json_decref(value);
}

static void append_metadata(struct text *text, const struct writer *writer)
{
	append_text(text, "\"" SAFETENSORS_METADATA "\":{");
	for (size_t i = 0; i < writer->n_metadata; i++) {
		append_text(text, i == 0 ? "" : ",");
		append_string(text, writer->metadata[i].key);
		append_text(text, ":");
		append_string(text, writer->metadata[i].value);
	}
	append_text(text, "}");
}

static void append_tensor(struct text *text, const struct tensor *tensor)
{
	append_string(text, tensor->name);
	append_text(text, ":{\"dtype\":\"");
	append_text(text, dtype_info(tensor->dtype)->name);
	append_text(text, "\",\"shape\":[");
	for (unsigned i = 0; i < tensor->rank; i++) {
		append_text(text, i == 0 ? "" : ",");
		append_number(text, tensor->shape[i]);
	}
	append_text(text, "],\"data_offsets\":[");
	append_number(text, tensor->offset);
	append_text(text, ",");
	append_number(text, tensor->offset + tensor->size);
	append_text(text, "]}");
}

/* The header with its length before it, not yet padded. The caller frees the text's bytes, failed or not. */
static int format_header(const struct writer *writer, struct text *text, struct error *error)
{
	static const char length[SAFETENSORS_LENGTH_BYTES];

	append(text, length, sizeof length);
	append_text(text, "{");
	if (writer->n_metadata > 0)
		append_metadata(text, writer);
	for (size_t i = 0; i < writer->n_tensors; i++) {
		append_text(text, i == 0 && writer->n_metadata == 0 ? "" : ",");
		append_tensor(text, &writer->tensors[i]);
	}
	append_text(text, "}");
	if (text->failed == EXIT_MEMORY)
		return fail_memory(error);
	if (text->failed != EXIT_OK)
		return fail(error, EXIT_INPUT, "%s: a name or a metadata value is not UTF-8", writer->path);
	return EXIT_OK;
}

static int compare_order(const void *a, const void *b)
{
	const struct tensor *left = a, *right = b;

	if (left->dtype != right->dtype)
		return left->dtype > right->dtype ? -1 : 1;
	return strcmp(left->name, right->name);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct tensor *const *)a)->name, (*(const struct tensor *const *)b)->name);
}

static int check_names(const struct writer *writer, struct error *error)
{
	size_t n = writer->n_tensors;
	const struct tensor **names = calloc(n + 1, sizeof(const struct tensor *));
	int code = EXIT_OK;

	if (names == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++)
		names[i] = &writer->tensors[i];
	qsort(names, n, sizeof *names, compare_names);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (strcmp(names[i]->name, SAFETENSORS_METADATA) == 0 ||
		    (i > 0 && compare_names(&names[i - 1], &names[i]) == 0))
			code = fail_tensor(error, writer->path, names[i]->name, "the output would hold it twice");
	free(names);
	return code;
}

/* Offsets and sizes; the last offset stays below 2^63, what pwrite() can reach. */
static int lay_out(struct writer *writer, struct error *error)
{
	writer->data_bytes = 0;
	for (size_t i = 0; i < writer->n_tensors; i++) {
		struct tensor *tensor = &writer->tensors[i];

		if (!tensor_size(tensor, &tensor->size) ||
		    tensor->size > INT64_MAX - 2 * (uint64_t)SAFETENSORS_HEADER_MAX - writer->data_bytes)
			return fail_tensor(error, writer->path, tensor->name, "is too large or no whole bytes");
		tensor->offset = writer->data_bytes;
		writer->data_bytes += tensor->size;
	}
	return EXIT_OK;
}

static uint64_t align(uint64_t bytes)
{
	return (bytes + SAFETENSORS_ALIGNMENT - 1) / SAFETENSORS_ALIGNMENT * SAFETENSORS_ALIGNMENT;
}

int writer_open(struct writer *writer, struct error *error)
{
	struct text text = {0};

	writer->fd = -1;
	writer->written_bytes = 0;
	if (writer->n_tensors > 0)
		qsort(writer->tensors, writer->n_tensors, sizeof *writer->tensors, compare_order);
	int code = check_names(writer, error);
	if (code == EXIT_OK)
		code = lay_out(writer, error);
	if (code == EXIT_OK)
		code = format_header(writer, &text, error);
	free(text.bytes);
	if (code != EXIT_OK)
		return code;
	writer->header_bytes = align(text.n);
	if (writer->header_bytes > SAFETENSORS_LENGTH_BYTES + SAFETENSORS_HEADER_MAX)
		return fail(error, EXIT_INPUT, "%s: the header would have more than the 100,000,000 bytes allowed",
		            writer->path);
	writer->fd = open(writer->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return writer->fd < 0 ? fail_errno(error, writer->path, "cannot create") : EXIT_OK;
}

const struct tensor *writer_find(const struct writer *writer, enum dtype dtype, const char *name)
{
	const struct tensor key = {.name = name, .dtype = dtype};

	if (writer->n_tensors == 0)
		return NULL;
	return bsearch(&key, writer->tensors, writer->n_tensors, sizeof *writer->tensors, compare_order);
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

static int write_header(struct writer *writer, struct error *error)
{
	struct text text = {0};
	int code = format_header(writer, &text, error);

	if (code == EXIT_OK) {
		assert(text.n <= writer->header_bytes);
		while (text.n < writer->header_bytes)
			append_text(&text, " ");
		code = text.failed != EXIT_OK ? fail_memory(error) : EXIT_OK;
	}
	if (code == EXIT_OK) {
		for (unsigned i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
			text.bytes[i] = (char)((writer->header_bytes - SAFETENSORS_LENGTH_BYTES) >> 8 * i);
		code = descriptor_write(writer->fd, writer->path, 0, text.bytes, text.n, error);
	}
	free(text.bytes);
	return code;
}

int writer_close(struct writer *writer, struct error *error)
{
	int code = EXIT_OK;

	if (writer->written_bytes != writer->data_bytes)
		code = fail(error, EXIT_IO, "%s: %" PRIu64 " of %" PRIu64 " bytes were written", writer->path,
		            writer->written_bytes, writer->data_bytes);
	if (code == EXIT_OK)
		code = write_header(writer, error);
	if (code == EXIT_OK)
		code = descriptor_finish(writer->fd, writer->path, error);
	else
		close(writer->fd);
	writer->fd = -1;
	return code;
}

void writer_abandon(struct writer *writer)
{
	if (writer->fd >= 0)
		close(writer->fd);
	writer->fd = -1;
}
