/* SPDX-License-Identifier: MIT */
/* The counts of a conversion (saturated, overflowed, flushed, NaN and Inf elements), as text and as JSON. */
#ifndef TOOLS_IO_COUNTS_H
#define TOOLS_IO_COUNTS_H

#include <jansson.h>
#include <stdio.h>

#include "mxfp/options.h"

void counts_add(struct mxfp_counts *sum, const struct mxfp_counts *counts);

/* One line: "elements 4, saturated 1, overflowed 0, flushed 0, nan 0, inf 0". */
void counts_print(FILE *stream, uint64_t elements, const struct mxfp_counts *counts);

/* The same names and numbers; NULL if memory ran out. */
json_t *counts_facts(uint64_t elements, const struct mxfp_counts *counts);

/* Those of weights that became blocks: saturated, flushed, nan and inf; NULL if memory ran out. */
json_t *counts_weights_facts(const struct mxfp_counts *counts);

#endif
