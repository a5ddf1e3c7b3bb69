/* SPDX-License-Identifier: MIT */
/* gemm_int16_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

enum { INT16_MR = 6, INT16_VECTORS = 4 };

#include "gemm_int16_body.h"

const struct mxfp_gemm_kernel mxfp_gemm_int16_neon = {
	.id = 0x0606,
	.name = "int16-neon",
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = int16_a_bytes,
	.w_panel_bytes = int16_w_bytes,
	.pack_a = int16_pack_a,
	.pack_w = int16_pack_w,
	.multiply = int16_multiply,
};
