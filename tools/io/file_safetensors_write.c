/* SPDX-License-Identifier: MIT */
/*
 * Writer of safetensors files, whose layout file_safetensors.c describes. The same tensors and metadata give the
 * same bytes: those of the format's reference writer, which puts the metadata first, sorts the tensors by falling
 * place of their dtype in dtype.def, then by name, writes JSON without white space, and pads the header so that the
 * data begin at a multiple of 8.
 */
#include "config.h"

#include "io/file_safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/descriptor.h"
#include "io/json.h"

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

static uint64_t align(uint64_t bytes)
{
	return (bytes + SAFETENSORS_ALIGNMENT - 1) / SAFETENSORS_ALIGNMENT * SAFETENSORS_ALIGNMENT;
}

int safetensors_lay_out(struct writer *writer, struct error *error)
{
	struct text text = {0};
	uint64_t end = 0;

	if (writer->n_tensors > 0)
		qsort(writer->tensors, writer->n_tensors, sizeof *writer->tensors, compare_order);
	for (size_t i = 0; i < writer->n_tensors; i++) {
		struct tensor *tensor = &writer->tensors[i];

		if (!safetensors_holds(tensor->dtype))
			return fail_tensor(error, writer->path, tensor->name, "dtype %s cannot stand in a safetensors "
			                   "file / give the output a name that ends in .gguf",
			                   dtype_info(tensor->dtype)->name);
		if (strcmp(tensor->name, SAFETENSORS_METADATA) == 0)
			return fail_tensor(error, writer->path, tensor->name, "no tensor of a safetensors file can have "
			                   "this name");
		tensor->offset = end;
		end += tensor->size;
	}
	int code = format_header(writer, &text, error);
	free(text.bytes);
	if (code != EXIT_OK)
		return code;
	writer->header_bytes = align(text.n);
	if (writer->header_bytes > SAFETENSORS_LENGTH_BYTES + SAFETENSORS_HEADER_MAX)
		return fail(error, EXIT_INPUT, "%s: the header would have more than the 100,000,000 bytes allowed",
		            writer->path);
	return EXIT_OK;
}

int safetensors_finish(const struct writer *writer, struct error *error)
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
