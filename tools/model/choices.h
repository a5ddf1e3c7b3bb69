/* SPDX-License-Identifier: MIT */
/* The values that a named choice on the command line has (formats, rounding modes, rules, ...), from the library's
   tables and that of layouts. */
#ifndef TOOLS_MODEL_CHOICES_H
#define TOOLS_MODEL_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/option_kind.h"

enum { CHOICES_MAX = 32, CHOICE_WORDS_TEXT = 128 };

struct choice {
	const char *name;
	const char *meaning; /* NULL for formats */
	int value;
};

/* The i-th value, or false past the last; kinds that are no choice have none. */
bool choice_at(enum option_kind kind, int i, struct choice *choice);

/* What a kind's values are, in the plural ("scale rules"), or NULL if it is not a choice. */
const char *choice_title(enum option_kind kind);

/* Finds a value by name or alias. */
bool choice_find(enum option_kind kind, const char *name, int *value);

/* Name of a value, or NULL. */
const char *choice_name(enum option_kind kind, int value);

/* fail(EXIT_USAGE) with "WHERE: unknown value 'NAME': did you mean 'X'? (TITLE: A, B, X)". */
int choice_fail(enum option_kind kind, const char *where, const char *name, struct error *error);

/* Splits an option's argument that lists its values, such as "f32|bf16", into names that lie in `text`, and returns how
   many there are; 0 if it does not. */
size_t choice_words(const char *argument, char text[CHOICE_WORDS_TEXT], const char *names[CHOICES_MAX]);

#endif
