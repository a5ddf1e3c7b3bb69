/* SPDX-License-Identifier: MIT */
/* Writing JSON: what --json prints, and files. */
#ifndef TOOLS_IO_FACTS_H
#define TOOLS_IO_FACTS_H

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"

/* Prints a JSON value and a newline, and releases it. EXIT_MEMORY: it is NULL, which is what jansson's builders return
   when memory ran out. What the stream does not take is left to ferror(). */
int facts_print(FILE *stream, json_t *facts, struct error *error);

/* The same without the newline, with jansson's flags for the form: for parts of a larger value. */
int facts_print_part(FILE *stream, json_t *facts, size_t flags, struct error *error);

/* The same, each part through a function that gets the stream as its context. */
int facts_write(json_t *facts, size_t flags, json_dump_callback_t write, FILE *stream, struct error *error);

/* Append to an array, add a member, add those of another object: what they return is the whole. If anything is NULL, all of
   it is released and NULL returned, which further calls keep and facts_print() takes for memory that ran out. */
json_t *facts_append(json_t *array, json_t *item);
json_t *facts_set(json_t *object, const char *key, json_t *value);
json_t *facts_update(json_t *object, json_t *other);

/* A number, or null if it is not finite, which JSON cannot say. */
json_t *facts_number(double x);

/* A JSON string of a text that need not be UTF-8, such as a file name: bytes that are not become '?'. */
json_t *facts_text(const char *text);

/* Writes a value, indented, as a new file and syncs it. EXIT_IO, EXIT_MEMORY (`json` is NULL, too). */
int facts_write_file(const char *path, const json_t *json, struct error *error);

#endif
