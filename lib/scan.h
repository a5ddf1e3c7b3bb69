/* SPDX-License-Identifier: MIT */
/* What must be known of a whole matrix before it is quantized. */
#ifndef MXFP_SCAN_H
#define MXFP_SCAN_H

#include "exec.h"

/* Finds the largest finite magnitude of the job's source (binary32 bits) and the index of its first NaN or Inf
   (UINT64_MAX: none). What via_bf16 makes Inf counts as Inf. Only the members that describe the source are read. */
void mxfp_scan(const struct mxfp_quantize_job *job, const struct mxfp_runner *runner, uint32_t *amax,
               uint64_t *first_non_finite);

#endif
