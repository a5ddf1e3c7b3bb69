/* SPDX-License-Identifier: MIT */
/* What a program says on its standard error, which the user sees: as it is, it could control a terminal. */
#ifndef TOOLS_CONFORM_SAID_H
#define TOOLS_CONFORM_SAID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct said {
	int fd;          /* our end, which does not block; -1: it is closed */
	uint8_t held[4]; /* the begin of a character */
	size_t n_held;
	bool is_open; /* the last line printed has no end */
};

/* Prints on standard error what has come, with the replacements of printable.h; lines, tabs and returns, which become lines, are kept.
   Returns whether anything had come. */
bool said_pass(struct said *said);

/* Prints what has come until nothing more does, ends the last line, and closes our end. */
void said_end(struct said *said);

#endif
