/* SPDX-License-Identifier: MIT */
/* Passes input bytes to readers that open a file, or a directory. */
#ifndef MXFP_FUZZ_INPUT_FILE_H
#define MXFP_FUZZ_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "fuzz.h"

/* Writes the bytes to a file in TMPDIR, which is removed at exit, and returns its path. Every call uses the same file
   and must pass the same `suffix` of its name. */
const char *input_file(const uint8_t *data, size_t size, const char *suffix);

/* A directory in TMPDIR, which is removed at exit with what is in it. */
const char *input_directory(void);

/* Takes at most n of the bytes and writes them to a file in it. */
void input_member(const char *name, struct fuzz_bytes *bytes, size_t n);

/* Removes a file, or a directory and what is in it, if it is there. */
void input_remove(const char *path);

#endif
