/* SPDX-License-Identifier: MIT */
/* What the user says may stay unknown: --allow-unknown. */
#ifndef TOOLS_MODEL_ALLOW_H
#define TOOLS_MODEL_ALLOW_H

#include <stdbool.h>
#include <stdio.h>

#include "base/option_kind.h"

/* The keys of that option, as errors name them. */
extern struct string_list allow_keys;

/* " --allow-unknown KEY ...", as a command has them. */
void allow_print(FILE *file);

/* Whether a key that is not known here is to be passed over. */
bool allowed_unknown(const char *key);

/* Whether a tensor's name or a module that it is in, "mtp" of "mtp.fc.weight", is. */
bool allowed_unknown_under(const char *name);

#endif
