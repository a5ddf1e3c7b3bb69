/* SPDX-License-Identifier: MIT */
/* Findings are texts about one thing, "it is ..."; of several alike, one text says so. */
#ifndef TOOLS_BASE_PLURAL_H
#define TOOLS_BASE_PLURAL_H

#include <stddef.h>

/* What a text "it VERB ..." says of `n` things: returns the verb and moves *text behind it and a blank. NULL, and *text as it
   was, if it is no such text or the verb is not known. */
const char *plural_verb(const char **text, size_t n);

/* Writes " and 1 other", " and 3 others", or nothing if there is one. */
void plural_others(char *text, size_t size, size_t n);

#endif
