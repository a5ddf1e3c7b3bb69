/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_QUANTIZE_FINITE_H
#define TOOLS_QUANTIZE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

#include "mxfp/matrix.h"

/* Whether a number of blocks, whose rows follow each other without a gap, decodes to Inf or NaN in f32: which is the first. */
bool quantize_finds_non_finite(const struct mxfp_blocks *blocks, size_t *row, size_t *col, bool *is_nan);

#endif
