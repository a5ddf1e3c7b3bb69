/* SPDX-License-Identifier: MIT */
/* Patterns of structured sparsity as text, "4:16". */
#ifndef TOOLS_BASE_SPARSITY_H
#define TOOLS_BASE_SPARSITY_H

#include <stdbool.h>

#include "base/error.h"
#include "mxfp/sparse.h"

enum { SPARSITY_TEXT = 24 };

/* Finds a pattern that the library knows by its text; false if it knows none of that text. */
bool sparsity_find(const char *text, struct mxfp_sparsity *sparsity);

/* The same for an option on the command line: EXIT_USAGE with "WHERE: ..." and the known patterns. */
int sparsity_parse(const char *text, const char *where, struct mxfp_sparsity *sparsity, struct error *error);

/* Writes "4:16" to `text`, and returns it. */
const char *sparsity_text(struct mxfp_sparsity sparsity, char text[SPARSITY_TEXT]);

#endif
