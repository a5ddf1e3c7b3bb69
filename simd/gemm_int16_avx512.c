/* SPDX-License-Identifier: MIT */
/* gemm_int16_body.h for tier avx512. */
#include "avx512.h"
#include "kernels_avx512.h"

enum { INT16_MR = 12, INT16_VECTORS = 1 };

#include "gemm_int16_body.h"

const struct mxfp_gemm_kernel mxfp_gemm_int16_avx512 = {
	.id = 0x0607,
	.name = "int16-avx512",
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = int16_a_bytes,
	.w_panel_bytes = int16_w_bytes,
	.pack_a = int16_pack_a,
	.pack_w = int16_pack_w,
	.multiply = int16_multiply,
};
