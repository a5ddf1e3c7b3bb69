/* SPDX-License-Identifier: MIT */
/* gemm_exact_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

enum { EXACT_MR = 6, EXACT_VECTORS = 2 };

#include "gemm_exact_body.h"

const struct mxfp_gemm_kernel mxfp_gemm_exact_neon = {
	.id = 0x0603,
	.name = "exact-neon",
	.mr = EXACT_MR,
	.nr = EXACT_NR,
	.a_panel_bytes = exact_a_bytes,
	.w_panel_bytes = exact_w_bytes,
	.pack_a = exact_pack_a,
	.pack_w = exact_pack_w,
	.multiply = exact_multiply,
};
