/* SPDX-License-Identifier: MIT */
/* Who does what: the questions that a package, or a standard, gives the contract's answers to. */
#ifndef TOOLS_CONFORM_PROFILE_H
#define TOOLS_CONFORM_PROFILE_H

#include <stdbool.h>

#include "base/error.h"

/* Whether a row of the profile begins the label. */
bool profile_has(const char *profile, const char *label, bool (*begins)(const char *label, const char *words));

/* EXIT_USAGE: there is no such profile; the text names all. */
int profile_check(const char *profile, struct error *error);

#endif
