/* SPDX-License-Identifier: MIT */
/* The values that a named choice on the command line has (formats, rounding modes, rules, ...), from the library's
   tables. */
#ifndef TOOLS_CHOICES_H
#define TOOLS_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

struct choice {
	const char *name;
	const char *meaning; /* NULL for formats */
	int value;
};

/* The i-th value, or false past the last; kinds that are no choice have none. */
bool choice_at(enum option_kind kind, int i, struct choice *choice);

/* What a kind's values are, in the plural ("scale rules"), or NULL if it is no choice. */
const char *choice_title(enum option_kind kind);

/* Finds a value by name or alias. */
bool choice_find(enum option_kind kind, const char *name, int *value);

/* Name of a value, or NULL. */
const char *choice_name(enum option_kind kind, int value);

/* fail(EXIT_USAGE) with "WHERE: unknown value 'NAME': did you mean ...? known: ...". */
int choice_fail(enum option_kind kind, const char *where, const char *name, struct error *error);

#endif
