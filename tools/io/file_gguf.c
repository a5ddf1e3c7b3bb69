/* SPDX-License-Identifier: MIT */
/*
 * Reader of GGUF files, version 3 and 2 (ggml/docs/gguf.md, ggml/src/gguf.cpp). Numbers are little-endian, a string is
 * its length as u64 and its bytes.
 *
 *   bytes  what
 *   4      "GGUF"
 *   4      u32 version
 *   8, 8   u64 number of tensors, u64 number of key-values
 *   ...    per key-value: string key, u32 type, the value: a scalar, a string, or u32 type of the elements, u64 their
 *          number, and they
 *   ...    per tensor: string name, u32 number of dimensions, u64 each, innermost first, u32 type, u64 offset of its
 *          data in the data section
 *   ...    zeros up to a multiple of general.alignment
 *   rest   the data section: tensors one after the other, each padded to a multiple of the alignment
 *
 * Shapes are shown outermost first, as in every other format. Numbers and strings among the values become metadata, as
 * text; where the bytes of each pair lie is kept, so that a writer can carry them along.
 *
 * Checked here, beyond what ggml checks where that is marked *:
 *   - a count is no larger than the bytes that are left can hold, before memory is taken for it;
 *   - no key and no tensor name stands twice; both are UTF-8 without NUL *; arrays hold no arrays;
 *   - sizes do not overflow, rows are whole blocks;
 *   - the alignment is a power of two of at least 8;
 *   - the data, sorted, follow each other with no hole but the padding, in any order of the tensors, and end where
 *     the file ends or less than an alignment before *.
 *
 * Memory: per pair and per tensor a struct, its name, and values of up to GGUF_TEXT_MAX bytes; below 12 times the
 * header.
 */
#include "config.h"

#include "io/file_gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf_pairs.h"

enum {
	TENSOR_BYTES_MIN = 8 + 4 + 4 + 8,
	OLDEST_VERSION = 2
};

static const struct {
	enum dtype dtype;
	int type; /* enum ggml_type */
} types[] = {
	{DTYPE_F32, 0},      {DTYPE_F16, 1},      {DTYPE_Q4_0, 2},    {DTYPE_Q4_1, 3},    {DTYPE_Q5_0, 6},
	{DTYPE_Q5_1, 7},     {DTYPE_Q8_0, 8},     {DTYPE_Q8_1, 9},    {DTYPE_Q2_K, 10},   {DTYPE_Q3_K, 11},
	{DTYPE_Q4_K, 12},    {DTYPE_Q5_K, 13},    {DTYPE_Q6_K, 14},   {DTYPE_Q8_K, 15},   {DTYPE_IQ2_XXS, 16},
	{DTYPE_IQ2_XS, 17},  {DTYPE_IQ3_XXS, 18}, {DTYPE_IQ1_S, 19},  {DTYPE_IQ4_NL, 20}, {DTYPE_IQ3_S, 21},
	{DTYPE_IQ2_S, 22},   {DTYPE_IQ4_XS, 23},  {DTYPE_I8, 24},     {DTYPE_I16, 25},    {DTYPE_I32, 26},
	{DTYPE_I64, 27},     {DTYPE_F64, 28},     {DTYPE_IQ1_M, 29},  {DTYPE_BF16, 30},   {DTYPE_TQ1_0, 34},
	{DTYPE_TQ2_0, 35},   {DTYPE_MXFP4, 39},   {DTYPE_NVFP4, 40},  {DTYPE_Q1_0, 41},   {DTYPE_Q2_0, 42},
};

enum { N_GGML_TYPES = sizeof types / sizeof types[0] };

int gguf_type(enum dtype dtype)
{
	for (size_t i = 0; i < N_GGML_TYPES; i++)
		if (types[i].dtype == dtype)
			return types[i].type;
	return -1;
}

enum dtype gguf_dtype(uint32_t type)
{
	for (size_t i = 0; i < N_GGML_TYPES; i++)
		if ((uint32_t)types[i].type == type)
			return types[i].dtype;
	return N_DTYPES;
}

uint64_t gguf_align(uint64_t at, uint32_t alignment)
{
	return (at + alignment - 1) / alignment * alignment;
}

static bool probe(const unsigned char first[FILE_PROBE_BYTES])
{
	return memcmp(first, GGUF_MAGIC, strlen(GGUF_MAGIC)) == 0;
}

static int take_shape(struct gguf_header *h, struct tensor *tensor, struct error *error)
{
	uint32_t rank;
	int code = gguf_take_u32(&h->source, &rank, h->what, error);

	if (code != EXIT_OK)
		return code;
	if (rank > GGUF_RANK_MAX)
		return fail_tensor(error, h->source.path, tensor->name, "has %" PRIu32 " dimensions, more than %d", rank,
		                   (int)GGUF_RANK_MAX);
	uint64_t *shape = arena_take(&h->gguf->arena, GGUF_RANK_MAX * sizeof *shape);
	if (shape == NULL)
		return fail_memory(error);
	for (unsigned i = rank; i-- > 0 && code == EXIT_OK;)
		code = gguf_take_u64(&h->source, &shape[i], h->what, error);
	tensor->rank = rank;
	tensor->shape = shape;
	return code;
}

static int check_size(struct gguf_header *h, struct tensor *tensor, struct error *error)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);
	uint64_t rows, cols;

	if (tensor_size(tensor, &tensor->size))
		return EXIT_OK;
	tensor_matrix(tensor, &rows, &cols);
	if (cols % info->block_elements != 0)
		return fail_tensor(error, h->source.path, tensor->name, "rows of %" PRIu64 " are no whole blocks of %s, "
		                   "which have %u elements", cols, info->name, info->block_elements);
	return fail_tensor(error, h->source.path, tensor->name, "size by its shape and type %s is too large",
	                   info->name);
}

static int take_tensor(struct gguf_header *h, struct error *error)
{
	struct tensor *tensor = &h->file->tensors[h->file->n_tensors++];
	uint32_t type;

	snprintf(h->what, sizeof h->what, "tensor %zu", h->file->n_tensors);
	int code = gguf_take_string(&h->source, &h->gguf->arena, GGUF_NAME_MAX, &tensor->name, h->what, error);
	if (code == EXIT_OK && tensor->name == NULL)
		code = fail(error, EXIT_INPUT, "%s: %s: the name is no UTF-8 text without NUL of at most %d bytes",
		            h->source.path, h->what, (int)GGUF_NAME_MAX);
	if (code != EXIT_OK)
		return code;
	snprintf(h->what, sizeof h->what, "tensor '%.48s'", tensor->name);
	code = take_shape(h, tensor, error);
	if (code == EXIT_OK)
		code = gguf_take_u32(&h->source, &type, h->what, error);
	if (code == EXIT_OK)
		code = gguf_take_u64(&h->source, &tensor->offset, h->what, error);
	if (code != EXIT_OK)
		return code;
	tensor->dtype = gguf_dtype(type);
	if (tensor->dtype == N_DTYPES)
		return fail_tensor(error, h->source.path, tensor->name, "type %" PRIu32 " is not known", type);
	return check_size(h, tensor, error);
}

/* The magic and the version, whose bytes are the wrong way round in a big-endian file. */
static int take_version(struct gguf_header *h, struct error *error)
{
	char magic[4];
	uint32_t version;
	int code = gguf_take(&h->source, magic, sizeof magic, "the start of the file", error);

	if (code == EXIT_OK)
		code = gguf_take_u32(&h->source, &version, "the version", error);
	if (code != EXIT_OK)
		return code;
	if (memcmp(magic, GGUF_MAGIC, sizeof magic) != 0)
		return fail(error, EXIT_INPUT, "%s: does not begin with " GGUF_MAGIC "%s", h->source.path,
		            memcmp(magic, "tjgg", 4) == 0 || memcmp(magic, "lmgg", 4) == 0 ||
		            memcmp(magic, "fmgg", 4) == 0 ? " but as the formats before it / convert it" : "");
	if (version >> 24 != 0 && version >> 24 <= GGUF_VERSION && (version & 0xFFFFFF) == 0)
		return fail(error, EXIT_INPUT, "%s: is big-endian / gguf_convert_endian.py of gguf-py makes it "
		            "little-endian", h->source.path);
	if (version < OLDEST_VERSION || version > GGUF_VERSION)
		return fail(error, EXIT_INPUT, "%s: is of version %" PRIu32 " / %d and %d are known", h->source.path, version,
		            (int)OLDEST_VERSION, (int)GGUF_VERSION);
	return EXIT_OK;
}

static int take_tensors(struct gguf_header *h, uint64_t n, struct error *error)
{
	int code = gguf_check_count(h, n, TENSOR_BYTES_MIN, "tensors", error);

	if (code != EXIT_OK)
		return code;
	h->file->tensors = calloc((size_t)n + 1, sizeof *h->file->tensors);
	if (h->file->tensors == NULL)
		return fail_memory(error);
	for (uint64_t i = 0; i < n && code == EXIT_OK; i++)
		code = take_tensor(h, error);
	return code;
}

/* Each tensor's data must begin where those before it end, padded. */
static int check_places(const struct file *file, uint32_t alignment, struct error *error)
{
	uint64_t end = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *tensor = &file->tensors[i];
		uint64_t begin = gguf_align(end, alignment);

		if (tensor->offset != begin)
			return fail_tensor(error, file->path, tensor->name, "data begin at %" PRIu64 " but, with those before "
			                   "and padding to %" PRIu32 ", %" PRIu64 " was due", tensor->offset, alignment, begin);
		if (begin > file->data_bytes || tensor->size > file->data_bytes - begin)
			return fail_tensor(error, file->path, tensor->name, "data take %" PRIu64 " bytes from %" PRIu64
			                   " on, but the file has %" PRIu64 " / it may have been cut off", tensor->size,
			                   begin, file->data_bytes);
		end = begin + tensor->size;
	}
	if (file->data_bytes - end >= alignment)
		return fail(error, EXIT_INPUT, "%s: bytes that no tensor has at the end: %" PRIu64, file->path,
		            file->data_bytes - end);
	return EXIT_OK;
}

static int take_header(struct gguf_header *h, struct error *error)
{
	uint64_t n_tensors, n_pairs;
	int code = take_version(h, error);

	if (code == EXIT_OK)
		code = gguf_take_u64(&h->source, &n_tensors, "the number of tensors", error);
	if (code == EXIT_OK)
		code = gguf_take_u64(&h->source, &n_pairs, "the number of key-values", error);
	if (code == EXIT_OK)
		code = gguf_take_pairs(h, n_pairs, error);
	if (code == EXIT_OK)
		code = take_tensors(h, n_tensors, error);
	if (code != EXIT_OK)
		return code;
	uint64_t start = gguf_align(h->source.at, h->gguf->alignment), size = h->source.size;
	h->file->header_bytes = start < size ? start : size;
	h->file->data_bytes = size - h->file->header_bytes;
	code = file_sort_tensors(h->file, error);
	return code != EXIT_OK ? code : check_places(h->file, h->gguf->alignment, error);
}

static int open_header(struct file *file, struct error *error)
{
	struct gguf_header h = {.file = file, .gguf = calloc(1, sizeof *h.gguf)};

	file->state = h.gguf;
	h.source = (struct gguf_source){
		.fd = file->fd,
		.path = file->path,
		.size = file->size_bytes,
		.bytes = malloc(GGUF_SOURCE_BYTES),
	};
	int code = h.gguf == NULL || h.source.bytes == NULL ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK) {
		h.gguf->alignment = GGUF_ALIGNMENT;
		code = take_header(&h, error);
	}
	free(h.source.bytes);
	return code;
}

static void close_header(struct file *file)
{
	struct gguf *gguf = file->state;

	if (gguf == NULL)
		return;
	arena_free(&gguf->arena);
	free(gguf->pairs);
	free(gguf->keys);
	free(gguf);
}

const struct file_format file_gguf = {
	.name = "gguf",
	.suffix = ".gguf",
	.probe = probe,
	.open = open_header,
	.close = close_header,
	.lay_out = gguf_lay_out,
	.finish = gguf_finish,
};
