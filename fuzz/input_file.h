/* SPDX-License-Identifier: MIT */
/* Passes input bytes to readers that open a file. */
#ifndef MXFP_FUZZ_INPUT_FILE_H
#define MXFP_FUZZ_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Writes the bytes to a file in TMPDIR, which is removed at exit, and returns its path. Every call uses the same file
   and must pass the same `suffix` of its name. */
const char *input_file(const uint8_t *data, size_t size, const char *suffix);

#endif
