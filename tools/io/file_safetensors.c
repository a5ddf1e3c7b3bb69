/* SPDX-License-Identifier: MIT */
/*
 * Safetensors files (github.com/huggingface/safetensors, README.md and safetensors/src/tensor.rs).
 *
 *   offset  bytes  what
 *   0       8      N, the header's length: little-endian, at most 100,000,000
 *   8       N      the header: a JSON object in UTF-8 that begins with '{' and may be padded at its end with spaces,
 *                  or other white space of JSON, which the reference implementation takes too
 *   8 + N   rest   the data section: tensors one after the other, row-major, numbers little-endian
 *
 * The header maps each tensor's name to {"dtype": NAME, "shape": [D, ...], "data_offsets": [BEGIN, END]}, in any
 * order; offsets count from the start of the data section. The key "__metadata__" maps strings to strings.
 *
 * Checked here, beyond what the reference implementation checks where that is marked *:
 *   - no key occurs twice in any object *, no name, key or value holds NUL *;
 *   - an entry has the three fields and no other *: an unknown one could change the meaning of the data;
 *   - numbers are whole and not negative; the product of the non-zero dimensions and the bits fits in 64 bits *;
 *   - a tensor's range is exactly its size, which is whole bytes even for dtypes of 4 and 6 bits;
 *   - the ranges, sorted, leave no hole, do not overlap, begin at 0 and end where the file ends;
 *   - at most RANK_MAX dimensions *.
 *
 * Memory: the header's bytes until they are parsed, and per tensor a struct, its name and 8 bytes per dimension. An
 * entry is at least 50 bytes of header and a dimension at least 2, so all of it stays below 8 times the header.
 *
 * The same tensors and metadata are written as the same bytes: those of the format's reference writer, which puts the
 * metadata first, sorts the tensors by descending row of their dtype in dtype.def, then by name, writes JSON without
 * white space, and pads the header so that the data begin at a multiple of 8.
 */
#include "config.h"

#include "io/file_safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/descriptor.h"
#include "io/json.h"

#define METADATA_KEY "__metadata__"

enum {
	LENGTH_BYTES = 8,       /* before the header */
	HEADER_MAX = 100000000, /* the reference implementation's limit */
	ALIGNMENT = 8,          /* of the data section in files that are written */
	RANK_MAX = 1024,
	RELEASE_BYTES = 1 << 20 /* whole pages of any system */
};

enum field { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, FIELDS_ALL = 7 };

/* The state of parsing one header. */
struct header {
	struct file *file;
	struct arena *arena;
	size_t tensor_capacity, metadata_capacity;
	size_t released; /* bytes of the text whose memory may be gone */
	bool has_metadata;
	unsigned fields;          /* of the entry being parsed */
	struct tensor *tensor;    /* likewise */
};

static uint64_t little_endian_64(const unsigned char bytes[8])
{
	uint64_t value = 0;

	for (int i = 7; i >= 0; i--)
		value = value << 8 | bytes[i];
	return value;
}

static bool probe(const unsigned char first[FILE_PROBE_BYTES])
{
	uint64_t n = little_endian_64(first);

	return n >= 2 && n <= HEADER_MAX && first[LENGTH_BYTES] == '{';
}

/* Makes room for one more item of `size` bytes in an array of `n`. */
static int reserve(void **items, size_t n, size_t *capacity, size_t size, struct error *error)
{
	if (n < *capacity)
		return EXIT_OK;
	size_t more = *capacity == 0 ? 16 : *capacity * 2;
	void *moved = realloc(*items, more * size);
	if (moved == NULL)
		return fail_memory(error);
	*items = moved;
	*capacity = more;
	return EXIT_OK;
}

/* Whether a safetensors file can hold the dtype: any without blocks. */
static bool holds(enum dtype dtype)
{
	return dtype_info(dtype)->block_elements == 1;
}

static int take_dtype(struct json_text *text, struct header *header, struct error *error)
{
	json_t *name;
	int code = json_take_string(text, &name, error);

	if (code != EXIT_OK)
		return code;
	header->tensor->dtype = dtype_from_name(json_string_value(name));
	if (header->tensor->dtype == N_DTYPES || !holds(header->tensor->dtype))
		code = fail_tensor(error, text->path, header->tensor->name, "dtype '%s' is not known",
		                   json_string_value(name));
	json_decref(name);
	return code;
}

static int take_shape(struct json_text *text, struct header *header, struct error *error)
{
	uint64_t shape[RANK_MAX];
	size_t rank;
	int code = json_take_naturals(text, RANK_MAX, shape, &rank, error);

	if (code != EXIT_OK)
		return code;
	uint64_t *copy = arena_take(header->arena, rank * sizeof *copy);
	if (copy == NULL)
		return fail_memory(error);
	memcpy(copy, shape, rank * sizeof *copy);
	header->tensor->rank = (unsigned)rank;
	header->tensor->shape = copy;
	return EXIT_OK;
}

static int take_offsets(struct json_text *text, struct header *header, struct error *error)
{
	uint64_t range[2];
	size_t n;
	int code = json_take_naturals(text, 2, range, &n, error);

	if (code != EXIT_OK)
		return code;
	if (n != 2 || range[0] > range[1])
		return fail_tensor(error, text->path, header->tensor->name, "data_offsets are not a begin and an end");
	header->tensor->offset = range[0];
	header->tensor->size = range[1] - range[0];
	return EXIT_OK;
}

static const struct {
	const char *name;
	enum field field;
	int (*take)(struct json_text *text, struct header *header, struct error *error);
} fields[] = {
	{"dtype", FIELD_DTYPE, take_dtype},
	{"shape", FIELD_SHAPE, take_shape},
	{"data_offsets", FIELD_OFFSETS, take_offsets},
};

/* A json_member of an entry. */
static int take_field(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct header *header = context;
	const char *name = header->tensor->name;

	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		if (strcmp(key, fields[i].name) != 0)
			continue;
		if (header->fields & fields[i].field)
			return fail_tensor(error, text->path, name, "field '%s' occurs twice", key);
		header->fields |= fields[i].field;
		return fields[i].take(text, header, error);
	}
	return fail_tensor(error, text->path, name, "field '%s' is not known", key);
}

static int check_size(const struct file *file, const struct tensor *tensor, struct error *error)
{
	uint64_t size;

	if (!tensor_size(tensor, &size))
		return fail_tensor(error, file->path, tensor->name,
		                   "size by its shape and dtype %s is too large or not whole bytes",
		                   dtype_info(tensor->dtype)->name);
	if (size != tensor->size)
		return fail_tensor(error, file->path, tensor->name,
		                   "has %" PRIu64 " bytes by its shape but %" PRIu64 " by its data_offsets", size,
		                   tensor->size);
	return EXIT_OK;
}

static int take_tensor(struct json_text *text, const char *name, struct header *header, struct error *error)
{
	struct file *file = header->file;
	void *tensors = file->tensors;
	int code = reserve(&tensors, file->n_tensors, &header->tensor_capacity, sizeof *file->tensors, error);

	if (code != EXIT_OK)
		return code;
	file->tensors = tensors;
	header->tensor = &file->tensors[file->n_tensors++];
	*header->tensor = (struct tensor){.name = arena_string(header->arena, name)};
	if (header->tensor->name == NULL)
		return fail_memory(error);
	header->fields = 0;
	code = json_take_object(text, take_field, header, error);
	if (code != EXIT_OK)
		return code;
	if (header->fields != FIELDS_ALL)
		return fail_tensor(error, text->path, name, "lacks dtype, shape or data_offsets");
	return check_size(file, header->tensor, error);
}

/* A json_member of the metadata. */
static int take_metadata(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct header *header = context;
	struct file *file = header->file;
	void *items = file->metadata;
	struct metadata item = {.key = arena_string(header->arena, key)};
	int code = item.key == NULL ? fail_memory(error) : json_take_copy(text, header->arena, &item.value, error);

	if (code == EXIT_OK)
		code = reserve(&items, file->n_metadata, &header->metadata_capacity, sizeof item, error);
	if (code != EXIT_OK)
		return code;
	file->metadata = items;
	file->metadata[file->n_metadata++] = item;
	return EXIT_OK;
}

/* Gives back the memory of what was parsed, as the tables grow: the header and the tables of a large file together would
   take twice the memory of the larger one. */
static void release_parsed(struct header *header, const struct json_text *text)
{
	const uintptr_t page = RELEASE_BYTES, from = (uintptr_t)text->bytes + header->released;
	const uintptr_t begin = (from + page - 1) / page * page, end = ((uintptr_t)text->bytes + text->at) / page * page;

	if (end <= begin)
		return;
	header->released = end - (uintptr_t)text->bytes;
#ifdef MADV_DONTNEED
	(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
#endif
}

/* A json_member of the header. */
static int take_entry(struct json_text *text, const char *key, void *context, struct error *error)
{
	struct header *header = context;

	release_parsed(header, text);

	if (strcmp(key, METADATA_KEY) != 0)
		return take_tensor(text, key, header, error);
	if (header->has_metadata)
		return json_fail(text, METADATA_KEY " occurs twice", error);
	header->has_metadata = true;
	return json_take_object(text, take_metadata, header, error);
}

static int check_metadata(const struct file *file, struct error *error)
{
	size_t n = file->n_metadata;
	const char **keys = calloc(n + 1, sizeof(const char *));
	int code = EXIT_OK;

	if (keys == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++)
		keys[i] = file->metadata[i].key;
	const char *twice = file_sort_names(keys, n);
	if (twice != NULL)
		code = fail(error, EXIT_INPUT, "%s: metadata key '%.200s': occurs twice", file->path, twice);
	free(keys);
	return code;
}

/* Checks that the data of the tensors, sorted, fill the data section exactly. */
static int check_places(const struct file *file, struct error *error)
{
	uint64_t end = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *tensor = &file->tensors[i];

		if (tensor->offset != end)
			return fail_tensor(error, file->path, tensor->name,
			                   "data begin at %" PRIu64 " but those before end at %" PRIu64 ": %s",
			                   tensor->offset, end,
			                   tensor->offset < end ? "they overlap" : "there is a hole");
		if (tensor->size > file->data_bytes - end)
			return fail_tensor(error, file->path, tensor->name,
			                   "data end at %" PRIu64 " but the file's at %" PRIu64
			                   "; it may have been cut off: download or copy it again", end + tensor->size, file->data_bytes);
		end += tensor->size;
	}
	if (end != file->data_bytes)
		return fail(error, EXIT_INPUT, "%s: bytes that no tensor has at the end: %" PRIu64 "; it is damaged: download "
		            "or copy it again", file->path,
		            file->data_bytes - end);
	return EXIT_OK;
}

static int parse(struct header *header, struct json_text *text, struct error *error)
{
	int code = json_take_object(text, take_entry, header, error);

	json_next(text);
	if (code == EXIT_OK && text->at != text->n)
		code = json_fail(text, "only white space may follow the object", error);
	if (code == EXIT_OK)
		code = check_metadata(header->file, error);
	if (code == EXIT_OK)
		code = file_sort_tensors(header->file, error);
	return code != EXIT_OK ? code : check_places(header->file, error);
}

/* Checks the length, and that a '{' follows, before memory is allocated for the header. */
static int read_length(struct file *file, uint64_t *n, struct error *error)
{
	unsigned char first[LENGTH_BYTES + 1];

	if (file->size_bytes < sizeof first)
		return fail(error, EXIT_INPUT, "%s: has %" PRIu64 " bytes, too few for a safetensors file; it may have been "
		            "cut off: download or copy it again",
		            file->path, file->size_bytes);
	int code = handle_read(file->handle, 0, first, sizeof first, error);
	if (code != EXIT_OK)
		return code;
	*n = little_endian_64(first);
	if (*n > HEADER_MAX)
		return fail(error, EXIT_INPUT, "%s: is not a safetensors file, or is damaged: its first 8 bytes say that the header has "
		            "%" PRIu64 " bytes, more than the 100,000,000 allowed; download it again", file->path, *n);
	if (*n > file->size_bytes - LENGTH_BYTES)
		return fail(error, EXIT_INPUT, "%s: header length %" PRIu64 " is more than the file has"
		            "; it may have been cut off: download or copy it again", file->path, *n);
	if (*n == 0 || first[LENGTH_BYTES] != '{')
		return fail(error, EXIT_INPUT, "%s: header does not begin with '{', so it is not a safetensors file, or is damaged; "
		            "download it again", file->path);
	return EXIT_OK;
}

static int open_header(struct file *file, struct error *error)
{
	struct header header = {.file = file};
	struct json_text text = {.path = file->path, .what = "header"};
	uint64_t n = 0;
	int code = read_length(file, &n, error);

	if (code != EXIT_OK)
		return code;
	file->header_bytes = LENGTH_BYTES + n;
	file->data_bytes = file->size_bytes - file->header_bytes;
	file->state = header.arena = calloc(1, sizeof *header.arena);
	char *bytes = malloc((size_t)n);
	if (bytes == NULL || header.arena == NULL)
		code = fail_memory(error);
	else
		code = handle_read(file->handle, LENGTH_BYTES, bytes, (size_t)n, error);
	text.bytes = bytes;
	text.n = (size_t)n;
	if (code == EXIT_OK)
		code = parse(&header, &text, error);
	free(bytes);
	return code;
}

static void close_header(struct file *file)
{
	if (file->state != NULL)
		arena_free(file->state);
	free(file->state);
}

/* Text that grows; `failed` is the exit code of the first failure. */
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

static void append_pair(struct text *text, const struct metadata *pair, bool first)
{
	append_text(text, first ? "" : ",");
	append_string(text, pair->key);
	append_text(text, ":");
	append_string(text, pair->value);
}

/* With a format if none is stated: transformers 4 loads a file without metadata, and refuses one whose metadata have none. */
static void append_metadata(struct text *text, const struct writer *writer)
{
	static const struct metadata format = {"format", "pt"};
	bool stated = false;

	for (size_t i = 0; i < writer->n_metadata; i++)
		stated |= strcmp(writer->metadata[i].key, format.key) == 0;
	append_text(text, "\"" METADATA_KEY "\":{");
	if (!stated)
		append_pair(text, &format, true);
	for (size_t i = 0; i < writer->n_metadata; i++)
		append_pair(text, &writer->metadata[i], stated && i == 0);
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

/* Formats the header with its length before it, not yet padded. The caller frees the text's bytes in every case. */
static int format_header(const struct writer *writer, struct text *text, struct error *error)
{
	static const char length[LENGTH_BYTES];

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
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int lay_out(struct writer *writer, struct error *error)
{
	struct text text = {0};
	uint64_t end = 0;

	if (writer->n_tensors > 0)
		qsort(writer->tensors, writer->n_tensors, sizeof *writer->tensors, compare_order);
	for (size_t i = 0; i < writer->n_tensors; i++) {
		struct tensor *tensor = &writer->tensors[i];

		if (!holds(tensor->dtype))
			return fail_tensor(error, writer->path, tensor->name, "dtype %s cannot stand in a safetensors "
			                   "file; give the output a name that ends in .gguf",
			                   dtype_info(tensor->dtype)->name);
		if (strcmp(tensor->name, METADATA_KEY) == 0)
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
	if (writer->header_bytes > LENGTH_BYTES + HEADER_MAX)
		return fail(error, EXIT_INPUT, "%s: the header would have more than the 100,000,000 bytes allowed",
		            writer->path);
	return EXIT_OK;
}

static int finish(const struct writer *writer, struct error *error)
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
		for (unsigned i = 0; i < LENGTH_BYTES; i++)
			text.bytes[i] = (char)((writer->header_bytes - LENGTH_BYTES) >> 8 * i);
		code = descriptor_write(writer->fd, writer->path, 0, text.bytes, text.n, error);
	}
	free(text.bytes);
	return code;
}

const struct file_format file_safetensors = {
	.name = "safetensors",
	.suffix = ".safetensors",
	.probe = probe,
	.open = open_header,
	.close = close_header,
	.lay_out = lay_out,
	.finish = finish,
};
