/* SPDX-License-Identifier: MIT */
/* Colors words on a terminal. All is plain text elsewhere, with NO_COLOR set, or on a dumb terminal. */
#ifndef TOOLS_BASE_COLOR_H
#define TOOLS_BASE_COLOR_H

#include <stdio.h>

enum color { COLOR_HEADING, COLOR_ERROR, COLOR_WARNING, COLOR_NOTE };

/* Return what to print before and after a word on that stream; empty if it is plain text. */
const char *color_begin(FILE *file, enum color color);
const char *color_end(FILE *file);

#endif
