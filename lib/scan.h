/* SPDX-License-Identifier: MIT */
/* What must be known of a whole matrix before it is quantized. */
#ifndef MXFP_SCAN_H
#define MXFP_SCAN_H

#include "exec.h"
#include "result.h"
#include "tile.h"

/* Finds the largest finite magnitude of the job's source (binary32 bits) and the index of its first NaN or Inf
   (UINT64_MAX: none). What via_bf16 makes Inf counts as Inf. Only the members that describe the source are read. */
void mxfp_scan(const struct mxfp_quantize_job *job, const struct mxfp_runner *runner, uint32_t *amax,
               uint64_t *first_non_finite);

/* Scans a part of the matrix: amax and first_non_finite of what it returns are as above. */
struct mxfp_scan_job mxfp_scan_tile(const struct mxfp_kernels *kernels, const struct mxfp_quantize_job *job,
                                    const struct mxfp_tile *tile);

/* Lowers *least to the index if that is less. */
void mxfp_lower(_Atomic uint64_t *least, uint64_t index);

/* Scans what options ask to know before the first block is made: policy `error`, the tensor scale. Sets the job's tensor_amax,
   and *scanned if *first_non_finite is done. MXFP_ERR_NON_FINITE: the policy is `error` and there is a NaN or Inf. */
enum mxfp_status mxfp_scan_first(struct mxfp_sink *sink, const struct mxfp_quantize_options *o,
                                 const struct mxfp_runner *runner, bool *scanned);

#endif
