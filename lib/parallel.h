/* SPDX-License-Identifier: MIT */
/* The one place that knows threads. */
#ifndef MXFP_PARALLEL_H
#define MXFP_PARALLEL_H

#include <stddef.h>

#include "mxfp/options.h"

/* Does piece `piece` of the work in `context`, adding to counts that no other thread sees. */
typedef void mxfp_piece(const void *context, size_t piece, struct mxfp_counts *counts);

/* Runs pieces 0 .. n_pieces - 1 in any order and adds what they counted to *counts (NULL: dropped). They run on the
   caller's threads if `parallel` is given, else on at most `threads` threads (0: as many as the machine has). */
void mxfp_parallel_for(unsigned threads, const struct mxfp_parallel *parallel, size_t n_pieces, mxfp_piece *run,
                       const void *context, struct mxfp_counts *counts);

/* How many tasks at once are worth while for this option: at least 1. */
size_t mxfp_parallel_width(unsigned threads);

#endif
