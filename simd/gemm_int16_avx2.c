/* SPDX-License-Identifier: MIT */
/* gemm_int16_body.h for tier avx2. */
#include "avx2.h"
#include "kernels_avx2.h"

enum { INT16_MR = 6, INT16_VECTORS = 2 };

#include "gemm_int16_body.h"

const struct mxfp_gemm_kernel mxfp_gemm_int16_avx2 = {
	.id = 0x0605,
	.name = "int16-avx2",
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = int16_a_bytes,
	.w_panel_bytes = int16_w_bytes,
	.pack_a = int16_pack_a,
	.pack_w = int16_pack_w,
	.multiply = int16_multiply,
};
