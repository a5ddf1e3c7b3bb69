/* SPDX-License-Identifier: MIT */
/*
 * Numbers to e2m1, a block of 16 in a vector, and 8 blocks to 64 bytes of codes.
 *
 * With P the power of two below |q|, at least 1, fma(|q|, 2^-22, P) has the unit P / 2 of e2m1 in its last bit: it
 * rounds once and leaves n in the low bits and P in the exponent, and the code is n + 2 log2 P. vpdpwssd makes that sum
 * of the two halves of a lane, times a power of two that puts it at the block's place in a word of 8 codes.
 */
#ifndef MXFP_AVX512_NVFP4_CODE_H
#define MXFP_AVX512_NVFP4_CODE_H

#include "avx512/nvfp4_scale.h"

/* A group is 16 blocks, one lane each where their scales are made; a word is one lane's codes in 8 blocks. */
enum { BLOCK = 16, GROUP_BLOCKS = 16, GROUP = GROUP_BLOCKS * BLOCK, WORD_BLOCKS = 8 };

/* How numbers become what is rounded. */
enum quotient { PRODUCT, QUOTIENT, NEAREST };

/* QUICK: to nearest even where nothing saturates; CAREFUL: where something may; STOCHASTIC. */
enum rounding { QUICK, CAREFUL, STOCHASTIC };

struct group {
	const float *x;          /* GROUP numbers, with 0 for what is past the row's end */
	size_t n;                /* numbers that the row has here */
	enum rounding rounding;
	float factor[GROUP_BLOCKS];
	uint64_t first_index;    /* of x[0] in the tensor */
	const uint32_t *random;  /* STOCHASTIC: a word each */
	uint8_t *codes;
	const char *ahead;       /* what the source has some groups later: asked for, never read */
	size_t ahead_step;       /* from a block to the next */
	__m512i zero_signs;      /* all ones if a code of zero keeps its sign, else 0 */
	uint64_t saturated, flushed;
	float copy[GROUP];       /* for numbers that are not used where they stand */
};

#define ONE_BITS 0x3F800000           /* 1: code 0 as fma(|q|, 2^-22, P) leaves it */
#define SIX_BITS (0x40800000 | 3)     /* P = 4, n = 3: code 7 */

ALWAYS_INLINE __m512 absolute(__m512 x)
{
	return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)));
}

/* P of a magnitude. */
ALWAYS_INLINE __m512i binade(__m512 a)
{
	__m512i exponent = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(F32_INF));

	return _mm512_max_epu32(exponent, _mm512_set1_epi32(ONE_BITS));
}

ALWAYS_INLINE __m512i round_even(__m512 a, __m512i p)
{
	return _mm512_castps_si512(_mm512_fmadd_ps(a, _mm512_set1_ps(0x1p-22f), _mm512_castsi512_ps(p)));
}

/* Away from zero if the random word is below the fraction of the unit times 2^32, as in ref/minifloat.c. The fraction
   is exact, and a word is below it if it is below the next integer. */
ALWAYS_INLINE __m512i round_stochastic(__m512 a, __m512i p, __m512i random)
{
	__m512 down = _mm512_fmadd_round_ps(a, _mm512_set1_ps(0x1p-22f), _mm512_castsi512_ps(p),
	                                    _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
	__m512i n = _mm512_sub_epi32(_mm512_castps_si512(down), p);
	/* 2 / P: the exponents add up to that of 2^1. */
	__m512 units = _mm512_mul_ps(a, _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(F32_INF), p)));
	__m512 fraction = _mm512_mul_ps(_mm512_sub_ps(units, _mm512_cvtepi32_ps(n)), _mm512_set1_ps(0x1p32f));
	__m512i limit = _mm512_cvt_roundps_epu32(fraction, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
	__mmask16 up = _mm512_cmplt_epu32_mask(random, limit);

	return _mm512_mask_add_epi32(_mm512_castps_si512(down), up, _mm512_castps_si512(down), _mm512_set1_epi32(1));
}

/* ggml: the first code whose product with the scale is nearest. The sign follows from x, since the distances to codes
   of the other sign are at least that to zero, which comes first. Products are exact: each distance rounds once. */
ALWAYS_INLINE __m512i nearest(__m512 x, __m512 scale)
{
	static const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	__m512 a = absolute(x), least = a;
	__m512i code = _mm512_setzero_si512();

#pragma GCC unroll 8
	for (int c = 1; c < 8; c++) {
		__m512 distance = absolute(_mm512_fmsub_ps(scale, _mm512_set1_ps(values[c]), a));
		__mmask16 less = _mm512_cmp_ps_mask(distance, least, _CMP_LT_OQ);
		least = _mm512_mask_mov_ps(least, less, distance);
		code = _mm512_mask_mov_epi32(code, less, _mm512_set1_epi32(c));
	}
	return _mm512_add_epi32(code, _mm512_set1_epi32(ONE_BITS));
}

/* What the code of x stands for, before rounding. A quotient's zero loses its sign, and 0 / 0 gives code 7 without
   having saturated. */
ALWAYS_INLINE __m512 quotient_of(enum quotient kind, __m512 x, __m512 factor)
{
	if (kind == PRODUCT)
		return _mm512_mul_ps(x, factor);
	if (kind == NEAREST)
		return x;
	__m512 q = _mm512_div_ps(x, factor);
	q = _mm512_mask_mov_ps(q, _mm512_cmp_ps_mask(q, q, _CMP_UNORD_Q), _mm512_set1_ps(6));
	return _mm512_add_ps(q, _mm512_setzero_ps());
}

/* The rounded magnitudes of block b, n and P in a lane; *sign gets their signs in its top bits. */
ALWAYS_INLINE __m512i round_block(enum quotient kind, enum rounding rounding, struct group *g, int b, __m512 *sign)
{
	__m512 x = _mm512_loadu_ps(g->x + b * BLOCK), factor = _mm512_set1_ps(g->factor[b]);
	_mm_prefetch(g->ahead + (size_t)b * g->ahead_step, _MM_HINT_T0);
	__m512 a = absolute(*sign = quotient_of(kind, x, factor));

	if (kind == NEAREST)
		return nearest(x, factor);
	if (rounding == QUICK)
		return round_even(a, binade(a));
	/* 8 is past the largest in either way of rounding. */
	a = _mm512_min_ps(a, _mm512_set1_ps(8));
	__m512i r = rounding == CAREFUL ? round_even(a, binade(a))
	                                : round_stochastic(a, binade(a), _mm512_loadu_si512(g->random + b * BLOCK));
	__mmask16 past = _mm512_cmpgt_epu32_mask(r, _mm512_set1_epi32(SIX_BITS));
	__mmask16 zero = _mm512_cmpeq_epu32_mask(r, _mm512_set1_epi32(ONE_BITS));
	g->saturated += (unsigned)_mm_popcnt_u32(past);
	g->flushed += (unsigned)_mm_popcnt_u32(
		_mm512_mask_test_epi32_mask(zero, _mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)));
	return _mm512_min_epu32(r, _mm512_set1_epi32(SIX_BITS));
}

/* Eight 4-bit codes a lane, of block k in bits 4 k, to 8 bytes a block. */
ALWAYS_INLINE __m512i pack_words(__m512i words)
{
	/* Of each pair of lanes the lower one gets the bytes of the even blocks and the upper one those of the odd. */
	const __m512i turns = _mm512_set1_epi64(INT64_C(28) << 32 | 4);
	const __m512i own = _mm512_set1_epi64((int64_t)UINT64_C(0xF0F0F0F00F0F0F0F));
	/* Byte i of block k, at 8 k + i, comes from lanes 2 i and 2 i + 1, which are bytes 8 i to 8 i + 7. */
	const __m512i place = _mm512_set_epi8(63, 55, 47, 39, 31, 23, 15, 7, 59, 51, 43, 35, 27, 19, 11, 3, 62, 54, 46, 38,
	                                      30, 22, 14, 6, 58, 50, 42, 34, 26, 18, 10, 2, 61, 53, 45, 37, 29, 21, 13, 5,
	                                      57, 49, 41, 33, 25, 17, 9, 1, 60, 52, 44, 36, 28, 20, 12, 4, 56, 48, 40, 32,
	                                      24, 16, 8, 0);
	__m512i others = _mm512_rolv_epi32(_mm512_shuffle_epi32(words, _MM_PERM_CDAB), turns);

	return _mm512_permutexvar_epi8(place, _mm512_ternarylogic_epi32(own, words, others, 0xCA));
}

/* The codes of blocks first to first + 7 of the group. In QUICK rounding and NEAREST every zero is counted as flushed:
   those that were zeros before are for the caller to take off. */
ALWAYS_INLINE __m512i encode_word(enum quotient kind, enum rounding rounding, struct group *g, int first)
{
	/* Blocks 3 i to 3 i + 2 share a sum, at bits 6, 10 and 14; vpdpwssd adds (127 << 7) << 0, 4, 8 for each P = 1. */
	enum { SUMS = 3, AT = 6, ONE_HIGH = ONE_BITS >> 16 };
	__m512i sum[SUMS] = {_mm512_set1_epi32(-ONE_HIGH * 0x111), _mm512_set1_epi32(-ONE_HIGH * 0x111),
	                     _mm512_set1_epi32(-ONE_HIGH * 0x11)};
	__m512i signs = _mm512_setzero_si512();
	const __m512i top = _mm512_set1_epi32((int32_t)0x88888888);

#pragma GCC unroll 8
	for (int k = WORD_BLOCKS - 1; k >= 0; k--) {
		const int up = 4 * (k % SUMS);
		__m512 sign;
		__m512i r = round_block(kind, rounding, g, first + k, &sign);
		sum[k / SUMS] = _mm512_dpwssd_epi32(sum[k / SUMS], r, _mm512_set1_epi32(1 << (16 + up) | 1 << (AT + up)));
		signs = _mm512_shldi_epi32(signs, _mm512_castps_si512(sign), 4);
	}
	__m512i words = _mm512_ternarylogic_epi32(_mm512_srli_epi32(sum[0], AT), _mm512_slli_epi32(sum[1], 12 - AT),
	                                          _mm512_slli_epi32(sum[2], 24 - AT), 0xFE);
	if (rounding == QUICK) {
		g->flushed += (unsigned)_mm_popcnt_u64(_mm512_testn_epi8_mask(words, _mm512_set1_epi8(0x0F)));
		g->flushed += (unsigned)_mm_popcnt_u64(_mm512_testn_epi8_mask(words, _mm512_set1_epi8((int8_t)0xF0)));
	}
	/* Magnitudes are at most 7: adding 7 sets the top bit of those that are not zero. */
	__m512i nonzero = _mm512_add_epi32(words, _mm512_set1_epi32(0x77777777));
	nonzero = _mm512_or_si512(nonzero, g->zero_signs);
	signs = _mm512_ternarylogic_epi32(signs, nonzero, top, 0x80);
	return pack_words(_mm512_or_si512(words, signs));
}

#endif
