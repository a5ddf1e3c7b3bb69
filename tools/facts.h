/* SPDX-License-Identifier: MIT */
/* What --json prints. */
#ifndef TOOLS_FACTS_H
#define TOOLS_FACTS_H

#include <jansson.h>

#include "error.h"

/* Prints a JSON value and a newline to stdout and releases it. NULL, which is what jansson's builders return when memory
   ran out, is EXIT_MEMORY. */
int facts_print(json_t *facts, struct error *error);

/* A JSON string of a text that need not be UTF-8, such as a file name: bytes that are not become '?'. */
json_t *facts_text(const char *text);

#endif
