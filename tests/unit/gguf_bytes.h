/* SPDX-License-Identifier: MIT */
/* GGUF files put together by hand: the bytes of a header, one value after the other. */
#ifndef TESTS_GGUF_BYTES_H
#define TESTS_GGUF_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct gguf_bytes {
	size_t n;
	unsigned char bytes[1 << 14];
};

/* Value types of the format that tests use. */
enum {
	TYPE_U8 = 0, TYPE_I16 = 3, TYPE_U32 = 4, TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPE_U64 = 10,
	TYPE_F64 = 12
};

void put(struct gguf_bytes *b, const void *bytes, size_t n);
void put_u32(struct gguf_bytes *b, uint32_t value);
void put_u64(struct gguf_bytes *b, uint64_t value);
void put_text(struct gguf_bytes *b, const char *text);

/* The start of a version 3 file. */
void put_start(struct gguf_bytes *b, uint64_t n_tensors, uint64_t n_pairs);

void put_pair_u32(struct gguf_bytes *b, const char *key, uint32_t value);
void put_pair_text(struct gguf_bytes *b, const char *key, const char *value);

/* A tensor of up to two dimensions, innermost first; a dimension of 0 is none. */
void put_tensor(struct gguf_bytes *b, const char *name, uint64_t inner, uint64_t outer, uint32_t type, uint64_t offset);

/* Zeros up to a multiple. */
void put_padding(struct gguf_bytes *b, size_t alignment);

#endif
