/* SPDX-License-Identifier: MIT */
/* The table of dtypes, and what files of every format share. formats.c has the table of formats and opens files. */
#include "config.h"

#include "io/file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"

/* MXFP_FORMAT_NONE lets dtype.def say NONE; it is not a format, and `numeric` says so. */
enum { MXFP_FORMAT_NONE = -1 };

static const struct dtype_info dtypes[N_DTYPES] = {
#define DTYPE(id, name, bits, block_elements, element) \
	[DTYPE_##id] = {name, bits, block_elements, (int)MXFP_FORMAT_##element != MXFP_FORMAT_NONE, \
	                (enum mxfp_format)MXFP_FORMAT_##element},
#include "io/dtype.def"
};

const struct dtype_info *dtype_info(enum dtype dtype)
{
	return &dtypes[dtype];
}

double dtype_bits(enum dtype dtype)
{
	return (double)dtypes[dtype].bits / dtypes[dtype].block_elements;
}

enum dtype dtype_from_name(const char *name)
{
	int i = 0;

	while (i < N_DTYPES && strcmp(dtypes[i].name, name) != 0)
		i++;
	return (enum dtype)i;
}

void dtype_swap(enum dtype dtype, void *bytes, size_t n)
{
	size_t width = dtype == DTYPE_C64 ? sizeof(float) : dtypes[dtype].bits / 8; /* complex: two words */

	if (width < 2 || dtypes[dtype].block_elements > 1)
		return;
	assert(n % width == 0);
	little_endian(bytes, n / width, (unsigned)width);
}

uint64_t tensor_elements(const struct tensor *tensor)
{
	uint64_t n = 1;

	for (unsigned i = 0; i < tensor->rank; i++)
		n *= tensor->shape[i];
	return n;
}

void tensor_matrix(const struct tensor *tensor, uint64_t *rows, uint64_t *cols)
{
	*rows = 1;
	*cols = tensor->rank == 0 ? 1 : tensor->shape[tensor->rank - 1];
	for (unsigned i = 0; i + 1 < tensor->rank; i++)
		*rows *= tensor->shape[i];
}

bool tensor_size(const struct tensor *tensor, uint64_t *size)
{
	const unsigned block = dtypes[tensor->dtype].block_elements;
	uint64_t bits = dtypes[tensor->dtype].bits, cols = tensor->rank == 0 ? 1 : tensor->shape[tensor->rank - 1];
	bool empty = false;

	if (cols % block != 0)
		return false;
	for (unsigned i = 0; i < tensor->rank; i++) {
		uint64_t dimension = i + 1 < tensor->rank ? tensor->shape[i] : cols / block;

		if (dimension == 0)
			empty = true;
		else if (bits > UINT64_MAX / dimension)
			return false;
		else
			bits *= dimension;
	}
	*size = empty ? 0 : bits / 8;
	return empty || bits % 8 == 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct tensor *const *)a)->name, (*(const struct tensor *const *)b)->name);
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *file_sort_names(const char **names, size_t n)
{
	if (n > 0)
		qsort(names, n, sizeof *names, compare_strings);
	for (size_t i = 1; i < n; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return names[i];
	return NULL;
}

/* Orders tensors by their data, one without data before the one that begins there; then by name, for one order. */
static int compare_places(const void *a, const void *b)
{
	const struct tensor *left = a, *right = b;

	if (left->offset != right->offset)
		return left->offset < right->offset ? -1 : 1;
	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return strcmp(left->name, right->name);
}

int file_sort_tensors(struct file *file, struct error *error)
{
	size_t n = file->n_tensors;
	const struct tensor **names = calloc(n + 1, sizeof(const struct tensor *));

	if (names == NULL)
		return fail_memory(error);
	file->by_name = names;
	if (n > 0)
		qsort(file->tensors, n, sizeof *file->tensors, compare_places);
	for (size_t i = 0; i < n; i++)
		names[i] = &file->tensors[i];
	qsort(names, n, sizeof *names, compare_names);
	for (size_t i = 1; i < n; i++)
		if (compare_names(&names[i - 1], &names[i]) == 0)
			return fail_tensor(error, file->path, names[i]->name, "occurs in the file twice");
	return EXIT_OK;
}

void file_close(struct file *file)
{
	handle_close(file->handle);
	for (size_t i = 0; i < file->n_parts; i++)
		file_close(&file->parts[i]);
	if (file->format != NULL && file->n_parts == 0)
		file->format->close(file);
	free(file->parts);
	free(file->by_name);
	free(file->tensors);
	free(file->metadata);
	free(file->path);
	*file = (struct file){0};
}

/* Reads bytes from `at` of the data section on, or of what the tensor's decoder makes. */
static int read_bytes(const struct file *file, const struct tensor *tensor, uint64_t at, void *buffer, size_t n,
                      struct error *error)
{
	if (tensor->decoder == NULL)
		return handle_read(file->handle, file->header_bytes + at, buffer, n, error);
	at -= tensor->decoder->base;
	assert(at % sizeof(float) == 0 && n % sizeof(float) == 0);
	return tensor->decoder->read(tensor->decoder, at / sizeof(float), buffer, n / sizeof(float), error);
}

int file_read(const struct file *file, const struct tensor *tensor, uint64_t from, void *buffer, size_t n,
              struct error *error)
{
	assert(from <= tensor->size && n <= tensor->size - from);
	return read_bytes(file, tensor, tensor->offset + from, buffer, n, error);
}

/* Reads `cols` columns of `rows` rows of one matrix, from the element `first` of the data on. */
static int read_columns(const struct file *file, const struct tensor *tensor, uint64_t first, uint64_t pitch,
                        unsigned char *to, size_t rows, size_t cols, struct error *error)
{
	const size_t width = dtypes[tensor->dtype].bits / 8;
	unsigned char words[8192];

	for (size_t col = 0; col < cols; col++)
		for (size_t row = 0, n; row < rows; row += n) {
			n = rows - row < sizeof words / width ? rows - row : sizeof words / width;
			int code = read_bytes(file, tensor, tensor->offset + (first + col * pitch + row) * width, words,
			                      n * width, error);
			if (code != EXIT_OK)
				return code;
			unsigned char *into = to + (row * cols + col) * width;
			for (size_t i = 0; i < n && width == 2; i++)
				memcpy(into + i * cols * 2, words + i * 2, 2);
			for (size_t i = 0; i < n && width != 2; i++)
				memcpy(into + i * cols * width, words + i * width, width);
		}
	return EXIT_OK;
}

int file_read_rows(const struct file *file, const struct tensor *tensor, uint64_t from, void *buffer, size_t n,
                   struct error *error)
{
	const size_t width = dtypes[tensor->dtype].bits / 8;
	unsigned char *to = buffer;

	if (!tensor->by_columns || tensor->rank < 2)
		return file_read(file, tensor, from, buffer, n, error);
	const uint64_t cols = tensor->shape[tensor->rank - 1], height = tensor->shape[tensor->rank - 2];
	const uint64_t pitch = tensor->pitch != 0 ? tensor->pitch : height;
	assert(from <= tensor->size && n <= tensor->size - from && from % width == 0 && n % width == 0);
	for (uint64_t at = from / width, left = n / width; left > 0;) {
		const uint64_t row = at / cols, col = at % cols, below = height - row % height;
		uint64_t n_rows = 1, n_cols = cols - col < left ? cols - col : left;

		if (n_cols == cols)
			n_rows = left / cols < below ? left / cols : below;
		int code = read_columns(file, tensor, (row / height * cols + col) * pitch + row % height, pitch, to,
		                        (size_t)n_rows, (size_t)n_cols, error);
		if (code != EXIT_OK)
			return code;
		at += n_rows * n_cols;
		left -= n_rows * n_cols;
		to += n_rows * n_cols * width;
	}
	return EXIT_OK;
}

int file_check_rows(const struct file *file, struct error *error)
{
	for (size_t i = 0; i < file->n_tensors; i++)
		if (file->tensors[i].by_columns)
			return fail(error, EXIT_INPUT, "%s: is in Fortran order; save it in C order", file->path);
	return EXIT_OK;
}

const struct tensor *file_find(const struct file *file, const char *name)
{
	const struct tensor key = {.name = name}, *pointer = &key;

	if (file->n_tensors == 0)
		return NULL;
	const struct tensor **found =
		bsearch(&pointer, file->by_name, file->n_tensors, sizeof pointer, compare_names);
	return found != NULL ? *found : NULL;
}

bool metadata_is_own(const char *key)
{
	static const char prefix[] = "mxfp.";

	return strncmp(key, prefix, strlen(prefix)) == 0;
}

const char *file_metadata(const struct file *file, const char *key)
{
	for (size_t i = 0; i < file->n_metadata; i++)
		if (strcmp(file->metadata[i].key, key) == 0)
			return file->metadata[i].value;
	return NULL;
}
