/* SPDX-License-Identifier: MIT */
/* The kernels of tier neon. */
#ifndef MXFP_KERNELS_NEON_H
#define MXFP_KERNELS_NEON_H

#include "kernels.h"

mxfp_convert_kernel mxfp_convert_neon;
mxfp_convert_kernel mxfp_convert_nearest_neon;
mxfp_convert_kernel mxfp_widen_neon;
mxfp_dequantize_kernel mxfp_dequantize_neon;
mxfp_gemm_finish_kernel mxfp_gemm_finish_neon;
extern const struct mxfp_gemm_kernel mxfp_gemm_exact_neon;
extern const struct mxfp_gemm_kernel mxfp_gemm_int16_neon;
extern const struct mxfp_gemm_kernel mxfp_gemm_chain_neon;
mxfp_quantize_kernel mxfp_quantize_mx_neon;
mxfp_quantize_kernel mxfp_quantize_mx_nearest_neon;
mxfp_quantize_kernel mxfp_quantize_nvfp4_neon;
mxfp_scan_kernel mxfp_scan_neon;

#endif
