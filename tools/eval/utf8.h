/* SPDX-License-Identifier: MIT */
/* UTF-8 as the Unicode standard defines it (section 3.9, table 3-7). */
#ifndef TOOLS_EVAL_UTF8_H
#define TOOLS_EVAL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "eval/pieces.h"

enum { UTF8_MAX = 4 /* bytes of a character */ };

/* The bytes that the first character of a text of n > 0 bytes has; if it is not one, those of the longest part of one
   that is there, at least 1, and *valid is false. */
size_t utf8_length(const char *text, size_t n, bool *valid);

/* The first character of valid text, and its bytes. */
uint32_t utf8_decode(const char *text, size_t *length);

/* Writes a character and returns its bytes. */
size_t utf8_encode(uint32_t character, char bytes[UTF8_MAX]);

/* Appends the text with U+FFFD for each part that is no character. EXIT_MEMORY. */
int utf8_clean(const char *text, size_t n, struct pieces *out, struct error *error);

#endif
