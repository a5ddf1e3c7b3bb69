/* SPDX-License-Identifier: MIT */
/*
 * Panels of the chain family. A's hold binary32 whatever the format: rows, a stride apart, from which the kernel
 * broadcasts. W's are [k][row], bf16 and f16 as they are, and anything else as binary32.
 */
#ifndef MXFP_AVX512_GEMM_CHAIN_H
#define MXFP_AVX512_GEMM_CHAIN_H

#include "tier.h"

#include "body/gemm_panel.h"

enum { GEMM_CHAIN_MR = 6, GEMM_CHAIN_NR = 64 };

/* Numbers from a row of A to the next: whole lines, and an odd number of them for usual k, so that rows do not share
   the sets of L1. */
ALWAYS_INLINE size_t gemm_chain_a_stride(size_t k)
{
	return (k + LANES - 1) / LANES * LANES + LANES;
}

/* Bytes of a number in W's panels. */
ALWAYS_INLINE size_t gemm_chain_w_width(enum mxfp_format format)
{
	return format == MXFP_FORMAT_BF16 || format == MXFP_FORMAT_F16 ? sizeof(uint16_t) : sizeof(float);
}

/* Rows of the chunk, from row `row` of the matrix on, as binary32, `stride` numbers apart. */
void TIER(gemm_chain_decode)(const struct mxfp_gemm_pack_job *job, size_t row, size_t rows, void *to, size_t stride);

#endif
