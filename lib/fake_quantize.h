/* SPDX-License-Identifier: MIT */
/* What quantize.c leaves to fake_quantize.c. */
#ifndef MXFP_FAKE_QUANTIZE_H
#define MXFP_FAKE_QUANTIZE_H

#include "exec.h"
#include "result.h"

/* Makes numbers and marks of a checked sink, with its blocks or without them; sink->job is of the whole matrix, with its amax if
   the format has a tensor scale. `scanned`: the first NaN or Inf has been looked for. */
void mxfp_fake_run(const struct mxfp_sink *sink, const struct mxfp_runner *runner, bool scanned);

#endif
