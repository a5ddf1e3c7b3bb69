/* SPDX-License-Identifier: MIT */
/* Scales of layers' inputs, and which layers take the same input. */
#ifndef TOOLS_ANALYSE_LINT_INPUTS_H
#define TOOLS_ANALYSE_LINT_INPUTS_H

#include <stddef.h>

#include "base/error.h"

/* Length of the name of the module whose input's scale a tensor is, by its name; 0: it is none. */
size_t lint_input_module(const char *name);

/* malloc'ed name that the scale of another layer with the same input would have, the one of that number from 0 on; *beside is
   NULL if there are no more. EXIT_MEMORY. */
int lint_input_beside(char **beside, const char *name, size_t which, struct error *error);

#endif
