/* SPDX-License-Identifier: MIT */
/* The alphabet of byte-level vocabularies, GPT-2's: bytes that are visible characters of Latin-1 stand for
   themselves, the 68 others, in order, for U+0100 to U+0143. */
#ifndef TOOLS_EVAL_BYTE_LEVEL_H
#define TOOLS_EVAL_BYTE_LEVEL_H

#include "eval/pieces.h"

/* GPT-2's cutting of a text into words. */
#define BYTE_LEVEL_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Appends bytes as such characters. EXIT_MEMORY. */
int byte_level_encode(const char *bytes, size_t n, struct pieces *out, struct error *error);

/* Appends the bytes that the characters stand for; if one is not of the alphabet, the text as it is. EXIT_MEMORY. */
int byte_level_decode(const char *text, size_t n, struct pieces *out, struct error *error);

#endif
