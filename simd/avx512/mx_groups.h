/* SPDX-License-Identifier: MIT */
/*
 * The fast path of MX quantization with AVX-512: 16 blocks of a row at a time, so that what is done once a block (the
 * choice of its scale) is one vector operation for all of them.
 *
 * It differs from ref/mx.c in form only. A number x is rounded where it stands instead of being scaled first: with P
 * the power of two below |x|, but at least the smallest normal element at the block's scale, |x| * 2^(M-23) + P has
 * the element's quantum as its last place, so one fused multiply-add rounds once, and the integer in its low bits is
 * the significand of the element.
 */
#ifndef MXFP_AVX512_MX_GROUPS_H
#define MXFP_AVX512_MX_GROUPS_H

#include <stdalign.h>

#include "tier.h"
#include "kernels.h"

/* Of the exponent of a rounded number in the sums that encoding takes apart: one number a sum, or two. */
enum { MX_E2M1_WEIGHT = 64 + 1, MX_PAIR_WEIGHT = 1 + 256 };

enum { BLOCK = 32, GROUP_BLOCKS = 16, GROUP = GROUP_BLOCKS * BLOCK };

/* What is fixed for a job. */
struct mx_plan {
	const struct mxfp_quantize_job *job;
	size_t rows, cols;     /* the job's, or one row of all */
	size_t number_bytes;   /* of the source */
	const struct mxfp_format_info *element;
	int emin;              /* exponent of the smallest normal element; FIXED elements: emax, as they have one binade */
	uint32_t scale_carry;  /* carries into the exponent of an amax for which the rule raises the scale */
	uint32_t past_carry;   /* carries into the exponent of a magnitude that rounds past the largest element */
	uint32_t least_amax;   /* bits of the least amax that needs no upscaling */
	int exponent_weight;   /* MX_..._WEIGHT */
	size_t block_bytes;
};

/* Sixteen blocks of which the first n_blocks belong to the row. The others, and what a row lacks in its last block,
   are zeros. */
struct mx_group {
	const float *x;
	size_t n_blocks;
	uint64_t index;   /* of the first number, for stochastic rounding */
	uint8_t *codes;   /* where they go */
	const uint8_t *ahead; /* numbers that will be read later; past the end of the source in the last groups */
	bool zeros;       /* there may be zeros among the numbers */
	bool saturates;   /* a number may lie past the largest element */
	__m512i amax;     /* largest magnitude of each block, as bits */
	__m512i upscale;  /* the numbers of a block have been multiplied by 2^upscale */
	__m512i scale;    /* the scale's exponent + 127 + upscale: from the numbers of the group to codes */
	/* For encoding: the smallest normal element times the scale, and minus the weighted exponent field of that. */
	alignas(64) float smallest[GROUP_BLOCKS];
	alignas(64) int32_t offset[GROUP_BLOCKS];
	alignas(64) float copy[GROUP];
};

/* Lane j = the maximum (of integers), or the sum (of floats), of the lanes of v[j], made by the halving tree j + 8,
   + 4, + 2, + 1: each step merges pairs of vectors, so that every lane stays busy. */
enum mx_operation { MX_MAX, MX_SUM };

ALWAYS_INLINE __m512i combine(__m512i a, __m512i b, enum mx_operation operation)
{
	if (operation == MX_MAX)
		return _mm512_max_epu32(a, b);
	return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}

/* Lanes of a and b that are `distance` apart, combined: the lower half of what comes out, of each 128 bits where the
   distance is below 4, is of a, the upper half of b. */
ALWAYS_INLINE __m512i merge(__m512i a, __m512i b, int distance, enum mx_operation operation)
{
	const __m512 c = _mm512_castsi512_ps(a), d = _mm512_castsi512_ps(b);

	switch (distance) {
	case 8: /* a blend for one of two shuffles: port 5 has the only shuffle unit */
		return combine(_mm512_mask_blend_epi64(0xF0, a, b), _mm512_shuffle_i64x2(a, b, 0x4E), operation);
	case 4:
		return combine(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xDD), operation);
	case 2:
		return combine(_mm512_mask_blend_epi64(0xAA, a, b), _mm512_alignr_epi8(b, a, 8), operation);
	default:
		return combine(_mm512_castps_si512(_mm512_shuffle_ps(c, d, 0x88)),
		               _mm512_castps_si512(_mm512_shuffle_ps(c, d, 0xDD)), operation);
	}
}

ALWAYS_INLINE __m512i reduce_each(const __m512i v[GROUP_BLOCKS], enum mx_operation operation)
{
	__m512i quarter[4];

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		quarter[i] = merge(merge(v[i], v[i + 4], 8, operation), merge(v[i + 8], v[i + 12], 8, operation), 4,
		                   operation);
	return merge(merge(quarter[0], quarter[1], 2, operation), merge(quarter[2], quarter[3], 2, operation), 1,
	             operation);
}

/* Asks for the numbers that stand ahead of blocks block .. block + n - 1. The longest part of the work on a group does
   this, bit by bit: many requests at once wait for each other. */
ALWAYS_INLINE void prefetch(const uint8_t *ahead, size_t number_bytes, size_t block, size_t n)
{
	const char *at = (const char *)ahead + block * BLOCK * number_bytes;

#pragma GCC unroll 8
	for (size_t i = 0; i < n * BLOCK; i += LANES)
		_mm_prefetch(at + i * number_bytes, _MM_HINT_T0);
}

/* The scales of rule mse for blocks whose floor scale stands in g->scale, `raisable` marks those that may grow. */
__mmask16 mxfp_mx_mse_raises(const struct mx_plan *plan, const struct mx_group *g);

/* Writes the codes of the group. `random` has a word for each number if the rounding is stochastic. */
void mxfp_mx_encode_e2m1(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random);
void mxfp_mx_encode(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random);

#endif
