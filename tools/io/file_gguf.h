/* SPDX-License-Identifier: MIT */
/* GGUF files: file_gguf.c has the byte layout. */
#ifndef TOOLS_IO_FILE_GGUF_H
#define TOOLS_IO_FILE_GGUF_H

#include <stdbool.h>
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

/* What a value is (enum gguf_type of ggml/include/gguf.h). */
enum gguf_type {
	GGUF_TYPE_U8, GGUF_TYPE_I8, GGUF_TYPE_U16, GGUF_TYPE_I16, GGUF_TYPE_U32, GGUF_TYPE_I32, GGUF_TYPE_F32, GGUF_TYPE_BOOL,
	GGUF_TYPE_STRING, GGUF_TYPE_ARRAY, GGUF_TYPE_U64, GGUF_TYPE_I64, GGUF_TYPE_F64, N_GGUF_TYPES
};

/* A key and its value in a file. */
struct gguf_pair {
	const char *key;
	uint64_t from, size; /* of its bytes, with the key's */
	bool is_array;
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

/* Key `i` of an open file, in the order of strcmp(), or NULL; of a file that is not GGUF, NULL. */
const char *gguf_key(const struct file *file, size_t i);
bool gguf_has(const struct file *file, const char *key);
bool gguf_is_array(const struct file *file, const char *key);

/*
 * The value of a key of an open file. If the file is not GGUF or has no such key, *found is false and the value stays as
 * it is. EXIT_INPUT if the value is of another kind or does not fit, naming the key; EXIT_IO, EXIT_MEMORY.
 */
int gguf_find_u32(const struct file *file, const char *key, uint32_t *value, bool *found, struct error *error);
int gguf_find_u64(const struct file *file, const char *key, uint64_t *value, bool *found, struct error *error);
int gguf_find_float(const struct file *file, const char *key, double *value, bool *found, struct error *error);
int gguf_find_bool(const struct file *file, const char *key, bool *value, bool *found, struct error *error);
/* UTF-8 without NUL, of at most 1 MiB; it lives as long as the file. */
int gguf_find_string(const struct file *file, const char *key, const char **value, bool *found, struct error *error);

/* Strings of any bytes; number i is bytes[starts[i]] to bytes[starts[i + 1] - 1]. */
struct gguf_strings {
	size_t n;
	size_t *starts; /* n + 1 */
	char *bytes;
};

/* The elements of an array; the caller releases them. Whole numbers are of any type, and not negative. */
int gguf_find_strings(const struct file *file, const char *key, struct gguf_strings *strings, bool *found,
                      struct error *error);
int gguf_find_floats(const struct file *file, const char *key, float **values, size_t *n, bool *found,
                     struct error *error);
int gguf_find_u64s(const struct file *file, const char *key, uint64_t **values, size_t *n, bool *found,
                   struct error *error);
int gguf_find_bools(const struct file *file, const char *key, bool **values, size_t *n, bool *found,
                    struct error *error);

/* The strings may be zeroed. */
void gguf_strings_free(struct gguf_strings *strings);

#endif
