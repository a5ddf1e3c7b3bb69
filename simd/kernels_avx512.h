/* SPDX-License-Identifier: MIT */
/* The kernels of tier avx512. */
#ifndef MXFP_KERNELS_AVX512_H
#define MXFP_KERNELS_AVX512_H

#include "kernels.h"

mxfp_convert_kernel mxfp_convert_avx512;
mxfp_convert_kernel mxfp_decode_avx512;
mxfp_convert_kernel mxfp_decode_wide_avx512;
mxfp_convert_kernel mxfp_encode_avx512;
mxfp_convert_kernel mxfp_encode_wide_avx512;
mxfp_convert_kernel mxfp_relay_avx512;
mxfp_dequantize_kernel mxfp_dequantize_avx512;
mxfp_gemm_finish_kernel mxfp_gemm_finish_avx512;
mxfp_quantize_kernel mxfp_quantize_mx_avx512;
mxfp_quantize_kernel mxfp_quantize_mx_groups_avx512;
mxfp_quantize_kernel mxfp_quantize_nvfp4_avx512;
mxfp_scan_kernel mxfp_scan_avx512;
mxfp_scan_kernel mxfp_scan_words_avx512;
mxfp_quantize_kernel mxfp_quantize_nvfp4_fast_avx512;
mxfp_compress_kernel mxfp_compress_avx512;
mxfp_expand_kernel mxfp_expand_avx512;

extern const struct mxfp_gemm_kernel mxfp_gemm_chain_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_exact_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_int16_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_int8_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_e4m3_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_sparse_chain_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_wide_avx512;
extern const struct mxfp_gemm_kernel mxfp_gemm_sparse_int8_avx512;

#endif
