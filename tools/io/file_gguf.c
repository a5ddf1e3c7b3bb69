/* SPDX-License-Identifier: MIT */
/*
 * GGUF files (ggml/docs/gguf.md, ggml/src/gguf.cpp): versions 3 and 2 are read, 3 is written. Numbers are
 * little-endian, a string is its length as u64 and its bytes.
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
 *   - no key and no tensor name occurs twice; both are UTF-8 without NUL *; arrays hold no arrays;
 *   - sizes do not overflow, rows are whole blocks;
 *   - the alignment is a power of two of at least 8;
 *   - the data, sorted, follow each other with no hole but the padding, in any order of the tensors, and end where
 *     the file ends or less than an alignment before *.
 *
 * Memory: per pair and per tensor a struct, its name, and values of up to TEXT_MAX bytes; below 12 times the header.
 *
 * A model that llama-gguf-split cut into files is one file here, whichever of them is named: split.count says how many
 * there are, split.no which one a file is, and the others are found by name, as llama_split_path() makes it. The first
 * has the key-values of the model. What the parts say of themselves and of each other must hold; a tensor that is missing
 * or stands in two parts shows that one is another model's.
 *
 * The writer keeps the order in which tensors are given. It copies the key-values of the source file byte for byte, and
 * adds the metadata, as strings, whose keys the source lacks. Keys of our own come from the metadata alone, since the
 * source's may no longer hold; nor are split.* copied, since what is written is whole. Two numbers follow from the tensors: general.quantization_version if there are blocks,
 * and general.file_type, which llama.cpp shows as the kind of file. A writer may have pairs of its own (gguf_pairs.h), which
 * come first; then the version is there as convert_hf_to_gguf.py has it, without blocks too.
 */
#include "config.h"

#include "io/file_gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suffix.h"
#include "io/descriptor.h"
#include "io/gguf_pairs.h"
#include "io/json.h"

enum {
	GGUF_VERSION = 3,
	OLDEST_VERSION = 2,
	ALIGNMENT_MIN = 8,
	ALIGNMENT_MAX = 1 << 20,
	KEY_MAX = 65535,             /* bytes of a key */
	TEXT_MAX = 1 << 20,          /* bytes of a value that becomes metadata */
	COUNT_MAX = 1 << 20,         /* of key-values and of tensors */
	HEADER_MAX = 1 << 30,
	PAIR_BYTES_MIN = 8 + 4 + 1,
	TENSOR_BYTES_MIN = 8 + 4 + 4 + 8,
	SOURCE_BYTES = 1 << 16,      /* of the header read at once */
	QUANTIZATION_VERSION = 2,    /* GGML_QNT_VERSION */
	NAME_BYTES_MAX = 63,         /* ggml's readers take no longer names, whatever the format says */
	COPY_BYTES = 1 << 14,
	PAIRS_AT = 4 + 4 + 8,        /* where the number of pairs stands */
	N_DERIVED = 2,
	PARTS_MAX = 65535,           /* split.count is a u16 */
	PART_NAME = 32               /* "-00001-of-00002.gguf" and a NUL */
};

#define GGUF_MAGIC "GGUF"
#define GGUF_KEY_ALIGNMENT "general.alignment"
#define GGUF_KEY_PART "split.no"
#define GGUF_KEY_PARTS "split.count"
#define GGUF_KEY_ALL_TENSORS "split.tensors.count"

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

/* Returns the number that a file has for a dtype, or -1. */
static int type_of(enum dtype dtype)
{
	for (size_t i = 0; i < N_GGML_TYPES; i++)
		if (types[i].dtype == dtype)
			return types[i].type;
	return -1;
}

/* Returns N_DTYPES for an unknown number. */
static enum dtype dtype_of(uint32_t type)
{
	for (size_t i = 0; i < N_GGML_TYPES; i++)
		if ((uint32_t)types[i].type == type)
			return types[i].dtype;
	return N_DTYPES;
}

/* Rounds `at` up to a multiple of the alignment. */
static uint64_t align(uint64_t at, uint32_t alignment)
{
	return (at + alignment - 1) / alignment * alignment;
}

/* The bytes of a header, read one after the other; a size that the file is too short for is refused. */
struct source {
	struct handle *handle;
	const char *path;
	uint64_t at, size;    /* place in the file, and the file's size */
	unsigned char *bytes; /* SOURCE_BYTES of memory; the first `n` are the file's from `from` on */
	uint64_t from;
	size_t n;
};

/* The state of reading one header. */
struct reading {
	struct file *file;
	struct gguf *gguf;
	struct source source;
	char what[64]; /* what is being read, for the text of an error: "key 3" */
};

static int check_room(const struct source *source, uint64_t n, const char *what, struct error *error)
{
	if (n > source->size - source->at)
		return fail(error, EXIT_INPUT, "%s: %s: takes %" PRIu64 " bytes, more than the file has; it may have "
		            "been cut off: download or copy it again", source->path, what, n);
	if (n > HEADER_MAX - source->at)
		return fail(error, EXIT_INPUT, "%s: %s: takes %" PRIu64 " bytes, with which the header has more than "
		            "the 1 GiB allowed", source->path, what, n);
	return EXIT_OK;
}

static int fill(struct source *source, struct error *error)
{
	uint64_t left = source->size - source->at;

	source->from = source->at;
	source->n = left < SOURCE_BYTES ? (size_t)left : SOURCE_BYTES;
	return handle_read(source->handle, source->from, source->bytes, source->n, error);
}

/* Like all functions that take: EXIT_INPUT if the file ends, or the header has more than HEADER_MAX bytes; EXIT_IO. */
static int take(struct source *source, void *bytes, size_t n, const char *what, struct error *error)
{
	unsigned char *to = bytes;
	int code = check_room(source, n, what, error);

	while (n > 0 && code == EXIT_OK) {
		uint64_t skipped = source->at - source->from;

		if (skipped >= source->n) {
			code = fill(source, error);
			continue;
		}
		size_t have = source->n - (size_t)skipped, piece = n < have ? n : have;
		memcpy(to, source->bytes + skipped, piece);
		to += piece;
		n -= piece;
		source->at += piece;
	}
	return code;
}

static int take_number(struct source *source, unsigned n, uint64_t *value, const char *what, struct error *error)
{
	unsigned char bytes[sizeof *value];
	int code = take(source, bytes, n, what, error);

	*value = 0;
	for (unsigned i = n; i-- > 0 && code == EXIT_OK;)
		*value = *value << 8 | bytes[i];
	return code;
}

static int take_u32(struct source *source, uint32_t *value, const char *what, struct error *error)
{
	uint64_t number;
	int code = take_number(source, sizeof *value, &number, what, error);

	*value = (uint32_t)number;
	return code;
}

static int take_u64(struct source *source, uint64_t *value, const char *what, struct error *error)
{
	return take_number(source, sizeof *value, value, what, error);
}

static int skip(struct source *source, uint64_t n, const char *what, struct error *error)
{
	int code = check_room(source, n, what, error);

	if (code == EXIT_OK)
		source->at += n;
	return code;
}

/* Whether the bytes are UTF-8 without a NUL. EXIT_MEMORY. */
static int check_text(const char *bytes, size_t n, bool *valid, struct error *error)
{
	json_prepare();
	json_t *string = json_stringn(bytes, n);

	*valid = string != NULL && memchr(bytes, '\0', n) == NULL;
	json_decref(string);
	return json_out_of_memory() ? fail_memory(error) : EXIT_OK;
}

/* Takes a string into the arena, with a NUL after it. *text is NULL if it has more than `max` bytes, is not UTF-8, or
   holds a NUL. EXIT_MEMORY. */
static int take_string(struct source *source, struct arena *arena, uint64_t max, const char **text,
                     const char *what, struct error *error)
{
	uint64_t n;
	bool valid;
	int code = take_u64(source, &n, what, error);

	*text = NULL;
	if (code == EXIT_OK && n > max)
		return skip(source, n, what, error);
	if (code == EXIT_OK)
		code = check_room(source, n, what, error);
	if (code != EXIT_OK)
		return code;
	char *copy = arena_take(arena, (size_t)n + 1);
	if (copy == NULL)
		return fail_memory(error);
	code = take(source, copy, (size_t)n, what, error);
	copy[n] = '\0';
	if (code == EXIT_OK)
		code = check_text(copy, (size_t)n, &valid, error);
	if (code == EXIT_OK && valid)
		*text = copy;
	return code;
}

/* Bytes of a scalar of each type; 0 for types that are not scalars. */
static const unsigned char type_bytes[N_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Checks that the rest of the file has room for `n` things of at least `least` bytes each. */
static int check_count(const struct reading *h, uint64_t n, unsigned least, const char *what, struct error *error)
{
	if (n > (h->source.size - h->source.at) / least)
		return fail(error, EXIT_INPUT, "%s: says that it has %" PRIu64 " %s, more than its bytes can hold; it may "
		            "have been cut off: download or copy it again", h->source.path, n, what);
	if (n > COUNT_MAX)
		return fail(error, EXIT_INPUT, "%s: has %" PRIu64 " %s, more than the %d allowed", h->source.path, n, what,
		            (int)COUNT_MAX);
	return EXIT_OK;
}

static int take_array(struct reading *h, struct error *error)
{
	uint32_t type;
	uint64_t n;
	int code = take_u32(&h->source, &type, h->what, error);

	if (code == EXIT_OK)
		code = take_u64(&h->source, &n, h->what, error);
	if (code != EXIT_OK)
		return code;
	if (type >= N_GGUF_TYPES || type == GGUF_TYPE_ARRAY)
		return fail(error, EXIT_INPUT, "%s: %s: is an array of %s (type %" PRIu32 ")", h->source.path, h->what,
		            type == GGUF_TYPE_ARRAY ? "arrays" : "what is not known", type);
	uint64_t width = type == GGUF_TYPE_STRING ? sizeof n : type_bytes[type];
	if (n > UINT64_MAX / width || n * width > h->source.size - h->source.at)
		return fail(error, EXIT_INPUT, "%s: %s: is an array of %" PRIu64 " elements, more than the file has; it "
		            "may have been cut off: download or copy it again", h->source.path, h->what, n);
	if (type != GGUF_TYPE_STRING)
		return skip(&h->source, n * width, h->what, error);
	for (; n > 0 && code == EXIT_OK; n--) {
		uint64_t length;

		code = take_u64(&h->source, &length, h->what, error);
		if (code == EXIT_OK)
			code = skip(&h->source, length, h->what, error);
	}
	return code;
}

static int set_alignment(struct reading *h, uint64_t alignment, struct error *error)
{
	if (alignment < ALIGNMENT_MIN || alignment > ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
		return fail(error, EXIT_INPUT, "%s: " GGUF_KEY_ALIGNMENT ": %" PRIu64 " is not a power of two from %d to %d",
		            h->source.path, alignment, (int)ALIGNMENT_MIN, (int)ALIGNMENT_MAX);
	h->gguf->alignment = (uint32_t)alignment;
	return EXIT_OK;
}

/* Writes a scalar as text; `word` has its bytes, with zeros above. */
static void print_scalar(char *text, size_t size, enum gguf_type type, uint64_t word)
{
	unsigned unused = 64 - 8U * type_bytes[type];
	uint32_t half = (uint32_t)word;
	float f32;
	double f64;

	if (type == GGUF_TYPE_F32) {
		memcpy(&f32, &half, sizeof f32);
		snprintf(text, size, "%.9g", (double)f32);
	} else if (type == GGUF_TYPE_F64) {
		memcpy(&f64, &word, sizeof f64);
		snprintf(text, size, "%.17g", f64);
	} else if (type == GGUF_TYPE_BOOL) {
		snprintf(text, size, "%s", word != 0 ? "true" : "false");
	} else if (type == GGUF_TYPE_I8 || type == GGUF_TYPE_I16 || type == GGUF_TYPE_I32 || type == GGUF_TYPE_I64) {
		/* The sign is the highest bit of the value's own bytes. */
		bool negative = (word << unused) >> 63 != 0;
		uint64_t magnitude = negative ? (0 - (word << unused)) >> unused : word;

		snprintf(text, size, "%s%" PRIu64, negative ? "-" : "", magnitude);
	} else {
		snprintf(text, size, "%" PRIu64, word);
	}
}

static int take_scalar(struct reading *h, const char *key, enum gguf_type type, const char **text,
                       struct error *error)
{
	unsigned char bytes[8] = {0};
	uint64_t word = 0;
	char printed[40];
	int code = take(&h->source, bytes, type_bytes[type], h->what, error);

	for (unsigned i = sizeof bytes; i-- > 0;)
		word = word << 8 | bytes[i];
	if (code == EXIT_OK && strcmp(key, GGUF_KEY_ALIGNMENT) == 0)
		code = set_alignment(h, word, error);
	if (code != EXIT_OK)
		return code;
	print_scalar(printed, sizeof printed, type, word);
	*text = arena_string(&h->gguf->arena, printed);
	return *text == NULL ? fail_memory(error) : EXIT_OK;
}

static int take_value(struct reading *h, const char *key, uint32_t type, const char **text, struct error *error)
{
	if (type >= N_GGUF_TYPES)
		return fail(error, EXIT_INPUT, "%s: %s: value type %" PRIu32 " is not known", h->source.path, h->what, type);
	if (type != GGUF_TYPE_U32 && strcmp(key, GGUF_KEY_ALIGNMENT) == 0)
		return fail(error, EXIT_INPUT, "%s: " GGUF_KEY_ALIGNMENT ": is not a u32", h->source.path);
	if (type == GGUF_TYPE_ARRAY)
		return take_array(h, error);
	if (type == GGUF_TYPE_STRING)
		return take_string(&h->source, &h->gguf->arena, TEXT_MAX, text, h->what, error);
	return take_scalar(h, key, (enum gguf_type)type, text, error);
}

static int take_pair(struct reading *h, struct error *error)
{
	struct gguf_pair *pair = &h->gguf->pairs[h->gguf->n_pairs++];
	const char *value = NULL;
	uint32_t type = 0;

	snprintf(h->what, sizeof h->what, "key %zu", h->gguf->n_pairs);
	pair->from = h->source.at;
	int code = take_string(&h->source, &h->gguf->arena, KEY_MAX, &pair->key, h->what, error);
	if (code == EXIT_OK && pair->key == NULL)
		code = fail(error, EXIT_INPUT, "%s: %s: is not UTF-8 text without NUL of at most %d bytes", h->source.path,
		            h->what, (int)KEY_MAX);
	if (code != EXIT_OK)
		return code;
	snprintf(h->what, sizeof h->what, "key '%.48s'", pair->key);
	code = take_u32(&h->source, &type, h->what, error);
	if (code == EXIT_OK)
		code = take_value(h, pair->key, type, &value, error);
	pair->size = h->source.at - pair->from;
	pair->is_array = type == GGUF_TYPE_ARRAY;
	if (value != NULL)
		h->file->metadata[h->file->n_metadata++] = (struct metadata){pair->key, value};
	return code;
}

static int sort_keys(const struct reading *h, struct error *error)
{
	size_t n = h->gguf->n_pairs;
	const char **keys = h->gguf->keys = calloc(n + 1, sizeof(const char *));

	if (keys == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++)
		keys[i] = h->gguf->pairs[i].key;
	const char *twice = file_sort_names(keys, n);
	if (twice != NULL)
		return fail(error, EXIT_INPUT, "%s: key '%.200s': occurs in the file twice", h->source.path, twice);
	return EXIT_OK;
}

static int take_pairs(struct reading *h, uint64_t n, struct error *error)
{
	int code = check_count(h, n, PAIR_BYTES_MIN, "key-values", error);

	if (code != EXIT_OK)
		return code;
	h->gguf->pairs = calloc((size_t)n + 1, sizeof *h->gguf->pairs);
	h->file->metadata = calloc((size_t)n + 1, sizeof *h->file->metadata);
	if (h->gguf->pairs == NULL || h->file->metadata == NULL)
		return fail_memory(error);
	for (uint64_t i = 0; i < n && code == EXIT_OK; i++)
		code = take_pair(h, error);
	return code != EXIT_OK ? code : sort_keys(h, error);
}

static bool probe(const unsigned char first[FILE_PROBE_BYTES])
{
	return memcmp(first, GGUF_MAGIC, strlen(GGUF_MAGIC)) == 0;
}

static int take_shape(struct reading *h, struct tensor *tensor, struct error *error)
{
	uint32_t rank;
	int code = take_u32(&h->source, &rank, h->what, error);

	if (code != EXIT_OK)
		return code;
	if (rank > GGUF_RANK_MAX)
		return fail_tensor(error, h->source.path, tensor->name, "has %" PRIu32 " dimensions, more than %d", rank,
		                   (int)GGUF_RANK_MAX);
	uint64_t *shape = arena_take(&h->gguf->arena, GGUF_RANK_MAX * sizeof *shape);
	if (shape == NULL)
		return fail_memory(error);
	for (unsigned i = rank; i-- > 0 && code == EXIT_OK;)
		code = take_u64(&h->source, &shape[i], h->what, error);
	tensor->rank = rank;
	tensor->shape = shape;
	return code;
}

static int check_size(struct reading *h, struct tensor *tensor, struct error *error)
{
	const struct dtype_info *info = dtype_info(tensor->dtype);
	uint64_t rows, cols;

	if (tensor_size(tensor, &tensor->size))
		return EXIT_OK;
	tensor_matrix(tensor, &rows, &cols);
	if (cols % info->block_elements != 0)
		return fail_tensor(error, h->source.path, tensor->name, "rows of %" PRIu64 " are not whole blocks of %s, "
		                   "which have %u elements", cols, info->name, info->block_elements);
	return fail_tensor(error, h->source.path, tensor->name, "size by its shape and type %s is too large",
	                   info->name);
}

static int take_tensor(struct reading *h, struct error *error)
{
	struct tensor *tensor = &h->file->tensors[h->file->n_tensors++];
	uint32_t type;

	snprintf(h->what, sizeof h->what, "tensor %zu", h->file->n_tensors);
	int code = take_string(&h->source, &h->gguf->arena, GGUF_NAME_MAX, &tensor->name, h->what, error);
	if (code == EXIT_OK && tensor->name == NULL)
		code = fail(error, EXIT_INPUT, "%s: %s: the name is not UTF-8 text without NUL of at most %d bytes",
		            h->source.path, h->what, (int)GGUF_NAME_MAX);
	if (code != EXIT_OK)
		return code;
	snprintf(h->what, sizeof h->what, "tensor '%.48s'", tensor->name);
	code = take_shape(h, tensor, error);
	if (code == EXIT_OK)
		code = take_u32(&h->source, &type, h->what, error);
	if (code == EXIT_OK)
		code = take_u64(&h->source, &tensor->offset, h->what, error);
	if (code != EXIT_OK)
		return code;
	tensor->dtype = dtype_of(type);
	if (tensor->dtype == N_DTYPES)
		return fail_tensor(error, h->source.path, tensor->name, "type %" PRIu32 " is not known", type);
	return check_size(h, tensor, error);
}

/* Reads the magic and the version, whose bytes are swapped in a big-endian file. */
static int take_version(struct reading *h, struct error *error)
{
	char magic[4];
	uint32_t version;
	int code = take(&h->source, magic, sizeof magic, "the start of the file", error);

	if (code == EXIT_OK)
		code = take_u32(&h->source, &version, "the version", error);
	if (code != EXIT_OK)
		return code;
	if (memcmp(magic, GGUF_MAGIC, sizeof magic) != 0)
		return fail(error, EXIT_INPUT, "%s: does not begin with " GGUF_MAGIC "%s", h->source.path,
		            memcmp(magic, "tjgg", 4) == 0 || memcmp(magic, "lmgg", 4) == 0 ||
		            memcmp(magic, "fmgg", 4) == 0 ? " but as the formats before it; convert it" : "");
	if (version >> 24 != 0 && version >> 24 <= GGUF_VERSION && (version & 0xFFFFFF) == 0)
		return fail(error, EXIT_INPUT, "%s: is big-endian; gguf_convert_endian.py of gguf-py makes it "
		            "little-endian", h->source.path);
	if (version < OLDEST_VERSION || version > GGUF_VERSION)
		return fail(error, EXIT_INPUT, "%s: is of version %" PRIu32 "; %d and %d are known; look for a newer file of the model",
		            h->source.path, version, (int)OLDEST_VERSION, (int)GGUF_VERSION);
	return EXIT_OK;
}

static int take_tensors(struct reading *h, uint64_t n, struct error *error)
{
	int code = check_count(h, n, TENSOR_BYTES_MIN, "tensors", error);

	if (code != EXIT_OK)
		return code;
	h->file->tensors = calloc((size_t)n + 1, sizeof *h->file->tensors);
	if (h->file->tensors == NULL)
		return fail_memory(error);
	for (uint64_t i = 0; i < n && code == EXIT_OK; i++)
		code = take_tensor(h, error);
	return code;
}

/* Checks that each tensor's data begin where those before it end, padded. */
static int check_places(const struct file *file, uint32_t alignment, struct error *error)
{
	uint64_t end = 0;

	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct tensor *tensor = &file->tensors[i];
		uint64_t begin = align(end, alignment);

		if (tensor->offset != begin)
			return fail_tensor(error, file->path, tensor->name, "data begin at %" PRIu64 " but, with those before "
			                   "and padding to %" PRIu32 ", %" PRIu64 " was due", tensor->offset, alignment, begin);
		if (begin > file->data_bytes || tensor->size > file->data_bytes - begin)
			return fail_tensor(error, file->path, tensor->name, "data take %" PRIu64 " bytes from %" PRIu64
			                   " on, but the file has %" PRIu64 "; it may have been cut off: download or copy it again", tensor->size,
			                   begin, file->data_bytes);
		end = begin + tensor->size;
	}
	if (file->data_bytes - end >= alignment)
		return fail(error, EXIT_INPUT, "%s: bytes that no tensor has at the end: %" PRIu64, file->path,
		            file->data_bytes - end);
	return EXIT_OK;
}

static int take_header(struct reading *h, struct error *error)
{
	uint64_t n_tensors, n_pairs;
	int code = take_version(h, error);

	if (code == EXIT_OK)
		code = take_u64(&h->source, &n_tensors, "the number of tensors", error);
	if (code == EXIT_OK)
		code = take_u64(&h->source, &n_pairs, "the number of key-values", error);
	if (code == EXIT_OK)
		code = take_pairs(h, n_pairs, error);
	if (code == EXIT_OK)
		code = take_tensors(h, n_tensors, error);
	if (code != EXIT_OK)
		return code;
	uint64_t start = align(h->source.at, h->gguf->alignment), size = h->source.size;
	h->file->header_bytes = start < size ? start : size;
	h->file->data_bytes = size - h->file->header_bytes;
	code = file_sort_tensors(h->file, error);
	return code != EXIT_OK ? code : check_places(h->file, h->gguf->alignment, error);
}

static bool has_blocks(const struct tensor *tensors, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (dtype_info(tensors[i].dtype)->block_elements > 1)
			return true;
	return false;
}

/* Reads one file, which may be a part. */
static int open_part(struct file *file, struct error *error)
{
	struct reading h = {.file = file, .gguf = calloc(1, sizeof *h.gguf)};

	file->state = h.gguf;
	h.source = (struct source){
		.handle = file->handle,
		.path = file->path,
		.size = file->size_bytes,
		.bytes = malloc(SOURCE_BYTES),
	};
	int code = h.gguf == NULL || h.source.bytes == NULL ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK) {
		h.gguf->alignment = GGUF_ALIGNMENT;
		code = take_header(&h, error);
	}
	free(h.source.bytes);
	return code;
}

/* A key's value, of which `source` is at what follows the type. */
struct value {
	const char *key;
	enum gguf_type type;
	enum gguf_type element; /* of an array */
	uint64_t n;              /* elements of an array, else 1 */
	struct source source;
};

static int fail_value(const struct value *value, const char *wanted, struct error *error)
{
	static const char *const names[N_GGUF_TYPES] = {
		"a u8", "an i8", "a u16", "an i16", "a u32", "an i32", "a float", "a bool", "a string", "an array", "a u64",
		"an i64", "a double",
	};
	const bool array = value->type == GGUF_TYPE_ARRAY && value->element != GGUF_TYPE_ARRAY;

	return fail(error, EXIT_INPUT, "%s: key '%.200s': is %s%s%s, not %s", value->source.path, value->key,
	            names[value->type], array ? " whose elements are each " : "", array ? names[value->element] : "", wanted);
}

/* The pair of a key, or NULL. */
static const struct gguf_pair *find_pair(const struct file *file, const char *key)
{
	const struct gguf *gguf = file->format == &file_gguf ? file->state : NULL;

	for (size_t i = 0; gguf != NULL && i < gguf->n_pairs; i++)
		if (strcmp(gguf->pairs[i].key, key) == 0)
			return &gguf->pairs[i];
	return NULL;
}

const char *gguf_key(const struct file *file, size_t i)
{
	const struct gguf *gguf = file->format == &file_gguf ? file->state : NULL;

	return gguf != NULL && i < gguf->n_pairs ? gguf->keys[i] : NULL;
}

bool gguf_has(const struct file *file, const char *key)
{
	return find_pair(file, key) != NULL;
}

bool gguf_is_array(const struct file *file, const char *key)
{
	const struct gguf_pair *pair = find_pair(file, key);

	return pair != NULL && pair->is_array;
}

/* Goes to the value of a key; value->source.bytes, the caller's to release, is NULL if there is none. What the reader of
   the header checked holds: types are known, sizes are within the pair. */
static int find_value(const struct file *file, const char *key, struct value *value, bool *found, struct error *error)
{
	const struct gguf_pair *pair = find_pair(file, key);
	uint32_t type, element = GGUF_TYPE_ARRAY;

	*value = (struct value){.key = key, .n = 1};
	*found = pair != NULL;
	if (pair == NULL)
		return EXIT_OK;
	value->source = (struct source){.handle = file->handle, .path = file->path, .bytes = malloc(SOURCE_BYTES)};
	if (value->source.bytes == NULL)
		return fail_memory(error);
	value->source.size = pair->from + pair->size;
	value->source.at = value->source.from = pair->from + sizeof(uint64_t) + strlen(key);
	int code = take_u32(&value->source, &type, key, error);
	if (code == EXIT_OK && type == GGUF_TYPE_ARRAY) {
		code = take_u32(&value->source, &element, key, error);
		if (code == EXIT_OK)
			code = take_u64(&value->source, &value->n, key, error);
	}
	if (code == EXIT_OK && (type >= N_GGUF_TYPES || element >= N_GGUF_TYPES))
		code = fail(error, EXIT_INPUT, "%s: has changed while it was read", file->path);
	value->type = (enum gguf_type)type;
	value->element = (enum gguf_type)element;
	return code;
}

static bool is_whole(enum gguf_type type)
{
	return type <= GGUF_TYPE_I32 || type == GGUF_TYPE_U64 || type == GGUF_TYPE_I64;
}

/* Takes a whole number of this type, which is not negative. */
static int take_natural(struct value *value, enum gguf_type type, uint64_t *number, struct error *error)
{
	int code = take_number(&value->source, type_bytes[type], number, value->key, error);
	const bool is_signed = type == GGUF_TYPE_I8 || type == GGUF_TYPE_I16 || type == GGUF_TYPE_I32 || type == GGUF_TYPE_I64;

	if (code == EXIT_OK && is_signed && *number >> (8U * type_bytes[type] - 1) != 0)
		code = fail(error, EXIT_INPUT, "%s: key '%.200s': holds a negative number", value->source.path, value->key);
	return code;
}

static int take_float(struct value *value, enum gguf_type type, double *number, struct error *error)
{
	uint64_t word;
	int code = take_number(&value->source, type_bytes[type], &word, value->key, error);
	uint32_t half = (uint32_t)word;
	float f32;

	memcpy(&f32, &half, sizeof f32);
	if (type == GGUF_TYPE_F32)
		*number = (double)f32;
	else
		memcpy(number, &word, sizeof *number);
	return code;
}

int gguf_find_u64(const struct file *file, const char *key, uint64_t *number, bool *found, struct error *error)
{
	struct value value;
	int code = find_value(file, key, &value, found, error);

	if (code == EXIT_OK && *found)
		code = is_whole(value.type) ? take_natural(&value, value.type, number, error)
		                            : fail_value(&value, "a whole number", error);
	free(value.source.bytes);
	return code;
}

int gguf_find_u32(const struct file *file, const char *key, uint32_t *number, bool *found, struct error *error)
{
	uint64_t wide = 0;
	int code = gguf_find_u64(file, key, &wide, found, error);

	if (code == EXIT_OK && wide > UINT32_MAX)
		return fail(error, EXIT_INPUT, "%s: key '%.200s': %" PRIu64 " is 2^32 or more", file->path, key, wide);
	if (code == EXIT_OK && *found)
		*number = (uint32_t)wide;
	return code;
}

int gguf_find_float(const struct file *file, const char *key, double *number, bool *found, struct error *error)
{
	struct value value;
	int code = find_value(file, key, &value, found, error);

	if (code == EXIT_OK && *found)
		code = value.type == GGUF_TYPE_F32 || value.type == GGUF_TYPE_F64 ? take_float(&value, value.type, number, error)
		                                                         : fail_value(&value, "a float", error);
	free(value.source.bytes);
	return code;
}

int gguf_find_bool(const struct file *file, const char *key, bool *boolean, bool *found, struct error *error)
{
	struct value value;
	uint64_t word = 0;
	int code = find_value(file, key, &value, found, error);

	if (code == EXIT_OK && *found)
		code = value.type == GGUF_TYPE_BOOL ? take_number(&value.source, 1, &word, key, error)
		                               : fail_value(&value, "a bool", error);
	if (code == EXIT_OK && *found)
		*boolean = word != 0;
	free(value.source.bytes);
	return code;
}

int gguf_find_string(const struct file *file, const char *key, const char **text, bool *found, struct error *error)
{
	struct value value;
	int code = find_value(file, key, &value, found, error);

	free(value.source.bytes);
	if (code != EXIT_OK || !*found)
		return code;
	if (value.type != GGUF_TYPE_STRING)
		return fail_value(&value, "a string", error);
	const char *known = file_metadata(file, key);
	if (known == NULL)
		return fail(error, EXIT_INPUT, "%s: key '%.200s': is not UTF-8 text without NUL of at most %d bytes", file->path,
		            key, (int)TEXT_MAX);
	*text = known;
	return EXIT_OK;
}

static int take_strings(struct value *value, struct gguf_strings *strings, struct error *error)
{
	/* Each has its length in the file besides its bytes, so both fit. */
	const size_t n = (size_t)value->n, room = (size_t)(value->source.size - value->source.at);
	int code = EXIT_OK;
	size_t used = 0;

	strings->starts = calloc(n + 1, sizeof *strings->starts);
	strings->bytes = malloc(room + 1);
	if (strings->starts == NULL || strings->bytes == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		uint64_t length = 0;

		code = take_u64(&value->source, &length, value->key, error);
		if (code == EXIT_OK && length > room - used)
			code = fail(error, EXIT_INPUT, "%s: has changed while it was read", value->source.path);
		if (code == EXIT_OK)
			code = take(&value->source, strings->bytes + used, (size_t)length, value->key, error);
		used += code == EXIT_OK ? (size_t)length : 0;
		strings->starts[i + 1] = used;
	}
	strings->n = n;
	return code;
}

int gguf_find_strings(const struct file *file, const char *key, struct gguf_strings *strings, bool *found,
                      struct error *error)
{
	struct value value;
	struct gguf_strings new_strings = {0};
	int code = find_value(file, key, &value, found, error);

	if (code == EXIT_OK && *found)
		code = value.type == GGUF_TYPE_ARRAY && value.element == GGUF_TYPE_STRING ? take_strings(&value, &new_strings, error)
		       : fail_value(&value, "an array of strings", error);
	free(value.source.bytes);
	if (code != EXIT_OK)
		gguf_strings_free(&new_strings);
	else if (*found)
		*strings = new_strings;
	return code;
}

void gguf_strings_free(struct gguf_strings *strings)
{
	free(strings->starts);
	free(strings->bytes);
	*strings = (struct gguf_strings){0};
}

/* Takes one element of an array into `to`. */
typedef int take_element(struct value *value, void *to, struct error *error);

static int take_float_element(struct value *value, void *to, struct error *error)
{
	double number = 0;
	int code = take_float(value, value->element, &number, error);

	*(float *)to = (float)number;
	return code;
}

static int take_natural_element(struct value *value, void *to, struct error *error)
{
	return take_natural(value, value->element, to, error);
}

static int take_bool_element(struct value *value, void *to, struct error *error)
{
	uint64_t word = 0;
	int code = take_number(&value->source, 1, &word, value->key, error);

	*(bool *)to = word != 0;
	return code;
}

static bool is_float(enum gguf_type type)
{
	return type == GGUF_TYPE_F32;
}

static bool is_bool(enum gguf_type type)
{
	return type == GGUF_TYPE_BOOL;
}

/* Takes an array whose elements are of a kind, each `bytes` in memory. */
static int find_array(const struct file *file, const char *key, bool (*kind)(enum gguf_type), const char *wanted,
                      take_element *element, size_t bytes, void **values, size_t *n, bool *found, struct error *error)
{
	struct value value;
	unsigned char *to = NULL;
	int code = find_value(file, key, &value, found, error);

	if (code == EXIT_OK && *found && (value.type != GGUF_TYPE_ARRAY || !kind(value.element)))
		code = fail_value(&value, wanted, error);
	/* The header's limit is on n too, each element having a byte there. */
	if (code == EXIT_OK && *found && (value.n > HEADER_MAX || (to = calloc((size_t)value.n + 1, bytes)) == NULL))
		code = fail_memory(error);
	for (size_t i = 0; to != NULL && i < value.n && code == EXIT_OK; i++)
		code = element(&value, to + i * bytes, error);
	free(value.source.bytes);
	if (code != EXIT_OK) {
		free(to);
	} else if (*found) {
		*values = to;
		*n = (size_t)value.n;
	}
	return code;
}

int gguf_find_floats(const struct file *file, const char *key, float **values, size_t *n, bool *found,
                     struct error *error)
{
	void *floats = *values;
	int code = find_array(file, key, is_float, "an array of floats", take_float_element, sizeof **values, &floats, n,
	                      found, error);

	*values = floats;
	return code;
}

int gguf_find_u64s(const struct file *file, const char *key, uint64_t **values, size_t *n, bool *found,
                   struct error *error)
{
	void *numbers = *values;
	int code = find_array(file, key, is_whole, "an array of whole numbers", take_natural_element, sizeof **values,
	                      &numbers, n, found, error);

	*values = numbers;
	return code;
}

int gguf_find_bools(const struct file *file, const char *key, bool **values, size_t *n, bool *found,
                    struct error *error)
{
	void *booleans = *values;
	int code = find_array(file, key, is_bool, "an array of bools", take_bool_element, sizeof **values, &booleans, n,
	                      found, error);

	*values = booleans;
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

/* What a file says of the model that it is a part of. */
struct split {
	uint64_t part, parts, tensors;
	bool has_tensors;
};

static bool is_split_key(const char *key)
{
	return strcmp(key, GGUF_KEY_PART) == 0 || strcmp(key, GGUF_KEY_PARTS) == 0 || strcmp(key, GGUF_KEY_ALL_TENSORS) == 0;
}

/* `parts` is 1 of a file that is whole: without the keys, or as llama-gguf-split --merge leaves them. */
static int read_split(const struct file *file, struct split *split, struct error *error)
{
	bool has_parts, has_part = false;
	int code = gguf_find_u64(file, GGUF_KEY_PARTS, &split->parts, &has_parts, error);

	if (code == EXIT_OK && (!has_parts || split->parts == 0))
		split->parts = 1;
	if (code == EXIT_OK && split->parts > PARTS_MAX)
		code = fail(error, EXIT_INPUT, "%s: " GGUF_KEY_PARTS ": %" PRIu64 " is more than the %d that llama.cpp takes",
		            file->path, split->parts, (int)PARTS_MAX);
	if (code == EXIT_OK)
		code = gguf_find_u64(file, GGUF_KEY_PART, &split->part, &has_part, error);
	if (code == EXIT_OK)
		code = gguf_find_u64(file, GGUF_KEY_ALL_TENSORS, &split->tensors, &split->has_tensors, error);
	if (code != EXIT_OK || split->parts == 1)
		return code;
	if (!has_part || split->part >= split->parts)
		return fail(error, EXIT_INPUT, "%s: says that it is one of %" PRIu64 " files (" GGUF_KEY_PARTS "), and its "
		            GGUF_KEY_PART " does not say which; split the model again with llama-gguf-split", file->path,
		            split->parts);
	return EXIT_OK;
}

/* The end of a part's name, as llama_split_path() has it. */
static void name_part(char name[PART_NAME], unsigned part, unsigned parts)
{
	snprintf(name, PART_NAME, "-%05u-of-%05u.gguf", part + 1, parts);
}

/* Opens part `i`, whose path is *path: `named`, or one beside it, which then has that part's name. */
static int open_other(struct file *part, uint64_t i, char *path, const struct file *named, const struct split *split,
                      struct error *error)
{
	struct split own = {0};
	char end[PART_NAME];
	int code;

	name_part(end, (unsigned)i, (unsigned)split->parts);
	memcpy(path + strlen(path) - strlen(end), end, strlen(end));
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return fail(error, EXIT_INPUT, "%s: is missing: %s is one of the %" PRIu64 " files of a split model; put all of "
		            "them beside each other", path, named->path, split->parts);
	*part = (struct file){.path = strdup(path), .format = &file_gguf};
	if (part->path == NULL)
		return fail_memory(error);
	code = handle_open_like(&part->handle, named->handle, path, error);
	if (code != EXIT_OK)
		return code;
	part->size_bytes = (uint64_t)handle_status(part->handle)->st_size;
	code = open_part(part, error);
	if (code == EXIT_OK)
		code = read_split(part, &own, error);
	if (code != EXIT_OK)
		return code;
	if (own.parts != split->parts || own.part != i)
		return fail(error, EXIT_INPUT, "%s: is file %" PRIu64 " of %" PRIu64 " by its " GGUF_KEY_PART " and "
		            GGUF_KEY_PARTS ", and %s needs file %" PRIu64 " of %" PRIu64 " under this name", path, own.part + 1,
		            own.parts, named->path, i + 1, split->parts);
	if (own.has_tensors && split->has_tensors && own.tensors != split->tensors)
		return fail(error, EXIT_INPUT, "%s: is of a model of %" PRIu64 " tensors (" GGUF_KEY_ALL_TENSORS "), and %s is of "
		            "one of %" PRIu64, path, own.tensors, named->path, split->tensors);
	return EXIT_OK;
}

static int open_parts(struct file *whole, const struct split *split, struct error *error)
{
	char end[PART_NAME], *path = strdup(whole->path);
	int code = EXIT_OK;

	if (path == NULL)
		return fail_memory(error);
	name_part(end, (unsigned)split->part, (unsigned)split->parts);
	if (suffix_stem(path, end) == 0)
		code = fail(error, EXIT_INPUT, "%s: is file %" PRIu64 " of the %" PRIu64 " of a split model, and its name does not "
		            "end in %s, as the others are found by; give it the name that llama-gguf-split gave it", path,
		            split->part + 1, split->parts, end);
	for (uint64_t i = 0; i < split->parts && code == EXIT_OK; i++) {
		if (i == split->part)
			continue;
		code = open_other(&whole->parts[i], i, path, &whole->parts[split->part], split, error);
	}
	free(path);
	return code;
}

/* Refuses a part that says that it is of another architecture; mostly the first alone says one. */
static int check_architecture(const struct file *first, const struct file *part, struct error *error)
{
	static const char key[] = "general.architecture";
	const char *here = file_metadata(first, key), *there = file_metadata(part, key);

	if (there == NULL || (here != NULL && strcmp(here, there) == 0))
		return EXIT_OK;
	return fail(error, EXIT_INPUT, "%s: %s: is '%.60s', and %s has %s%.60s%s, so they belong to different models", part->path,
	            key, there, first->path, here != NULL ? "'" : "none", here != NULL ? here : "", here != NULL ? "'" : "");
}

/* Fails because a tensor stands in two parts. */
static int fail_twice(const struct file *whole, const char *name, struct error *error)
{
	const char *paths[2] = {"", ""};
	int n = 0;

	for (size_t i = 0; i < whole->n_parts && n < 2; i++)
		if (file_find(&whole->parts[i], name) != NULL)
			paths[n++] = whole->parts[i].path;
	return fail_tensor(error, paths[0], name, "is in %s too, so they belong to different models, or split differently",
	                   paths[1]);
}

static int check_tensors(const struct file *whole, const struct split *split, struct error *error)
{
	const char **names = calloc(whole->n_tensors + 1, sizeof(const char *)), *twice;
	int code = names != NULL ? EXIT_OK : fail_memory(error);

	for (size_t i = 0; i < whole->n_tensors && code == EXIT_OK; i++)
		names[i] = whole->tensors[i].name;
	if (code == EXIT_OK && (twice = file_sort_names(names, whole->n_tensors)) != NULL)
		code = fail_twice(whole, twice, error);
	free(names);
	for (size_t i = 1; i < whole->n_parts && code == EXIT_OK; i++)
		code = check_architecture(&whole->parts[0], &whole->parts[i], error);
	if (code == EXIT_OK && split->has_tensors && whole->n_tensors != split->tensors)
		code = fail(error, EXIT_INPUT, "%s: the %zu files of the model have %zu tensors together, and " GGUF_KEY_ALL_TENSORS
		            " says %" PRIu64 ", so one of them belongs to another model", whole->path, whole->n_parts,
		            whole->n_tensors, split->tensors);
	return code;
}

/* Lists the tensors of all parts, where they lie when the files stand one behind the other. */
static int join_tensors(struct file *whole, struct error *error)
{
	uint64_t start = 0;
	size_t n = 0;

	for (size_t i = 0; i < whole->n_parts; i++)
		n += whole->parts[i].n_tensors;
	whole->tensors = calloc(n + 1, sizeof *whole->tensors);
	if (whole->tensors == NULL)
		return fail_memory(error);
	whole->header_bytes = whole->parts[0].header_bytes;
	for (size_t i = 0; i < whole->n_parts; i++) {
		const struct file *part = &whole->parts[i];

		for (size_t t = 0; t < part->n_tensors; t++) {
			struct tensor *tensor = &whole->tensors[whole->n_tensors++];

			*tensor = part->tensors[t];
			tensor->offset += start + part->header_bytes - whole->header_bytes;
		}
		start += part->size_bytes;
		whole->data_bytes += part->data_bytes;
	}
	whole->size_bytes = start;
	return EXIT_OK;
}

static int join_rest(struct file *whole, struct error *error)
{
	const struct file *first = &whole->parts[0];
	struct handle **handles = calloc(whole->n_parts, sizeof(struct handle *));
	char *path = strdup(first->path);
	int code = EXIT_OK;

	whole->metadata = calloc(first->n_metadata + 1, sizeof *whole->metadata);
	if (handles == NULL || path == NULL || whole->metadata == NULL) {
		free(handles);
		free(path);
		return fail_memory(error);
	}
	free(whole->path);
	whole->path = path;
	whole->state = first->state;
	for (size_t i = 0; i < first->n_metadata; i++)
		if (!is_split_key(first->metadata[i].key))
			whole->metadata[whole->n_metadata++] = first->metadata[i];
	for (size_t i = 0; i < whole->n_parts; i++)
		handles[i] = whole->parts[i].handle;
	code = handle_join(&whole->handle, handles, whole->n_parts, error);
	free(handles);
	return code;
}

/* Makes the file, which is a part, the whole. After a failure file_close() finds what there is. */
static int open_whole(struct file *file, const struct split *split, struct error *error)
{
	struct file *parts = calloc((size_t)split->parts, sizeof *parts);
	char *path = strdup(file->path);

	if (parts == NULL || path == NULL) {
		free(parts);
		free(path);
		return fail_memory(error);
	}
	parts[split->part] = *file;
	*file = (struct file){.path = path, .format = &file_gguf, .n_parts = (size_t)split->parts, .parts = parts};
	int code = open_parts(file, split, error);
	if (code == EXIT_OK)
		code = join_tensors(file, error);
	if (code == EXIT_OK)
		code = join_rest(file, error);
	if (code == EXIT_OK)
		code = check_tensors(file, split, error);
	return code == EXIT_OK ? file_sort_tensors(file, error) : code;
}

/* Blocks of another version of ggml's layouts mean other numbers; those of 1 had binary32 scales. */
static int check_version(const struct file *file, struct error *error)
{
	uint64_t version = QUANTIZATION_VERSION;
	bool found;
	int code = gguf_find_u64(file, GGUF_KEY_QUANTIZATION, &version, &found, error);

	if (code == EXIT_OK && version != QUANTIZATION_VERSION && has_blocks(file->tensors, file->n_tensors))
		code = fail(error, EXIT_INPUT, "%s: " GGUF_KEY_QUANTIZATION ": is %" PRIu64 ", and only blocks of version %d are known",
		            file->path, version, (int)QUANTIZATION_VERSION);
	return code;
}

static int open_header(struct file *file, struct error *error)
{
	struct split split = {0};
	int code = open_part(file, error);

	if (code == EXIT_OK)
		code = read_split(file, &split, error);
	if (code == EXIT_OK && split.parts > 1)
		code = open_whole(file, &split, error);
	return code == EXIT_OK ? check_version(file, error) : code;
}

/* enum llama_ftype (llama.cpp/include/llama.h) of files whose tensors are mostly of a dtype. */
static const struct {
	enum dtype dtype;
	uint32_t file_type;
} file_types[] = {
	{DTYPE_F32, 0}, {DTYPE_F16, 1}, {DTYPE_Q8_0, 7}, {DTYPE_BF16, 32}, {DTYPE_MXFP4, 38}, {DTYPE_NVFP4, 39},
};

/* A key-value pair that follows from the tensors. */
struct derived {
	const char *key;
	uint32_t value;
};

/* A header being put together in memory. */
struct header {
	const struct writer *writer;
	unsigned n_derived;
	struct derived derived[N_DERIVED];
	FILE *stream;
	char *bytes;
	size_t n;
	uint64_t n_pairs;
};

/* Returns the file's general.file_type, or -1. It is that of the dtype with the most elements, among blocks if there
   are any, else among numbers. */
static int64_t file_type(const struct writer *writer)
{
	uint64_t elements[N_DTYPES] = {0};
	int most = -1;

	for (size_t i = 0; i < writer->n_tensors; i++)
		elements[writer->tensors[i].dtype] += tensor_elements(&writer->tensors[i]);
	for (int d = 0; d < N_DTYPES; d++) {
		const bool blocks = dtype_info((enum dtype)d)->block_elements > 1;
		const bool instead = most < 0 || (blocks && dtype_info((enum dtype)most)->block_elements == 1) ||
		                     elements[d] > elements[most];

		if (elements[d] > 0 && instead)
			most = d;
	}
	for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
		if ((int)file_types[i].dtype == most)
			return file_types[i].file_type;
	return -1;
}

/* Fills in the pairs that follow from the tensors; returns how many. */
static unsigned derive_pairs(const struct writer *writer, struct derived derived[N_DERIVED])
{
	const int64_t type = file_type(writer);
	unsigned n = 0;

	if (writer->pairs != NULL || has_blocks(writer->tensors, writer->n_tensors))
		derived[n++] = (struct derived){GGUF_KEY_QUANTIZATION, QUANTIZATION_VERSION};
	if (type >= 0)
		derived[n++] = (struct derived){GGUF_KEY_FILE_TYPE, (uint32_t)type};
	return n;
}

/* Returns the state of the file whose pairs are copied, or NULL. */
static const struct gguf *source_of(const struct writer *writer)
{
	return writer->source != NULL && writer->source->format == &file_gguf ? writer->source->state : NULL;
}

static uint32_t alignment_of(const struct writer *writer)
{
	const struct gguf *source = source_of(writer);

	return source != NULL ? source->alignment : GGUF_ALIGNMENT;
}

static bool is_derived(const struct header *h, const char *key)
{
	for (unsigned i = 0; i < h->n_derived; i++)
		if (strcmp(h->derived[i].key, key) == 0)
			return true;
	return false;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether a pair of the metadata is added; the alignment of a source comes from the source. */
static bool is_added(const struct header *h, const char *key)
{
	const struct gguf *source = source_of(h->writer);

	if (metadata_is_own(key))
		return true;
	if (is_derived(h, key) || is_split_key(key) || strcmp(key, GGUF_KEY_ALIGNMENT) == 0)
		return false;
	return source == NULL || source->n_pairs == 0 ||
	       bsearch(&key, source->keys, source->n_pairs, sizeof *source->keys, compare_keys) == NULL;
}

static void put_number(struct header *h, uint64_t number, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		putc((int)(number >> 8 * i & 0xFF), h->stream);
}

static void put_string(struct header *h, const char *text)
{
	put_number(h, strlen(text), 8);
	fputs(text, h->stream);
}

static int put_carried(struct header *h, const struct gguf_pair *pair, struct error *error)
{
	const struct file *source = h->writer->source;
	char bytes[COPY_BYTES];
	int code = EXIT_OK;

	for (uint64_t done = 0; done < pair->size && code == EXIT_OK;) {
		uint64_t left = pair->size - done;
		size_t n = left < sizeof bytes ? (size_t)left : sizeof bytes;

		code = handle_read(source->handle, pair->from + done, bytes, n, error);
		if (code == EXIT_OK)
			fwrite(bytes, 1, n, h->stream);
		done += n;
	}
	h->n_pairs++;
	return code;
}

static int put_added(struct header *h, const struct metadata *metadata, struct error *error)
{
	if (strlen(metadata->key) > KEY_MAX)
		return fail(error, EXIT_INPUT, "%s: metadata key '%.48s...' has more than the %d bytes that GGUF allows",
		            h->writer->path, metadata->key, (int)KEY_MAX);
	put_string(h, metadata->key);
	put_number(h, GGUF_TYPE_STRING, 4);
	put_string(h, metadata->value);
	h->n_pairs++;
	return EXIT_OK;
}

static int put_pairs(struct header *h, struct error *error)
{
	const struct gguf *source = source_of(h->writer);
	int code = EXIT_OK;

	if (h->writer->pairs != NULL) {
		fwrite(h->writer->pairs->bytes, 1, h->writer->pairs->n_bytes, h->stream);
		h->n_pairs += h->writer->pairs->n;
	}
	for (size_t i = 0; source != NULL && i < source->n_pairs && code == EXIT_OK; i++)
		if (!metadata_is_own(source->pairs[i].key) && !is_split_key(source->pairs[i].key) &&
		    !is_derived(h, source->pairs[i].key))
			code = put_carried(h, &source->pairs[i], error);
	for (size_t i = 0; i < h->writer->n_metadata && code == EXIT_OK; i++)
		if (is_added(h, h->writer->metadata[i].key))
			code = put_added(h, &h->writer->metadata[i], error);
	for (unsigned i = 0; i < h->n_derived; i++, h->n_pairs++) {
		put_string(h, h->derived[i].key);
		put_number(h, GGUF_TYPE_U32, 4);
		put_number(h, h->derived[i].value, 4);
	}
	return code;
}

static void put_tensor(struct header *h, const struct tensor *tensor)
{
	put_string(h, tensor->name);
	put_number(h, tensor->rank, 4);
	for (unsigned i = tensor->rank; i-- > 0;)
		put_number(h, tensor->shape[i], 8);
	put_number(h, (uint64_t)type_of(tensor->dtype), 4);
	put_number(h, tensor->offset, 8);
}

static int put_all(struct header *h, struct error *error)
{
	const struct writer *writer = h->writer;

	fputs(GGUF_MAGIC, h->stream);
	put_number(h, GGUF_VERSION, 4);
	put_number(h, writer->n_tensors, 8);
	put_number(h, 0, 8);
	int code = put_pairs(h, error);
	for (size_t i = 0; i < writer->n_tensors; i++)
		put_tensor(h, &writer->tensors[i]);
	while (ftell(h->stream) % alignment_of(writer) != 0)
		putc(0, h->stream);
	return code;
}

/* Formats the whole header with the padding after it. The caller frees the bytes, even after a failure. */
static int format_header(struct header *h, const struct writer *writer, struct error *error)
{
	*h = (struct header){.writer = writer};
	h->n_derived = derive_pairs(writer, h->derived);
	h->stream = open_memstream(&h->bytes, &h->n);
	if (h->stream == NULL)
		return fail_memory(error);
	int code = put_all(h, error);
	bool failed = ferror(h->stream) != 0;
	failed = fclose(h->stream) != 0 || failed;
	if (code == EXIT_OK && failed)
		code = fail_memory(error);
	for (unsigned i = 0; i < 8 && code == EXIT_OK; i++)
		h->bytes[PAIRS_AT + i] = (char)(h->n_pairs >> 8 * i);
	return code;
}

static int check_tensor(const struct writer *writer, const struct tensor *tensor, struct error *error)
{
	if (type_of(tensor->dtype) < 0)
		return fail_tensor(error, writer->path, tensor->name, "GGUF has no type for %s; give the output a name "
		                   "that ends in .safetensors", dtype_info(tensor->dtype)->name);
	if (tensor->rank > GGUF_RANK_MAX)
		return fail_tensor(error, writer->path, tensor->name, "has %u dimensions, more than the %d of GGUF",
		                   tensor->rank, (int)GGUF_RANK_MAX);
	if (strlen(tensor->name) > NAME_BYTES_MAX)
		return fail_tensor(error, writer->path, tensor->name, "has a name of %zu bytes, more than the %d that "
		                   "readers of GGUF take", strlen(tensor->name), (int)NAME_BYTES_MAX);
	return EXIT_OK;
}

static int lay_out(struct writer *writer, struct error *error)
{
	uint64_t end = 0;
	struct header header;
	int code = EXIT_OK;

	for (size_t i = 0; i < writer->n_tensors && code == EXIT_OK; i++) {
		struct tensor *tensor = &writer->tensors[i];

		code = check_tensor(writer, tensor, error);
		tensor->offset = align(end, alignment_of(writer));
		end = tensor->offset + tensor->size;
	}
	writer->alignment = (unsigned)alignment_of(writer);
	if (code != EXIT_OK)
		return code;
	code = format_header(&header, writer, error);
	writer->header_bytes = header.n;
	free(header.bytes);
	return code;
}

static int finish(const struct writer *writer, struct error *error)
{
	struct header header;
	int code = format_header(&header, writer, error);

	/* Padding that nobody wrote reads as zeros. */
	if (code == EXIT_OK)
		code = descriptor_write(writer->fd, writer->path, 0, header.bytes, header.n, error);
	free(header.bytes);
	return code;
}

const struct file_format file_gguf = {
	.name = "gguf",
	.suffix = ".gguf",
	.probe = probe,
	.open = open_header,
	.close = close_header,
	.lay_out = lay_out,
	.finish = finish,
};
