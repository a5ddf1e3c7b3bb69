/* SPDX-License-Identifier: MIT */
/* The reference kernels, and what they share: loading and storing numbers, blocks, random words, squared errors. */
#ifndef MXFP_REF_H
#define MXFP_REF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"
#include "scale.h"

void mxfp_convert_ref(const struct mxfp_convert_job *job);
void mxfp_quantize_mx_ref(const struct mxfp_quantize_job *job);
void mxfp_quantize_squares_ref(const struct mxfp_quantize_job *job);
void mxfp_dequantize_mx_ref(const struct mxfp_dequantize_job *job);
void mxfp_quantize_nvfp4_ref(const struct mxfp_quantize_job *job);
void mxfp_dequantize_nvfp4_ref(const struct mxfp_dequantize_job *job);
void mxfp_clamp_ref(const struct mxfp_clamp_job *job);
void mxfp_transpose_ref(const struct mxfp_transpose_job *job);
void mxfp_scan_ref(struct mxfp_scan_job *job);
void mxfp_prune_ref(const struct mxfp_prune_job *job);
void mxfp_compress_ref(const struct mxfp_sparse_job *job);
void mxfp_expand_ref(const struct mxfp_sparse_job *job);
void mxfp_apply_ref(const struct mxfp_apply_job *job);
void mxfp_row_sum_ref(const struct mxfp_row_sum_job *job);
void mxfp_row_max_ref(struct mxfp_row_max_job *job);
void mxfp_softmax_ref(const struct mxfp_softmax_job *job);
void mxfp_norm_ref(const struct mxfp_norm_job *job);
void mxfp_combine_ref(const struct mxfp_combine_job *job);
void mxfp_rotate_ref(const struct mxfp_rotate_job *job);
void mxfp_attend_ref(const struct mxfp_attend_job *job);
void mxfp_gemm_ref(const struct mxfp_gemm_ref_job *job);
void mxfp_gemm_mma_ref(const struct mxfp_gemm_ref_job *job);
void mxfp_gemm_finish_ref(const struct mxfp_gemm_finish_job *job);
void mxfp_reduce_ref(const struct mxfp_reduce_job *job);

/* Sets out to the four words of counter block `counter` under `key`, after ten rounds. */
void mxfp_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Multipliers and Weyl increments of Philox4x32-10 from section 4.3 of the paper (the increments are the golden ratio and
   sqrt(3) - 1). */
#define PHILOX_M0 UINT32_C(0xD2511F53)
#define PHILOX_M1 UINT32_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9)
#define PHILOX_W1 UINT32_C(0xBB67AE85)

/* Number i of an array of binary32, which may be unaligned, as bits. */
static inline uint32_t mxfp_ref_number(const float *array, size_t i)
{
	uint32_t bits;

	memcpy(&bits, array + i, sizeof bits);
	return bits;
}

/* Number i of an array of any element format, as binary32 bits. */
uint32_t mxfp_ref_load(const struct mxfp_format_info *format, const void *array, size_t i);

/* Stores a code as number i of an array. */
void mxfp_ref_store(const struct mxfp_format_info *format, void *array, size_t i, uint32_t code);

/* A block's elements as binary32 bits, padded with +0 beyond the row, and the facts that policies and counts need. */
struct mxfp_ref_block {
	uint32_t x[MXFP_MX_BLOCK];
	size_t n;         /* elements of the row in this block */
	uint32_t amax;    /* largest magnitude bits */
	size_t flushed;   /* nonzero elements that the rounding to bf16 made zero */
	bool all_nan;     /* the block has a NaN, or an Inf that the policy does not replace */
};

/* Loads block `block` of row `row`; Inf becomes +-FLT_MAX under the policy `saturate`. Counts NaN and Inf. */
void mxfp_ref_load_block(const struct mxfp_quantize_job *job, size_t row, size_t block, struct mxfp_ref_block *b);

/* The random word of element `i` of a block, or 0 if the rounding needs none. */
uint32_t mxfp_ref_random(const struct mxfp_quantize_job *job, size_t row, size_t block, size_t i);

/* Sum of squares of n differences (16 or 32) in the order of doc/numerics.md, section 3: n / 2 lanes, then a halving
   tree. */
uint32_t mxfp_ref_squared_error(const uint32_t *d, size_t n);

/* The same of 32 x 32 differences: quarters of the square are added up, the two that transposing leaves in place and the two
   that it swaps. Overwrites e. */
uint32_t mxfp_ref_square_error(uint32_t e[MXFP_MX_BLOCK][MXFP_MX_BLOCK]);

#endif
