/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "io/gguf_pairs.h"

#include <stdlib.h>
#include <string.h>

int gguf_pairs_begin(struct gguf_pairs *pairs, struct error *error)
{
	*pairs = (struct gguf_pairs){0};
	pairs->stream = open_memstream(&pairs->bytes, &pairs->n_bytes);
	return pairs->stream != NULL ? EXIT_OK : fail_memory(error);
}

static void put_number(struct gguf_pairs *pairs, uint64_t number, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		putc((int)(number >> 8 * i & 0xFF), pairs->stream);
}

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static void put_key(struct gguf_pairs *pairs, const char *key, enum gguf_type type)
{
	gguf_pairs_add_string(pairs, key, strlen(key));
	put_number(pairs, type, 4);
	pairs->n++;
}

void gguf_pairs_u32(struct gguf_pairs *pairs, const char *key, uint32_t value)
{
	put_key(pairs, key, GGUF_TYPE_U32);
	put_number(pairs, value, 4);
}

void gguf_pairs_f32(struct gguf_pairs *pairs, const char *key, float value)
{
	put_key(pairs, key, GGUF_TYPE_F32);
	put_number(pairs, bits_of(value), 4);
}

void gguf_pairs_bool(struct gguf_pairs *pairs, const char *key, bool value)
{
	put_key(pairs, key, GGUF_TYPE_BOOL);
	put_number(pairs, value, 1);
}

void gguf_pairs_string(struct gguf_pairs *pairs, const char *key, const char *value)
{
	put_key(pairs, key, GGUF_TYPE_STRING);
	gguf_pairs_add_string(pairs, value, strlen(value));
}

void gguf_pairs_array(struct gguf_pairs *pairs, const char *key, enum gguf_type type, uint64_t n)
{
	put_key(pairs, key, GGUF_TYPE_ARRAY);
	put_number(pairs, type, 4);
	put_number(pairs, n, 8);
}

void gguf_pairs_add_string(struct gguf_pairs *pairs, const char *bytes, size_t n)
{
	put_number(pairs, n, 8);
	fwrite(bytes, 1, n, pairs->stream);
}

void gguf_pairs_add_i32(struct gguf_pairs *pairs, int32_t value)
{
	put_number(pairs, (uint32_t)value, 4);
}

void gguf_pairs_add_bool(struct gguf_pairs *pairs, bool value)
{
	put_number(pairs, value, 1);
}

void gguf_pairs_add_f32(struct gguf_pairs *pairs, float value)
{
	put_number(pairs, bits_of(value), 4);
}

int gguf_pairs_end(struct gguf_pairs *pairs, struct error *error)
{
	bool failed = ferror(pairs->stream) != 0;

	failed = fclose(pairs->stream) != 0 || failed;
	pairs->stream = NULL;
	return failed ? fail_memory(error) : EXIT_OK;
}

void gguf_pairs_free(struct gguf_pairs *pairs)
{
	if (pairs->stream != NULL)
		fclose(pairs->stream);
	free(pairs->bytes);
	*pairs = (struct gguf_pairs){0};
}
