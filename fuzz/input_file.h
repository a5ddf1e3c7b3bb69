/* SPDX-License-Identifier: MIT */
/* Gives the fuzzer's bytes to readers that open a file. */
#ifndef MXFP_FUZZ_INPUT_FILE_H
#define MXFP_FUZZ_INPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Path of a file in TMPDIR with these bytes, removed when the program ends. `suffix` ends its name and is the same
   in every call; so is the file. */
const char *input_file(const uint8_t *data, size_t size, const char *suffix);

#endif
