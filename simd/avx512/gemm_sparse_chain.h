/* SPDX-License-Identifier: MIT */
/*
 * Panels of the chain family for a W of which 4 of 16 or 4 of 8 elements are kept. All numbers are binary32.
 *
 * W, in units of 16 elements of K: first `tags`, words of 16 bits for each of the NR outputs, 1 a unit at 4:16 and
 * 2 at 4:8: the places in the unit of four kept elements, ascending, from the low half byte. Then those elements,
 * [place in order][NR].
 *
 * A: a head, then K padded to units with -0, which changes no sum beside a W of +0. A panel of few rows is
 * [row][k], so that a unit of a row is a vector from which the places pick, for 16 outputs at a time. One of more
 * rows is [k][row], so that a kept element is multiplied by a vector of rows.
 *
 * What is not kept is not multiplied, although it is a product a * +0 of the chain. Only two things can tell: a
 * NaN or Inf in A, which the head says; and P = -0, to which +0 would have been added. P comes to be -0 by
 * underflow alone, and where it has been replaced by +0 since, or would have been, makes a difference only if it
 * is -0 at the end of the pass. In these cases the pass is done again with all its products.
 */
#ifndef MXFP_AVX512_GEMM_SPARSE_CHAIN_H
#define MXFP_AVX512_GEMM_SPARSE_CHAIN_H

#include "tier.h"
#include "body/slots.h"

enum {
	SPARSE_CHAIN_MR = 64,
	SPARSE_CHAIN_NR = 64,
	SPARSE_CHAIN_UNIT = 16,
	SPARSE_CHAIN_FEW = 12 /* the most rows of a panel that is [row][k] */
};

struct sparse_chain_head {
	_Alignas(MXFP_GEMM_ALIGN) uint32_t non_finite;
};

ALWAYS_INLINE size_t sparse_chain_units(size_t k)
{
	return (k + SPARSE_CHAIN_UNIT - 1) / SPARSE_CHAIN_UNIT;
}

/* Words of tags a unit and output. */
ALWAYS_INLINE size_t sparse_chain_tags(struct mxfp_sparsity sparsity)
{
	return SPARSE_CHAIN_UNIT / sparsity.m;
}

/* Bytes of a unit of W: its tags, and in all. */
ALWAYS_INLINE size_t sparse_chain_tag_bytes(size_t tags)
{
	return tags * SPARSE_CHAIN_NR * sizeof(uint16_t);
}

ALWAYS_INLINE size_t sparse_chain_unit_bytes(size_t tags)
{
	return sparse_chain_tag_bytes(tags) + tags * 4 * SPARSE_CHAIN_NR * sizeof(float);
}

size_t TIER(gemm_sparse_chain_a_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
size_t TIER(gemm_sparse_chain_w_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
void TIER(gemm_sparse_chain_pack_a)(const struct mxfp_gemm_pack_job *job);
void TIER(gemm_sparse_chain_pack_w)(const struct mxfp_gemm_pack_job *job);

#endif
