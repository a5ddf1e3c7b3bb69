/* SPDX-License-Identifier: MIT */
/*
 * libmxfp: bit-exact low-precision number formats. This header includes the parts.
 *
 * Example: quantizes 64 rows of 4096 floats to MXFP4 with scale rule "mse".
 *
 *     struct mxfp_sizes size;
 *     if (mxfp_blocks_size(MXFP_FORMAT_MXFP4, 64, 4096, &size) != MXFP_OK) ...
 *     struct mxfp_blocks b = {.format = MXFP_FORMAT_MXFP4, .rows = 64, .cols = 4096,
 *                             .codes = malloc(size.codes_bytes), .scales = malloc(size.scales_bytes)};
 *     enum mxfp_status st = mxfp_quantize(&b, weights, MXFP_FORMAT_F32, 0, NULL);
 *     if (st != MXFP_OK) fprintf(stderr, "%s\n", mxfp_status_text(st));
 *
 * Then multiplies 16 rows of 4096 floats x by them in W4A8, in a workspace as large as mxfp_gemm_workspace_size() says:
 *
 *     struct mxfp_matrix a = {.format = MXFP_FORMAT_F32, .rows = 16, .cols = 4096, .data = x}, w = mxfp_blocks_matrix(&b);
 *     struct mxfp_product p = {.a = &a, .w = &w, .c = y};
 *     struct mxfp_gemm_options o = {.a_format = MXFP_FORMAT_MXFP8_E4M3};
 *     st = mxfp_gemm(&p, &o, workspace, workspace_bytes);
 *
 * Structs whose first member is `size` may grow at their end in later versions. Set size to sizeof of the struct, or
 * leave it 0 for the struct of the first version: {0} and designated initializers are right for programs that use no
 * later member. Members that the caller's struct does not have count as zero, which is always their default; a member
 * that the library does not know must be zero, else the call returns MXFP_ERR_OPTION, as it does for a size that is less
 * than the first version's. NULL options are {0}. Structs without `size` do not change.
 *
 * What holds for all functions:
 *
 * - Every function may be called from several threads at once: concurrent calls may share inputs; their outputs and
 *   workspaces must be distinct.
 * - Data needs no alignment: numbers, codes, scales, masks, positions, indices, caches, workspaces, and the single numbers
 *   (const float *) of options. Structs, arrays of pointers, and integers that a call sets (size_t *bytes) have C's.
 * - Arrays overlap if they share a byte. What lies between rows belongs to none of them: q, k and v in the columns of one
 *   matrix are three arrays. Only if two arrays have gaps, and strides of different bytes, do the gaps count as theirs. Where a
 *   result may be an array that is read, it has its address, format and, if it has more than one row, stride. No struct of
 *   arguments, array of pointers or single number may lie in memory that the call writes.
 * - A stride is 0, or at least a row, and in bytes it fits size_t, even if there is one row or none.
 * - A number whose comment says what it must be (finite, from 0 on) is refused if it is not, and may be refused even where
 *   nothing uses it; where none may be negative, -0 is +0. Other numbers (scales, sinks, bias, frequencies, attention_factor)
 *   may be NaN or Inf, and results are what the arithmetic makes of them.
 * - The indices of elements end at 2^64 - 2: first_index plus the number of elements is less than 2^64.
 * - Without elements (0 rows or cols) arrays may be NULL, and a call may return MXFP_OK for what it refuses otherwise.
 */
#ifndef MXFP_H
#define MXFP_H

#include "mxfp/accumulate.h"
#include "mxfp/attention.h"
#include "mxfp/convert.h"
#include "mxfp/engine.h"
#include "mxfp/exec.h"
#include "mxfp/format.h"
#include "mxfp/gemm.h"
#include "mxfp/isa.h"
#include "mxfp/matrix.h"
#include "mxfp/options.h"
#include "mxfp/philox.h"
#include "mxfp/quantize.h"
#include "mxfp/sparse.h"
#include "mxfp/status.h"
#include "mxfp/vector.h"
#include "mxfp/version.h"

#endif
