/* SPDX-License-Identifier: MIT */
/* Makes names from files and command lines safe to print: as they are, they could control a terminal or a page. */
#ifndef TOOLS_BASE_PRINTABLE_H
#define TOOLS_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

/* Replaces by '?', in place: controls, characters that change the direction of text, and bytes that are not UTF-8. */
void make_printable(char *text);

/* Prints a text with the same replacements and returns its length in characters. */
int print_printable(FILE *stream, const char *text);

/* The same in Markdown: what that, or HTML, would take as more than text is escaped. A _ within a word is not. */
void print_markdown(FILE *stream, const char *text);

/* Prints n bytes of JSON, which is UTF-8 of whole characters: the characters that the others replace become \u escapes. */
void print_printable_json(FILE *stream, const char *json, size_t n);

#endif
