/* SPDX-License-Identifier: MIT */
/* What quantizing must know of a whole matrix first. */
#ifndef MXFP_SCAN_H
#define MXFP_SCAN_H

#include "exec.h"

/* The largest finite magnitude of the job's source (binary32 bits), and the index of its first NaN or Inf (UINT64_MAX:
   none). What via_bf16 makes Inf counts as Inf. Only what the job says of its source is read. */
void mxfp_scan(const struct mxfp_quantize_job *job, const struct mxfp_runner *runner, uint32_t *amax,
               uint64_t *first_non_finite);

#endif
