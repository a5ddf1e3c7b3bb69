/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/gguf_pairs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAIR_BYTES_MIN = 8 + 4 + 1,
	ALIGNMENT_MIN = 8
};

enum value_type {
	TYPE_U8, TYPE_I8, TYPE_U16, TYPE_I16, TYPE_U32, TYPE_I32, TYPE_F32, TYPE_BOOL, TYPE_STRING, TYPE_ARRAY, TYPE_U64,
	TYPE_I64, TYPE_F64, N_TYPES
};

/* Bytes of a scalar; 0 for the others. */
static const unsigned char type_bytes[N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* A count of things, none of which takes less than `least` bytes. */
int gguf_check_count(const struct gguf_header *h, uint64_t n, unsigned least, const char *what, struct error *error)
{
	if (n > (h->source.size - h->source.at) / least)
		return fail(error, EXIT_INPUT, "%s: says that it has %" PRIu64 " %s, more than its bytes can hold / it may "
		            "have been cut off", h->source.path, n, what);
	if (n > GGUF_COUNT_MAX)
		return fail(error, EXIT_INPUT, "%s: has %" PRIu64 " %s, more than the %d allowed", h->source.path, n, what,
		            (int)GGUF_COUNT_MAX);
	return EXIT_OK;
}

static int take_array(struct gguf_header *h, struct error *error)
{
	uint32_t type;
	uint64_t n;
	int code = gguf_take_u32(&h->source, &type, h->what, error);

	if (code == EXIT_OK)
		code = gguf_take_u64(&h->source, &n, h->what, error);
	if (code != EXIT_OK)
		return code;
	if (type >= N_TYPES || type == TYPE_ARRAY)
		return fail(error, EXIT_INPUT, "%s: %s: is an array of %s (type %" PRIu32 ")", h->source.path, h->what,
		            type == TYPE_ARRAY ? "arrays" : "what is not known", type);
	uint64_t width = type == TYPE_STRING ? sizeof n : type_bytes[type];
	if (n > UINT64_MAX / width || n * width > h->source.size - h->source.at)
		return fail(error, EXIT_INPUT, "%s: %s: is an array of %" PRIu64 " elements, more than the file has / it "
		            "may have been cut off", h->source.path, h->what, n);
	if (type != TYPE_STRING)
		return gguf_skip(&h->source, n * width, h->what, error);
	for (; n > 0 && code == EXIT_OK; n--) {
		uint64_t length;

		code = gguf_take_u64(&h->source, &length, h->what, error);
		if (code == EXIT_OK)
			code = gguf_skip(&h->source, length, h->what, error);
	}
	return code;
}

static int set_alignment(struct gguf_header *h, uint64_t alignment, struct error *error)
{
	if (alignment < ALIGNMENT_MIN || alignment > GGUF_ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
		return fail(error, EXIT_INPUT, "%s: " GGUF_KEY_ALIGNMENT ": %" PRIu64 " is no power of two from %d to %d",
		            h->source.path, alignment, (int)ALIGNMENT_MIN, (int)GGUF_ALIGNMENT_MAX);
	h->gguf->alignment = (uint32_t)alignment;
	return EXIT_OK;
}

/* A scalar's text; `word` has its bytes, and zeros above. */
static void print_scalar(char *text, size_t size, enum value_type type, uint64_t word)
{
	unsigned unused = 64 - 8U * type_bytes[type];
	uint32_t half = (uint32_t)word;
	float f32;
	double f64;

	if (type == TYPE_F32) {
		memcpy(&f32, &half, sizeof f32);
		snprintf(text, size, "%.9g", (double)f32);
	} else if (type == TYPE_F64) {
		memcpy(&f64, &word, sizeof f64);
		snprintf(text, size, "%.17g", f64);
	} else if (type == TYPE_BOOL) {
		snprintf(text, size, "%s", word != 0 ? "true" : "false");
	} else if (type == TYPE_I8 || type == TYPE_I16 || type == TYPE_I32 || type == TYPE_I64) {
		/* The sign is the highest bit of the value's own. */
		bool negative = (word << unused) >> 63 != 0;
		uint64_t magnitude = negative ? (0 - (word << unused)) >> unused : word;

		snprintf(text, size, "%s%" PRIu64, negative ? "-" : "", magnitude);
	} else {
		snprintf(text, size, "%" PRIu64, word);
	}
}

static int take_scalar(struct gguf_header *h, const char *key, enum value_type type, const char **text,
                       struct error *error)
{
	unsigned char bytes[8] = {0};
	uint64_t word = 0;
	char printed[40];
	int code = gguf_take(&h->source, bytes, type_bytes[type], h->what, error);

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

static int take_value(struct gguf_header *h, const char *key, uint32_t type, const char **text, struct error *error)
{
	if (type >= N_TYPES)
		return fail(error, EXIT_INPUT, "%s: %s: value type %" PRIu32 " is not known", h->source.path, h->what, type);
	if (type != TYPE_U32 && strcmp(key, GGUF_KEY_ALIGNMENT) == 0)
		return fail(error, EXIT_INPUT, "%s: " GGUF_KEY_ALIGNMENT ": is no u32", h->source.path);
	if (type == TYPE_ARRAY)
		return take_array(h, error);
	if (type == TYPE_STRING)
		return gguf_take_string(&h->source, &h->gguf->arena, GGUF_TEXT_MAX, text, h->what, error);
	return take_scalar(h, key, (enum value_type)type, text, error);
}

static int take_pair(struct gguf_header *h, struct error *error)
{
	struct gguf_pair *pair = &h->gguf->pairs[h->gguf->n_pairs++];
	const char *value = NULL;
	uint32_t type;

	snprintf(h->what, sizeof h->what, "key %zu", h->gguf->n_pairs);
	pair->from = h->source.at;
	int code = gguf_take_string(&h->source, &h->gguf->arena, GGUF_KEY_MAX, &pair->key, h->what, error);
	if (code == EXIT_OK && pair->key == NULL)
		code = fail(error, EXIT_INPUT, "%s: %s: is no UTF-8 text without NUL of at most %d bytes", h->source.path,
		            h->what, (int)GGUF_KEY_MAX);
	if (code != EXIT_OK)
		return code;
	snprintf(h->what, sizeof h->what, "key '%.48s'", pair->key);
	code = gguf_take_u32(&h->source, &type, h->what, error);
	if (code == EXIT_OK)
		code = take_value(h, pair->key, type, &value, error);
	pair->size = h->source.at - pair->from;
	if (value != NULL)
		h->file->metadata[h->file->n_metadata++] = (struct metadata){pair->key, value};
	return code;
}

static int sort_keys(const struct gguf_header *h, struct error *error)
{
	size_t n = h->gguf->n_pairs;
	const char **keys = h->gguf->keys = calloc(n + 1, sizeof(const char *));

	if (keys == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < n; i++)
		keys[i] = h->gguf->pairs[i].key;
	const char *twice = file_sort_names(keys, n);
	if (twice != NULL)
		return fail(error, EXIT_INPUT, "%s: key '%.200s': stands in the file twice", h->source.path, twice);
	return EXIT_OK;
}

int gguf_take_pairs(struct gguf_header *h, uint64_t n, struct error *error)
{
	int code = gguf_check_count(h, n, PAIR_BYTES_MIN, "key-values", error);

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
