/* SPDX-License-Identifier: MIT */
/* The known word that a mistyped one most likely means. */
#ifndef TOOLS_NEAREST_H
#define TOOLS_NEAREST_H

#include <stddef.h>

/* Starts as {.word = WORD}. */
struct nearest {
	const char *word;
	const char *best;  /* NULL: no candidate is near enough to be worth a suggestion */
	size_t distance;
};

/* Keeps the candidate if it is near enough, and nearer than those before it. */
void nearest_offer(struct nearest *nearest, const char *candidate);

#endif
