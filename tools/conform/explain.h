/* SPDX-License-Identifier: MIT */
/* What answers match that are not the expected ones: for each class of input, the known ways are tried, alone and in pairs. */
#ifndef TOOLS_CONFORM_EXPLAIN_H
#define TOOLS_CONFORM_EXPLAIN_H

#include "conform/conform.h"

/* The most classes of a question, ways that are combined, and bytes of a way's text. */
enum { CLASSES_MAX = 24, COMBINED_MAX = 3, WAY_TEXT = 160 };

/* A class of input that differs. */
struct finding {
	const char *class;
	size_t n, n_differ, first; /* items of the class, and the first that differs */
	size_t n_ways;             /* which ways explain it, together */
	char ways[COMBINED_MAX][WAY_TEXT];
	char nearest[WAY_TEXT + 96]; /* if none do: what comes near, or "" */
};

/* What was asked and answered. */
struct asked {
	const struct question *q;
	const uint8_t *in, *expected, *got;
	const uint64_t *indices;
	size_t n;
};

/* Fills in the classes that differ and returns how many; 0: all is equal. EXIT_MEMORY. */
int explain(struct finding findings[CLASSES_MAX], size_t *n_findings, size_t *n_differ, const struct asked *asked,
            struct error *error);

#endif
