/* SPDX-License-Identifier: MIT */
/* Unicode's normalization form C: letters and marks become one character where there is one. */
#ifndef TOOLS_EVAL_NFC_H
#define TOOLS_EVAL_NFC_H

#include <stddef.h>

#include "base/error.h"
#include "eval/pieces.h"

/* Appends valid text in NFC. `path`: of the tokenizer, for errors. EXIT_INPUT: more combining marks in a row than any text has.
   EXIT_MEMORY. */
int nfc_append(const char *path, const char *text, size_t n, struct pieces *out, struct error *error);

#endif
