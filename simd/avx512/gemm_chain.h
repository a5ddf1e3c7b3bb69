/* SPDX-License-Identifier: MIT */
/*
 * Panels of the chain kernels, dense and sparse. Those of A hold rows of binary32 in every format, a stride apart, from
 * which the dense kernel broadcasts. Its panels of W are [k][row]: bf16 and f16 as they are, f32 and tf32 as binary32;
 * block formats have the panels of gemm_chain_blocks.c.
 */
#ifndef MXFP_AVX512_GEMM_CHAIN_H
#define MXFP_AVX512_GEMM_CHAIN_H

#include "tier.h"

#include "body/gemm_panel.h"

enum { GEMM_CHAIN_MR = 6, GEMM_CHAIN_NR = 64 };

/* Numbers from a row of A to the next: whole cache lines, an odd number of them for usual k, so that rows do not
   compete for the same sets of L1. */
ALWAYS_INLINE size_t gemm_chain_a_stride(size_t k)
{
	return (k + LANES - 1) / LANES * LANES + LANES;
}

/* The bytes of a number in a panel of W that is in no block format. */
ALWAYS_INLINE size_t gemm_chain_w_width(enum mxfp_format format)
{
	return format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16 ? sizeof(uint16_t) : sizeof(float);
}

enum {
	GEMM_CHAIN_BLOCKS_STEP = 16 /* elements that are decoded at once */
};

/* The bytes of a panel of W in a block format, and of its codes before element k. */
size_t TIER(gemm_chain_blocks_bytes)(enum mxfp_format format, size_t k);
size_t TIER(gemm_chain_blocks_codes)(enum mxfp_format format, size_t k);
void TIER(gemm_chain_blocks_pack)(const struct mxfp_gemm_pack_job *job);

/* Expands elements k0 to k0 + k - 1 into the scratch memory, [k][row], whole steps. */
const float *TIER(gemm_chain_blocks_expand)(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k);

/* C = fl32(C + P) over k elements, whole steps, for the job's rows, which are few. Returns false if expanding is better, and does
   nothing. */
bool TIER(gemm_chain_blocks_multiply)(const struct mxfp_gemm_multiply_job *job, size_t k0, size_t k);

/* Decodes the chunk of `rows` rows of the matrix, from `row` on, to binary32; rows of `to` are `stride` apart. */
void TIER(gemm_chain_decode)(const struct mxfp_gemm_pack_job *job, size_t row, size_t rows, void *to, size_t stride);

#endif
