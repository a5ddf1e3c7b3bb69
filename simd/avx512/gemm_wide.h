/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums by vpdpwssd of e4m3 or e5m2 beside a narrow format, whose elements are integers of at most 9 bits
 * (e3m2, e2m3, e2m1, int8) in a unit of the format. Those of the wide one are split into two digits, high * 2^d + low,
 * such that the sums of both have at most 24 bits: one FMA then gives RN24 of the block's sum.
 *
 * Every block has a unit of its own, which is part of its scale, so that the digits of an e5m2 block begin at its
 * largest element. Where elements do not end in the lower digit, or are Inf, the panel holds them as binary32, and a
 * slower loop sums in binary64, as it does with scales that are not ordinary. Panels are those of body/gemm_blocks.h; a
 * panel of W is one of LANES rows for each vector. Elements are [pair of k][digit][row][2] of 16 bits.
 */
#ifndef MXFP_AVX512_GEMM_WIDE_H
#define MXFP_AVX512_GEMM_WIDE_H

#include "tier.h"
#include "body/slots.h"

enum {
	WIDE_MR = 6,
	WIDE_VECTORS = 2,                      /* of columns */
	WIDE_NR = WIDE_VECTORS * LANES,
	WIDE_PAIR_BYTES = 4,
	WIDE_LINE_BYTES = LANES * WIDE_PAIR_BYTES /* a pair of k in one digit of a vector's columns; also their scales */
};

/* What a pair of formats needs; constants in the fast loops. */
struct wide_kind {
	size_t a_digits, w_digits, length;
	bool a_splits_scale, w_splits_scale; /* NVFP4: its scale takes part in the rounding to 24 bits */
};

/* A panel of A and one of W. */
struct wide_panels {
	const uint8_t *a_scales, *a, *w_scales, *w; /* w: of the first vector */
	size_t w_bytes;                             /* from it to the next */
	size_t blocks;
	unsigned d;
	bool a_plain, w_plain[WIDE_VECTORS];        /* elements are [k][row] of binary32 */
	bool ordinary;                              /* the fast loop gives the right bits */
};

size_t TIER(gemm_wide_a_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
size_t TIER(gemm_wide_w_bytes)(const struct mxfp_gemm_shape *shape, size_t k);
void TIER(gemm_wide_pack_a)(const struct mxfp_gemm_pack_job *job);
void TIER(gemm_wide_pack_w)(const struct mxfp_gemm_pack_job *job);

/* The panels that a job begins with. */
struct wide_panels TIER(gemm_wide_panels)(const struct mxfp_gemm_multiply_job *job, const uint8_t *a);

/* The pass of blocks `first` to `end` for vector v of the columns: any elements, any scales. */
void TIER(gemm_wide_general)(const struct wide_panels *t, size_t first, size_t end, const struct wide_kind *kind,
                                   size_t v, float *c);

#endif
