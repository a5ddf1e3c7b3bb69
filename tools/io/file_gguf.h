/* SPDX-License-Identifier: MIT */
/* GGUF files: file_gguf.c has the byte layout. */
#ifndef TOOLS_IO_FILE_GGUF_H
#define TOOLS_IO_FILE_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "io/file.h"

enum {
	GGUF_ALIGNMENT = 32, /* where a file does not say another */
	GGUF_RANK_MAX = 4,
	GGUF_NAME_MAX = 64   /* bytes of a tensor's name */
};

#define GGUF_KEY_FILE_TYPE "general.file_type"
#define GGUF_KEY_QUANTIZATION "general.quantization_version"

/* A key and its value in a file. */
struct gguf_pair {
	const char *key;
	uint64_t from, size; /* of its bytes, with the key's */
};

/* The state of an open file. */
struct gguf {
	struct arena arena;
	uint32_t alignment;
	size_t n_pairs;
	struct gguf_pair *pairs;
	const char **keys;    /* sorted */
};

extern const struct file_format file_gguf;

#endif
