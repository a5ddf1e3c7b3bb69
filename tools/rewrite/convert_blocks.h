/* SPDX-License-Identifier: MIT */
/* Writes a tensor in another format, block by block (block_change.h). What the format does not hold is rounded by a rule from
   the numbers that decoding gives. */
#ifndef TOOLS_REWRITE_CONVERT_BLOCKS_H
#define TOOLS_REWRITE_CONVERT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "io/transfer.h"
#include "model/layout.h"
#include "rewrite/block_change.h"

/* What became of blocks, as long as the longer ones of the two formats. */
struct convert_tally {
	uint64_t blocks;
	uint64_t rounded;  /* those that the format does not hold; all others are exact */
	uint64_t special;  /* of these, those with a NaN or Inf that it does not hold */
	double error;      /* the largest of a rounded block, as a part of its largest number */
	uint64_t row, col; /* of the first rounded block */
	bool is_special;   /* the first rounded block has such a NaN or Inf */
};

void convert_tally_add(struct convert_tally *sum, const struct convert_tally *tally);

struct convert_blocks {
	const struct quantized *source; /* its codes are F32 numbers if its format is F32 */
	enum mxfp_format to;
	struct block_factor factor; /* of the target; 1 if it has none */
	int rule, non_finite;       /* of what is rounded */
};

/* Adds how many blocks of a tensor each power of two as a tensor scale would hold; `to` has a tensor scale, and its factor
   here is 1. by_scales: scales alone are read where that can be, which counts only blocks that keep theirs: enough if one
   power of two keeps them all. EXIT_IO, EXIT_INPUT, EXIT_MEMORY; signals. */
int convert_blocks_spread(struct transfer *transfer, const struct convert_blocks *blocks, bool by_scales,
                          struct block_spread *spread, struct error *error);

/* Writes the codes and scales, and adds to the tally. The same errors. */
int convert_blocks_write(struct transfer *transfer, const struct convert_blocks *blocks, const struct layout_target *target,
                         struct convert_tally *tally, struct error *error);

#endif
