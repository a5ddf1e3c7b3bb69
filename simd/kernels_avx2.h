/* SPDX-License-Identifier: MIT */
/* The kernels of tier avx2. */
#ifndef MXFP_KERNELS_AVX2_H
#define MXFP_KERNELS_AVX2_H

#include "kernels.h"

mxfp_convert_kernel mxfp_convert_avx2;
mxfp_convert_kernel mxfp_convert_nearest_avx2;
mxfp_convert_kernel mxfp_widen_avx2;
mxfp_dequantize_kernel mxfp_dequantize_avx2;
mxfp_gemm_finish_kernel mxfp_gemm_finish_avx2;
extern const struct mxfp_gemm_kernel mxfp_gemm_exact_avx2;
extern const struct mxfp_gemm_kernel mxfp_gemm_int16_avx2;
extern const struct mxfp_gemm_kernel mxfp_gemm_chain_avx2;
mxfp_quantize_kernel mxfp_quantize_mx_avx2;
mxfp_quantize_kernel mxfp_quantize_mx_nearest_avx2;
mxfp_quantize_kernel mxfp_quantize_nvfp4_avx2;
mxfp_scan_kernel mxfp_scan_avx2;

#endif
