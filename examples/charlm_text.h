/* SPDX-License-Identifier: MIT */
/* The text that a model learns: printable ASCII and newlines, numbered 0 (newline) and 1 (space) to 95 (tilde). */
#ifndef EXAMPLES_CHARLM_TEXT_H
#define EXAMPLES_CHARLM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { CHARLM_SYMBOLS = 96 };

struct charlm_text {
	uint8_t *symbols;
	size_t n;
};

/* Reads a text of 1024 to 2^20 characters. Fails with EXIT_INPUT, EXIT_IO or EXIT_MEMORY. */
int charlm_text_read(struct charlm_text *text, const char *path, struct error *error);

void charlm_text_free(struct charlm_text *text);

/* Whether a character is held out of training, so that the loss on it is meaningful: in every tenth stretch of 512. */
bool charlm_text_held_out(size_t position);

#endif
