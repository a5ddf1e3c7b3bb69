/* SPDX-License-Identifier: MIT */
/* Key-values of a GGUF file being made, as its bytes; file_gguf.c has their form. Memory that runs out shows at the end. */
#ifndef TOOLS_IO_GGUF_PAIRS_H
#define TOOLS_IO_GGUF_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "io/file_gguf.h"

struct gguf_pairs {
	FILE *stream;
	char *bytes;
	size_t n_bytes; /* after gguf_pairs_end() */
	uint64_t n;
};

/* Starts without any. EXIT_MEMORY. gguf_pairs_free() follows in every case; the struct may be zeroed then. */
int gguf_pairs_begin(struct gguf_pairs *pairs, struct error *error);

/* Add a pair. No key may be added twice. */
void gguf_pairs_u32(struct gguf_pairs *pairs, const char *key, uint32_t value);
void gguf_pairs_f32(struct gguf_pairs *pairs, const char *key, float value);
void gguf_pairs_bool(struct gguf_pairs *pairs, const char *key, bool value);
void gguf_pairs_string(struct gguf_pairs *pairs, const char *key, const char *value);

/* Begins an array of `n` elements of a type, each of which follows: one of the calls below. */
void gguf_pairs_array(struct gguf_pairs *pairs, const char *key, enum gguf_type type, uint64_t n);
void gguf_pairs_add_string(struct gguf_pairs *pairs, const char *bytes, size_t n);
void gguf_pairs_add_i32(struct gguf_pairs *pairs, int32_t value);
void gguf_pairs_add_bool(struct gguf_pairs *pairs, bool value);
void gguf_pairs_add_f32(struct gguf_pairs *pairs, float value);

/* Sets the bytes, which then may be read. EXIT_MEMORY. */
int gguf_pairs_end(struct gguf_pairs *pairs, struct error *error);

void gguf_pairs_free(struct gguf_pairs *pairs);

#endif
