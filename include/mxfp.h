/* SPDX-License-Identifier: MIT */
/*
 * libmxfp: bit-exact low-precision number formats. This header includes the parts.
 *
 * Six functions are enough to begin with: mxfp_convert() for single numbers, mxfp_blocks_size(), mxfp_quantize() and
 * mxfp_dequantize() for blocks, mxfp_gemm_workspace_size() and mxfp_gemm() for products.
 *
 * Quantizes 64 rows of 4096 floats to MXFP4:
 *
 *     struct mxfp_sizes size;
 *     if (mxfp_blocks_size(&size, MXFP_FORMAT_MXFP4, 64, 4096) != MXFP_OK) ...
 *     struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 64, 4096, malloc(size.codes_bytes), malloc(size.scales_bytes));
 *     struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, 64, 4096, data);
 *     struct mxfp_result to = mxfp_to_blocks(&b);
 *     enum mxfp_status st = mxfp_quantize(&to, &weights, NULL, NULL);
 *     if (st != MXFP_OK) fprintf(stderr, "%s\n", mxfp_status_text(st));
 *
 * Multiplies 16 rows of 4096 floats x by them in W4A8, in a workspace as large as mxfp_gemm_workspace_size() says:
 *
 *     struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, 16, 4096, x), w = mxfp_blocks_matrix(&b);
 *     struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, y);
 *     struct mxfp_product p = {.size = sizeof p, .c = &c, .a = &a, .w = &w};
 *     struct mxfp_gemm_options o = {.size = sizeof o, .a_format = MXFP_FORMAT_MXFP8_E4M3};
 *     st = mxfp_gemm(&p, &o, workspace, workspace_bytes, NULL);
 *
 * In C++, `mxfp_gemm_options o{}; o.size = sizeof o;` and so on sets the same without a warning.
 *
 * Arguments come in one order: what is written, what is read, options, workspace, exec. Options and exec may be NULL: the
 * defaults. Rows of numbers or blocks that are read are a struct mxfp_matrix; where results go is a struct mxfp_result
 * (mxfp/matrix.h).
 *
 * Structs whose first member is `size` may grow at their end in later versions. Set it to sizeof of the struct, as above;
 * other members may be zero, which is always their default. A call refuses a struct whose size is not set. Members that a
 * caller's older struct does not have count as zero; one that the library does not know must be zero. Structs without `size`
 * do not change, except those that only the library makes.
 *
 * doc/numerics.md, which comments refer to, is the specification of every bit; it is installed with the documentation.
 *
 * What holds for all functions:
 *
 * - Every function may be called from several threads at once. Calls may share whatever they only read, options included; what
 *   they write must be distinct.
 * - Data needs no alignment: numbers, codes, scales, masks, positions, indices, caches, workspaces. Structs, arrays of pointers,
 *   and integers that a call sets (size_t *bytes) have C's.
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
 *
 * Errors that any function may return, and that are not repeated below:
 *
 * MXFP_ERR_NULL     a pointer that is needed is NULL; an array of no elements may be NULL
 * MXFP_ERR_VERSION  a struct whose size is not set or too small, or with a member set that this version does not know
 * MXFP_ERR_ISA      exec->isa names no tier of this build
 * MXFP_ERR_STRIDE   a stride is shorter than a row
 * MXFP_ERR_SIZE     a size or an index overflows
 * MXFP_ERR_OVERLAP  an array that is written overlaps another of the call, other than is said to be allowed
 *
 * Where a call has several errors, it returns one of them. On an error nothing has been written.
 */
#ifndef MXFP_H
#define MXFP_H

#include "mxfp/accumulate.h"
#include "mxfp/attention.h"
#include "mxfp/convert.h"
#include "mxfp/exec.h"
#include "mxfp/format.h"
#include "mxfp/gemm.h"
#include "mxfp/isa.h"
#include "mxfp/matrix.h"
#include "mxfp/options.h"
#include "mxfp/philox.h"
#include "mxfp/quantize.h"
#include "mxfp/rows.h"
#include "mxfp/sparse.h"
#include "mxfp/status.h"
#include "mxfp/version.h"

#endif
