/* SPDX-License-Identifier: MIT */
/*
 * Declares the kernels of every tier: TIER(convert) is mxfp_convert_avx512 where body/convert.c is compiled for avx512.
 * No tier has all of them; its kernels.c shows which it has.
 */
#ifndef MXFP_BODY_SLOTS_H
#define MXFP_BODY_SLOTS_H

#include "kernels.h"

mxfp_apply_kernel TIER(apply);
mxfp_attend_kernel TIER(attend);
mxfp_clamp_kernel TIER(clamp);
mxfp_convert_kernel TIER(convert);
mxfp_convert_kernel TIER(convert_nearest);
mxfp_convert_kernel TIER(convert_stochastic);
mxfp_convert_kernel TIER(decode);
mxfp_convert_kernel TIER(decode_wide);
mxfp_convert_kernel TIER(encode);
mxfp_convert_kernel TIER(encode_wide);
mxfp_convert_kernel TIER(relay);
mxfp_convert_kernel TIER(widen);
mxfp_dequantize_kernel TIER(dequantize);
mxfp_gemm_finish_kernel TIER(gemm_finish);
mxfp_gemm_ref_kernel TIER(gemm_mma);
mxfp_prune_kernel TIER(prune);
mxfp_prune_kernel TIER(prune_vectors);
mxfp_quantize_kernel TIER(quantize_mx);
mxfp_quantize_kernel TIER(quantize_mx_groups);
mxfp_quantize_kernel TIER(quantize_mx_nearest);
mxfp_quantize_kernel TIER(quantize_mx_stochastic);
mxfp_quantize_kernel TIER(quantize_squares);
mxfp_quantize_kernel TIER(quantize_nvfp4);
mxfp_quantize_kernel TIER(quantize_nvfp4_groups);
mxfp_reduce_kernel TIER(reduce);
mxfp_row_sum_kernel TIER(row_sum);
mxfp_row_max_kernel TIER(row_max);
mxfp_softmax_kernel TIER(softmax);
mxfp_norm_kernel TIER(norm);
mxfp_combine_kernel TIER(combine);
mxfp_rotate_kernel TIER(rotate);
mxfp_scan_kernel TIER(scan);
mxfp_scan_kernel TIER(scan_words);
mxfp_transpose_kernel TIER(transpose);
mxfp_sparse_kernel TIER(compress);
mxfp_sparse_kernel TIER(expand);

extern const struct mxfp_gemm_kernel TIER(gemm_chain);
extern const struct mxfp_gemm_kernel TIER(gemm_chain_blocks);
extern const struct mxfp_gemm_kernel TIER(gemm_int16_codes);
extern const struct mxfp_gemm_kernel TIER(gemm_fp4);
extern const struct mxfp_gemm_kernel TIER(gemm_fp4_bytes);
extern const struct mxfp_gemm_kernel TIER(gemm_fp8);
extern const struct mxfp_gemm_kernel TIER(gemm_mxfp8);
extern const struct mxfp_gemm_kernel TIER(gemm_int8);
extern const struct mxfp_gemm_kernel TIER(gemm_e4m3);
extern const struct mxfp_gemm_kernel TIER(gemm_sparse_chain);
extern const struct mxfp_gemm_kernel TIER(gemm_sparse_fp4);

#endif
