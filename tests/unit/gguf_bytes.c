/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "unit/gguf_bytes.h"

#include <check.h>
#include <string.h>

void put(struct gguf_bytes *b, const void *bytes, size_t n)
{
	ck_assert_uint_le(n, sizeof b->bytes - b->n);
	memcpy(b->bytes + b->n, bytes, n);
	b->n += n;
}

static void put_number(struct gguf_bytes *b, uint64_t value, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned char byte = (unsigned char)(value >> 8 * i);

		put(b, &byte, 1);
	}
}

void put_u32(struct gguf_bytes *b, uint32_t value)
{
	put_number(b, value, 4);
}

void put_u64(struct gguf_bytes *b, uint64_t value)
{
	put_number(b, value, 8);
}

void put_text(struct gguf_bytes *b, const char *text)
{
	put_u64(b, strlen(text));
	put(b, text, strlen(text));
}

void put_start(struct gguf_bytes *b, uint64_t n_tensors, uint64_t n_pairs)
{
	b->n = 0;
	put(b, "GGUF", 4);
	put_u32(b, 3);
	put_u64(b, n_tensors);
	put_u64(b, n_pairs);
}

void put_pair_u32(struct gguf_bytes *b, const char *key, uint32_t value)
{
	put_text(b, key);
	put_u32(b, TYPE_U32);
	put_u32(b, value);
}

void put_pair_text(struct gguf_bytes *b, const char *key, const char *value)
{
	put_text(b, key);
	put_u32(b, TYPE_STRING);
	put_text(b, value);
}

void put_tensor(struct gguf_bytes *b, const char *name, uint64_t inner, uint64_t outer, uint32_t type, uint64_t offset)
{
	put_text(b, name);
	put_u32(b, (inner != 0) + (outer != 0));
	if (inner != 0)
		put_u64(b, inner);
	if (outer != 0)
		put_u64(b, outer);
	put_u32(b, type);
	put_u64(b, offset);
}

void put_padding(struct gguf_bytes *b, size_t alignment)
{
	while (b->n % alignment != 0)
		put(b, "", 1);
}
