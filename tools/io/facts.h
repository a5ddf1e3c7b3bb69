/* SPDX-License-Identifier: MIT */
/* Builds and writes JSON, for --json and for files. */
#ifndef TOOLS_IO_FACTS_H
#define TOOLS_IO_FACTS_H

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"

/* Prints a JSON value and a newline, and releases it; what could control a terminal is escaped. EXIT_MEMORY: it is NULL, which jansson's builders return when
   memory ran out. Failures of the stream are left to ferror(). */
int facts_print(FILE *stream, json_t *facts, struct error *error);

/* The same without the newline, with jansson's flags for the form: for parts of a larger value. */
int facts_print_part(FILE *stream, json_t *facts, size_t flags, struct error *error);

/* Append to an array, add a member to an object, add the members of another object; each returns the whole. If
   anything is NULL, all is released and NULL returned, which further calls pass on and facts_print() reports as out
   of memory. */
json_t *facts_append(json_t *array, json_t *item);
json_t *facts_set(json_t *object, const char *key, json_t *value);
json_t *facts_update(json_t *object, json_t *other);

/* Returns a number, or null if it is not finite, which JSON cannot express. */
json_t *facts_number(double x);

/* Returns a JSON string of a text that need not be UTF-8, such as a file name; invalid bytes become '?'. */
json_t *facts_text(const char *text);

/* Writes a value, indented, to a new file and syncs it, with what json_read_python() took for numbers. EXIT_IO, EXIT_MEMORY (also if `json` is NULL). */
int facts_write_file(const char *path, const json_t *json, struct error *error);

#endif
