/* SPDX-License-Identifier: MIT */
/*
 * Exact products of gemm_int8.h's formats in blocks of 32 with a W in MXFP4 of which 4 of 16 or 4 of 8 elements
 * are kept: what is not kept adds nothing to an exact sum, and is not multiplied.
 *
 * A's panels are those of gemm_int8.h with 128 added to every element: it is A's bytes that are unsigned here,
 * because how much an offset adds must not depend on which of A's elements are picked. Each sum starts from minus 128
 * times the sum of W's kept elements in the block. `start` of a block of A, and folded_start, are not used.
 *
 * Panel of W, GEMM_INT8_NR columns:
 *   scales  [blocks][NR], as in gemm_int8.h.
 *   words   [blocks][tags, then codes][NR][4 bytes]: one word of either at 4:16, two at 4:8. A step of four kept
 *           elements is the low or the high halves of a word's bytes: the codes, and their places among the 16 of A.
 */
#ifndef MXFP_AVX512_GEMM_SPARSE_INT8_H
#define MXFP_AVX512_GEMM_SPARSE_INT8_H

#include "avx512/gemm_int8.h"

enum { SPARSE_INT8_OFFSET = 128 };

/* Words of tags, and of codes, a block. */
ALWAYS_INLINE size_t sparse_int8_words(struct mxfp_sparsity sparsity)
{
	return 16 / sparsity.m;
}

size_t mxfp_gemm_sparse_int8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k);
void mxfp_gemm_sparse_int8_pack_a(const struct mxfp_gemm_pack_job *job);
void mxfp_gemm_sparse_int8_pack_w(const struct mxfp_gemm_pack_job *job);

#endif
