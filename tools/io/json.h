/* SPDX-License-Identifier: MIT */
/*
 * Reads JSON from untrusted files. json_read() reads small files into a tree. Large ones, such as headers of weight
 * files, would cost tens of times their size as a tree, so struct json_text walks them: the walk follows objects and
 * arrays itself and lets jansson decode each key, string and number, so it accepts what jansson accepts.
 */
#ifndef TOOLS_IO_JSON_H
#define TOOLS_IO_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "io/descriptor.h"

/* Makes jansson's allocations safe: see json_out_of_memory(). Every function here calls it; other users of jansson must
   call it first. */
void json_prepare(void);

/* Whether an allocation by jansson has failed since json_prepare(). jansson 2.14 ignores some failures and returns a
   value that lacks bytes, so a result is valid only while this is false. */
bool json_out_of_memory(void);

/* Releases what json_dumps() returned. */
void json_release(void *bytes);

/* Reads a whole JSON file of at most `limit` bytes: strict, duplicate keys refused. EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY. */
int json_read(descriptor_opener *opener, const char *path, size_t limit, json_t **json, struct error *error);

/* The same, and what Python's json reads besides: the numbers NaN, Infinity and -Infinity, integers of more than 64 bits (an
   unlimited model_max_length is 10^30), real numbers past binary64. In the tree each is a string that no file holds, since
   it begins with NUL; json_restore_constants() makes them numbers again. Of what Python reads only keys that are there
   twice, halves of surrogate pairs and NUL in strings are refused. */
int json_read_python(descriptor_opener *opener, const char *path, size_t limit, json_t **json, struct error *error);

/* Changes `n` bytes that jansson wrote, where a string stands for such a number, and returns how many are left. */
size_t json_restore_constants(char *bytes, size_t n);

/* Reads a whole file of at most `limit` bytes, behind which is NUL; the caller frees it. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int json_read_bytes(descriptor_opener *opener, const char *path, size_t limit, char **bytes, size_t *n,
                    struct error *error);

/* Text being walked, at byte `at` of `n`. `path` and `what` ("header") are for errors. */
struct json_text {
	const char *path, *what;
	const char *bytes;
	size_t n, at;
};

/* Returns the next byte that is not white space, without taking it; '\0' at the end. */
char json_next(struct json_text *text);

/* Take one value. EXIT_INPUT if the next one is of another kind; EXIT_MEMORY. */
int json_take_string(struct json_text *text, json_t **string, struct error *error);
int json_take_copy(struct json_text *text, struct arena *arena, const char **string, struct error *error);
int json_take_natural(struct json_text *text, uint64_t *value, struct error *error); /* 0..2^63-1 */

/* Takes an array of at most `max` naturals. */
int json_take_naturals(struct json_text *text, size_t max, uint64_t *values, size_t *n, struct error *error);

/* Takes any value of at most `limit` bytes as a tree. */
int json_take_value(struct json_text *text, size_t limit, json_t **value, struct error *error);

/* Called for each element of an array. `text` is at the element, which the function must take. */
typedef int json_element(struct json_text *text, void *context, struct error *error);

/* Takes an array. */
int json_take_array(struct json_text *text, json_element *element, void *context, struct error *error);

/* Takes any value of at most `limit` bytes and drops it. */
int json_skip(struct json_text *text, size_t limit, struct error *error);

/* Called for each member of an object. `text` is at the member's value, which the function must take. */
typedef int json_member(struct json_text *text, const char *key, void *context, struct error *error);

/* Takes an object. Does not detect duplicate keys; the caller must. */
int json_take_object(struct json_text *text, json_member *member, void *context, struct error *error);

/* Fails with "PATH: WHAT, byte AT: PROBLEM", or "PATH: WHAT, line N, byte AT: PROBLEM" past the first line. EXIT_INPUT. */
int json_fail(const struct json_text *text, const char *problem, struct error *error);

#endif
