/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/ggml_q8.h"
#include "io/shape.h"
#include "model/meaning.h"
#include "model/quantized.h"

_Static_assert(READER_TEXT == sizeof((struct error *)0)->text, "room for a text");

struct entry {
	const char *name;
	const struct tensor *tensor; /* NULL: blocks */
	const struct file *file;
	struct quantized quantized;
};

struct reader {
	struct model model;
	struct arena arena;
	size_t n;
	struct entry *entries;
};

static enum reader_status status_of(int code, const struct error *error, char text[READER_TEXT])
{
	memcpy(text, error->text, READER_TEXT);
	return code == EXIT_OK ? READER_OK : code == EXIT_MEMORY ? READER_MEMORY : code == EXIT_IO ? READER_IO : READER_INPUT;
}

/* Adds a tensor, unless it belongs to a quantized one that is there by its codes. */
static int add(struct reader *reader, const struct model_tensor *of_model, struct error *error)
{
	struct entry *entry = &reader->entries[reader->n];
	const char *name = NULL;
	int code = EXIT_OK;

	if (of_model->tensor->decoder == NULL)
		code = quantized_owner(&entry->quantized, &name, &reader->model, of_model->tensor, &reader->arena, error);
	if (code != EXIT_OK)
		return code;
	if (name != NULL && entry->quantized.parts[LAYOUT_CODES] != of_model->tensor)
		return EXIT_OK;
	entry->name = name != NULL ? name : of_model->tensor->name;
	entry->tensor = name != NULL ? NULL : of_model->tensor;
	entry->file = of_model->file;
	reader->n++;
	return EXIT_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int find_all(struct reader *reader, struct error *error)
{
	int code = EXIT_OK;

	reader->entries = malloc((reader->model.n_tensors + 1) * sizeof *reader->entries);
	if (reader->entries == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < reader->model.n_tensors && code == EXIT_OK; i++)
		code = add(reader, &reader->model.by_name[i], error);
	if (code == EXIT_OK)
		qsort(reader->entries, reader->n, sizeof *reader->entries, by_name);
	for (size_t i = 1; i < reader->n && code == EXIT_OK; i++)
		if (strcmp(reader->entries[i - 1].name, reader->entries[i].name) == 0)
			code = fail_tensor(error, reader->model.path, reader->entries[i].name, "is there twice, once quantized");
	return code;
}

enum reader_status reader_open(struct reader **result, const char *path, char text[READER_TEXT])
{
	struct reader *reader = calloc(1, sizeof *reader);
	struct error error = {""};
	int code;

	if (reader == NULL)
		return status_of(fail_memory(&error), &error, text);
	code = meaning_open(&reader->model, path, MEANING_READS, &error);
	if (code != EXIT_OK) {
		free(reader);
		return status_of(code, &error, text);
	}
	code = find_all(reader, &error);
	if (code == EXIT_OK)
		*result = reader;
	else
		reader_close(reader);
	return status_of(code, &error, text);
}

void reader_close(struct reader *reader)
{
	model_close(&reader->model);
	arena_free(&reader->arena);
	free(reader->entries);
	free(reader);
}

size_t reader_count(const struct reader *reader)
{
	return reader->n;
}

static void describe_blocks(const struct quantized *q, struct reader_tensor *t)
{
	struct mxfp_sizes size = {0};

	t->kind = READER_BLOCKS;
	t->dtype = mxfp_format_get_info(q->choice.form->format)->name;
	t->layout = q->choice.layout->name;
	t->rank = q->shape.rank;
	memcpy(t->shape, q->shape.dims, t->rank * sizeof *t->shape);
	t->transposed = q->transposed;
	if (q->transposed) {
		t->shape[t->rank - 1] = q->shape.dims[t->rank - 2];
		t->shape[t->rank - 2] = q->shape.dims[t->rank - 1];
	}
	t->tensor_scale = q->tensor_scale;
	t->tensor_scale_divides = q->choice.layout->divides;
	/* What does not fit memory is refused by whoever takes it. */
	if (q->rows > SIZE_MAX || q->cols > SIZE_MAX || q->n_scales > 1 ||
	    mxfp_blocks_size(&size, q->choice.form->format, (size_t)q->rows, (size_t)q->cols) != MXFP_OK)
		t->kind = READER_OPAQUE;
	t->bytes = size.codes_bytes;
	t->scales_bytes = size.scales_bytes;
}

static void describe_numbers(const struct tensor *tensor, struct reader_tensor *t)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);
	const bool q8 = tensor->dtype == DTYPE_Q8_0;

	t->kind = (q8 || (info->block_elements == 1 && info->bits % 8 == 0)) && tensor->rank <= READER_RANK ? READER_NUMBERS
	                                                                                                    : READER_OPAQUE;
	t->dtype = q8 ? dtype_info(DTYPE_F32)->name : info->name;
	t->rank = tensor->rank <= READER_RANK ? tensor->rank : READER_RANK;
	memcpy(t->shape, tensor->shape, t->rank * sizeof *t->shape);
	t->bytes = q8 ? tensor_elements(tensor) * sizeof(float) : tensor->size;
}

void reader_describe(const struct reader *reader, size_t i, struct reader_tensor *t)
{
	const struct entry *entry = &reader->entries[i];

	memset(t, 0, sizeof *t);
	t->name = entry->name;
	if (entry->tensor == NULL)
		describe_blocks(&entry->quantized, t);
	else
		describe_numbers(entry->tensor, t);
}

/* Whole rows at a time, in the order of the file. */
static int read_blocks(const struct quantized *q, uint8_t *codes, uint8_t *scales, struct error *error)
{
	struct piece piece = {0};
	int code = EXIT_OK;

	while (code == EXIT_OK && piece_next(&piece, q->rows, q->cols)) {
		const struct layout_slice at = layout_slice(q->choice.form->format, q->cols, &piece);
		const struct mxfp_blocks blocks = quantized_blocks(q, &piece, codes + at.codes_from, scales + at.scales_from);
		uint64_t n_bytes;

		code = quantized_read(q, &piece, &blocks, &n_bytes, error);
	}
	return code;
}

enum { Q8_PIECE = 4096 };

static int read_q8(const struct entry *entry, float *numbers, struct error *error)
{
	const uint64_t n = tensor_elements(entry->tensor) / Q8_0_ELEMENTS;
	uint8_t *blocks = malloc((size_t)Q8_PIECE * Q8_0_BYTES);
	int code = blocks == NULL ? fail_memory(error) : EXIT_OK;

	for (uint64_t i = 0; i < n && code == EXIT_OK; i += Q8_PIECE) {
		const size_t some = n - i < Q8_PIECE ? (size_t)(n - i) : Q8_PIECE;

		code = file_read(entry->file, entry->tensor, i * Q8_0_BYTES, blocks, some * Q8_0_BYTES, error);
		if (code == EXIT_OK)
			q8_0_decode(numbers + i * Q8_0_ELEMENTS, blocks, some);
	}
	free(blocks);
	return code;
}

enum reader_status reader_read(const struct reader *reader, size_t i, void *data, void *scales, char text[READER_TEXT])
{
	const struct entry *entry = &reader->entries[i];
	struct error error = {""};
	int code;

	if (entry->tensor == NULL) {
		code = read_blocks(&entry->quantized, data, scales, &error);
	} else if (entry->tensor->dtype == DTYPE_Q8_0) {
		code = read_q8(entry, data, &error);
	} else {
		code = file_read_rows(entry->file, entry->tensor, 0, data, (size_t)entry->tensor->size, &error);
		if (code == EXIT_OK)
			dtype_swap(entry->tensor->dtype, data, (size_t)entry->tensor->size);
	}
	return status_of(code, &error, text);
}
