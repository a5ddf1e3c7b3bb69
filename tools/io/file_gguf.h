/* SPDX-License-Identifier: MIT */
/* What the reader and the writer of GGUF share; file_gguf.c has the byte layout. */
#ifndef TOOLS_IO_FILE_GGUF_H
#define TOOLS_IO_FILE_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "io/file.h"

enum {
	GGUF_VERSION = 3,
	GGUF_ALIGNMENT = 32,        /* where a file does not say another */
	GGUF_ALIGNMENT_MAX = 1 << 20,
	GGUF_RANK_MAX = 4,
	GGUF_NAME_MAX = 64,         /* bytes of a tensor's name */
	GGUF_KEY_MAX = 65535
};

/* Types of values that this program writes. */
enum { GGUF_UINT32 = 4, GGUF_STRING = 8 };

#define GGUF_MAGIC "GGUF"
#define GGUF_KEY_ALIGNMENT "general.alignment"
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

/* The number that a file has for a dtype, or -1; and N_DTYPES for a number that is not known. */
int gguf_type(enum dtype dtype);
enum dtype gguf_dtype(uint32_t type);

/* `at` rounded up to a multiple. */
uint64_t gguf_align(uint64_t at, uint32_t alignment);

/* The operations that write (struct file_format). */
int gguf_lay_out(struct writer *writer, struct error *error);
int gguf_finish(const struct writer *writer, struct error *error);

#endif
