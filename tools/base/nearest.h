/* SPDX-License-Identifier: MIT */
/* Finds the known word that a mistyped one most likely means. */
#ifndef TOOLS_BASE_NEAREST_H
#define TOOLS_BASE_NEAREST_H

#include <stddef.h>

#include "base/error.h"

/* Starts as {.word = WORD}. */
struct nearest {
	const char *word;
	const char *best;  /* NULL: no candidate is near enough */
	size_t distance;
};

/* Keeps the candidate if it is near enough and nearer than those before it. */
void nearest_offer(struct nearest *nearest, const char *candidate);

/* fail(EXIT_USAGE) with "WHERE: unknown value 'WORD': did you mean 'X'? (TITLE: A, B, X)"; the n names are all known
   ones. */
int nearest_fail(const char *where, const char *word, const char *title, const char *const *names, size_t n,
                 struct error *error);

/* fail_errno(PATH, "cannot open") after open() or stat(), with the name of a file there that was probably meant. */
int nearest_fail_open(const char *path, struct error *error);

#endif
