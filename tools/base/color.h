/* SPDX-License-Identifier: MIT */
/* Color of words on a terminal. Elsewhere, with NO_COLOR in the environment or on a dumb terminal all is plain text. */
#ifndef TOOLS_BASE_COLOR_H
#define TOOLS_BASE_COLOR_H

#include <stdio.h>

enum color { COLOR_HEADING, COLOR_ERROR, COLOR_WARNING, COLOR_NOTE };

/* What is printed before a word on that stream, and after it: empty unless it is a terminal. */
const char *color_begin(FILE *file, enum color color);
const char *color_end(FILE *file);

#endif
