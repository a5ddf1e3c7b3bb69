/* SPDX-License-Identifier: MIT */
/* What a directory holds instead of a model. */
#ifndef TOOLS_MODEL_MODEL_ABSENT_H
#define TOOLS_MODEL_MODEL_ABSENT_H

#include "base/error.h"

/* EXIT_INPUT for a directory that has no weights under the names that are looked for, with what it has instead and what to
   do about it; EXIT_MEMORY. */
int model_fail_absent(const char *directory, struct error *error);

#endif
