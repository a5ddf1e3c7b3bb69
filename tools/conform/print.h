/* SPDX-License-Identifier: MIT */
/* What came of each question, and how it is printed. */
#ifndef TOOLS_CONFORM_PRINT_H
#define TOOLS_CONFORM_PRINT_H

#include "conform/explain.h"

/* A finding and the words of its first item. */
struct shown {
	struct finding finding;
	char *in, *expected, *got;
};

struct outcome {
	enum op op;
	char label[96];
	bool unsupported;
	size_t n, n_differ, n_shown;
	struct shown *shown;
};

struct outcomes {
	struct outcome *list;
	size_t n, capacity;
};

/* Returns a new outcome, or NULL. */
struct outcome *outcomes_add(struct outcomes *outcomes, enum op op, const char *label);
void outcomes_free(struct outcomes *outcomes);

/* Keeps findings and what their first items are. EXIT_MEMORY. */
int outcome_keep(struct outcome *outcome, const struct asked *asked, const struct finding *findings, size_t n, struct error *error);

/* Prints everything. EXIT_CHECK if something differs; EXIT_MEMORY. */
int outcomes_print(struct outcomes *outcomes, const char *name, const struct conform_options *options, struct error *error);

#endif
