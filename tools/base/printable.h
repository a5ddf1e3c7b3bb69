/* SPDX-License-Identifier: MIT */
/* Makes names from files and command lines safe to print: as they are, they could control a terminal. */
#ifndef TOOLS_BASE_PRINTABLE_H
#define TOOLS_BASE_PRINTABLE_H

#include <stdio.h>

/* Replaces by '?', in place: controls, characters that change the direction of text, and bytes that are not UTF-8. */
void make_printable(char *text);

/* Prints a text with the same replacements and returns its length in characters. */
int print_printable(FILE *stream, const char *text);

#endif
