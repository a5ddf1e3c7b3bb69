/* SPDX-License-Identifier: MIT */
/* What answers match that are not the expected ones: of the known ways those are sought that together give every answer of a
   question. */
#ifndef TOOLS_CONFORM_EXPLAIN_H
#define TOOLS_CONFORM_EXPLAIN_H

#include "conform/conform.h"

/* The most classes of a question, ways that are combined, those that are named, others that do the same, and bytes of a way's text. */
enum { CLASSES_MAX = 24, COMBINED_MAX = 6, NAMED_MAX = 2 * COMBINED_MAX, OTHERS_MAX = 6, WAY_TEXT = 160 };

/* A class of input that differs. */
struct finding {
	const char *class;
	size_t n, n_differ, first; /* items of the class, and the first that differs */
	size_t n_ways;             /* which ways explain it, together, and are refuted in no other class */
	char ways[NAMED_MAX][WAY_TEXT];
	const char *others[NAMED_MAX][OTHERS_MAX]; /* quirks that in this question do what a way does, until NULL */
	const char *agreed[NAMED_MAX];             /* print.c: which of them other questions have too, or NULL */
	char nearest[NAMED_MAX * WAY_TEXT]; /* of what they leave: what explains this class only, what comes near, or "" */
};

/* What of results is matched: all bytes; of blocks the scale byte; or codes, made under the scale that the program gave. */
enum matched { MATCHED_ALL, MATCHED_SCALES, MATCHED_CODES };

/* What was asked and answered, so many items at a time. */
struct asked {
	const struct question *q;
	const uint8_t *in, *expected, *got;
	const uint64_t *indices;
	size_t n, batch;
	enum matched matched;
};

/* The ways that were found in questions before, which are preferred; and how many answers quirks made that were too few. */
struct seen {
	bool quirks[N_QUIRKS];
	uint64_t values[N_CHOICES]; /* bits */
	size_t made[N_QUIRKS];
};

/* Fills in the classes that differ and returns how many; 0: all is equal. EXIT_MEMORY. */
int explain(struct finding findings[CLASSES_MAX], size_t *n_findings, size_t *n_differ, const struct asked *asked,
            struct seen *seen, struct error *error);

#endif
