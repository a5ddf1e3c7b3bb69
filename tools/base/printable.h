/* SPDX-License-Identifier: MIT */
/* Names come from files and command lines; printed as they are they could steer a terminal. */
#ifndef TOOLS_BASE_PRINTABLE_H
#define TOOLS_BASE_PRINTABLE_H

#include <stdio.h>

/* Replaces by '?', in place: control characters, what changes the direction of text, and bytes that are no UTF-8. */
void make_printable(char *text);

/* Prints a text with the same replacements and returns its length in characters. */
int print_printable(FILE *stream, const char *text);

#endif
