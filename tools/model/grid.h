/* SPDX-License-Identifier: MIT */
/* Along a dimension that scales cut into parts: which blocks these can be. */
#ifndef TOOLS_MODEL_GRID_H
#define TOOLS_MODEL_GRID_H

#include <stdbool.h>
#include <stdint.h>

/* Whether blocks of that many elements, of which the last may be cut off, make so many parts of n. */
static inline bool grid_is_cut(uint64_t n, uint64_t block, uint64_t parts)
{
	return block != 0 && n / block + (n % block != 0) == parts;
}

/* Whether parts that divide n are blocks for certain: the whole, or powers of two. Others could as well be larger blocks whose
   last one is cut off. */
static inline bool grid_is_certain(uint64_t n, uint64_t parts)
{
	const uint64_t share = n / parts;

	return parts == 1 || (share & (share - 1)) == 0;
}

#endif
