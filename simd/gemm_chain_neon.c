/* SPDX-License-Identifier: MIT */
/* gemm_chain_body.h for tier neon. */
#include "neon.h"
#include "kernels_neon.h"

enum { CHAIN_MR = 6, CHAIN_VECTORS = 4 };

#include "gemm_chain_body.h"

const struct mxfp_gemm_kernel mxfp_gemm_chain_neon = {
	.id = 0x0601,
	.name = "chain-neon",
	.mr = CHAIN_MR,
	.nr = CHAIN_NR,
	.a_panel_bytes = chain_a_bytes,
	.w_panel_bytes = chain_w_bytes,
	.pack_a = chain_pack_a,
	.pack_w = chain_pack_w,
	.multiply = chain_multiply,
};
