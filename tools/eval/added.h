/* SPDX-License-Identifier: MIT */
/* Tokens that are looked for in a text before anything else is done with it. */
#ifndef TOOLS_EVAL_ADDED_H
#define TOOLS_EVAL_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { ADDED_BYTES_MAX = 4096 /* of one */ };

struct added_token {
	const char *bytes; /* the caller's */
	size_t n;
	uint32_t id;
	bool word_alone;   /* only where no letter, mark, digit or connector stands before or behind it */
	bool eats_left, eats_right; /* the white space there becomes part of it */
};

/* Zeroed: none. */
struct added {
	size_t n, room;
	struct added_token *tokens;
	size_t first[257]; /* where those begin that start with a byte, after added_sort() */
};

/* Adds a token of n > 0 bytes. EXIT_MEMORY. */
int added_add(struct added *added, struct added_token token, struct error *error);

/* Called when all are there. */
void added_sort(struct added *added);

/* Finds the first place at or behind `at` where one stands, and of those there the longest; NULL: none. *from and *to
   are its place and the white space it eats, no less than `least`; *next is where to look for another. */
const struct added_token *added_find(const struct added *added, const char *text, size_t n, size_t least, size_t at,
                                     size_t *from, size_t *to, size_t *next);

void added_free(struct added *added);

#endif
