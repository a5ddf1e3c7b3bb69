/* SPDX-License-Identifier: MIT */
/* Files for tests, in a directory of their own that vanishes when the program ends. Every failure ends the test. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <stddef.h>

/* Path of `name` in the directory; the text lives until the eighth call after. */
const char *scratch_path(const char *name);

/* Makes a file with these bytes, replacing one of that name; returns its path as scratch_path() does. */
const char *scratch_write(const char *name, const void *bytes, size_t n);
const char *scratch_text(const char *name, const char *text);

/* Makes a safetensors file: the header's length, the header, `n` zeros for data. */
const char *scratch_safetensors(const char *name, const char *header, size_t n);

/* The bytes of a file, malloc'ed, with a NUL after them. */
char *scratch_read(const char *path, size_t *n);

/* Makes a directory; returns its path. */
const char *scratch_directory(const char *name);

/* Number of entries in a directory. */
size_t scratch_count(const char *path);

/* MXFP_SHARED/name, or ../shared/name from the source's top; NULL if there is no such thing. */
const char *scratch_shared(const char *name);

#endif
