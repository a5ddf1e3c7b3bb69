/* SPDX-License-Identifier: MIT */
/*
 * libmxfp: bit-exact low-precision number formats. This header includes the parts.
 *
 * Example: 64 rows of 4096 floats to MXFP4, scale rule "mse".
 *
 *     struct mxfp_sizes size;
 *     if (mxfp_blocks_size(MXFP_FORMAT_MXFP4, 64, 4096, &size) != MXFP_OK) ...
 *     struct mxfp_blocks b = {.format = MXFP_FORMAT_MXFP4, .rows = 64, .cols = 4096,
 *                             .codes = malloc(size.codes_bytes), .scales = malloc(size.scales_bytes)};
 *     enum mxfp_status st = mxfp_quantize(&b, weights, MXFP_FORMAT_F32, 0, NULL);
 *     if (st != MXFP_OK) fprintf(stderr, "%s\n", mxfp_status_text(st));
 *
 * Then W4A8, from 16 rows of 4096 floats x, with workspace of what mxfp_gemm_workspace_size() says:
 *
 *     struct mxfp_gemm p = {.a = {.format = MXFP_FORMAT_F32, .rows = 16, .cols = 4096, .data = x},
 *                           .w = {.format = b.format, .rows = 64, .cols = 4096, .data = b.codes, .scales = b.scales},
 *                           .c = y};
 *     struct mxfp_gemm_options o = {.a_format = MXFP_FORMAT_MXFP8_E4M3};
 *     st = mxfp_gemm(&p, &o, workspace, workspace_bytes);
 *
 * Every function is safe to call from several threads at once on different data.
 */
#ifndef MXFP_H
#define MXFP_H

#include "mxfp/convert.h"
#include "mxfp/engine.h"
#include "mxfp/format.h"
#include "mxfp/gemm.h"
#include "mxfp/isa.h"
#include "mxfp/options.h"
#include "mxfp/quantize.h"
#include "mxfp/sparse.h"
#include "mxfp/status.h"

#endif
