/* SPDX-License-Identifier: MIT */
/*
 * Exact products of two block formats of which at least one is MXFP8_E4M3, the other that, MXFP4, MXFP6_E2M3 or
 * MXINT8. What the parts of this family (packing, expanding, multiplying) agree on: the panels.
 *
 * Elements are integers in a unit of the format. Those of e4m3 have 19 bits with the sign: too many for vpdpwssd, which
 * multiplies words of 16. But only elements far below the largest of their block have bits at both ends, so an element
 * is main * 2^low + rest: `main` fits a word, and `rest` is 0 but for few elements, whose places are kept in a mask for
 * every block, so that blocks without any, nearly all, cost nothing. low is 3 if the other operand is narrow, and 4 if
 * both are e4m3. No element of another format has a rest.
 *
 * A pair is two elements that vpdpwssd takes at once. Of each 8 elements 0 .. 7 the pairs are (0, 4), (2, 6), (1, 5),
 * (3, 7): what comes of splitting stored bytes of two MXFP4 elements into halves, and these into bytes.
 *
 * Panel of W, GEMM_E4M3_NR rows ("columns" here: they are columns of C), all of it bytes:
 *   scales  [blocks][NR]: codes, but 0xFF also where an element is NaN, and that of a block of zeros is replaced by
 *           another one of its column.
 *   codes   [words][NR][4 bytes]. MXFP4: a word is 8 elements as stored. Others: of each 8 elements a word of the even
 *           ones, then a word of the odd ones, each a byte: a code of e4m3, else an integer.
 * Before a panel of W is multiplied it is expanded: struct gemm_e4m3_columns.
 *
 * Folding: a narrow operand has bits to spare in a word. If the scales of its row (column) differ by few binades in a
 * chunk, its elements are multiplied by the differences, and the row (column) has one scale, which is left to the end
 * of the pass. All bits stay the same because rounding commutes with powers of two, as long as nothing leaves the
 * normal numbers: GEMM_E4M3_SCALE_LEAST and _MOST. Where any of that fails, the general loop runs.
 */
#ifndef MXFP_AVX512_GEMM_E4M3_H
#define MXFP_AVX512_GEMM_E4M3_H

#include "tier.h"
#include "kernels.h"

enum {
	GEMM_E4M3_MR = 8,
	GEMM_E4M3_VECTORS = 2,
	GEMM_E4M3_NR = GEMM_E4M3_VECTORS * LANES,
	GEMM_E4M3_BLOCK = 32,
	GEMM_E4M3_PAIRS = GEMM_E4M3_BLOCK / 2,
	GEMM_E4M3_BLOCKS = MXFP_GEMM_CHUNK / GEMM_E4M3_BLOCK,
	/*
	 * Codes of scales with which no sum of the fast loop is subnormal or overflows: -60 to 43. Products are multiples
	 * of 2^-18 times both scales, above 2^-149, and a pass is below 2^27 times both; the loop has its sums in units of
	 * products of main parts, 2^-12 at least, which brings that to 2^39.
	 */
	GEMM_E4M3_SCALE_LEAST = 67,
	GEMM_E4M3_SCALE_MOST = 170,
	GEMM_E4M3_SINGLE_OFFSET = 12,
	E8M0_BIAS = 127,
	E8M0_NAN = 0xFF
};

/* A block of a panel of A, row by row. */
struct gemm_e4m3_rows {
	_Alignas(64) int16_t main[GEMM_E4M3_MR][GEMM_E4M3_BLOCK]; /* in the order of pairs, folded where that is done */
	float factor[GEMM_E4M3_MR];     /* of the fast loop: the scale, or 1 where it was folded */
	float norm[GEMM_E4M3_MR];       /* at least the root of the sum of the squares of `main` */
	int32_t exponent[GEMM_E4M3_MR]; /* of the general loop: of the scale (the folded one) and of the unit of products */
	uint16_t rests[GEMM_E4M3_MR];   /* bit p: pair p has a rest that is not 0 */
};

struct gemm_e4m3_rest {
	_Alignas(64) int16_t rest[GEMM_E4M3_MR][GEMM_E4M3_BLOCK]; /* only where the bit in `rests` is set */
};

/* Begins a panel of A; then come the blocks (struct gemm_e4m3_rows), their rests if A is e4m3, and if W is MXFP4
   struct gemm_e4m3_single for every block. */
struct gemm_e4m3_head {
	_Alignas(64) float last[GEMM_E4M3_MR]; /* of the fast loop: times the sum of a pass; NaN if the row has one */
	float one[GEMM_E4M3_MR];               /* of the general loop: 1, or NaN */
	uint32_t general;                      /* not zero: the fast loop would be wrong */
};

/*
 * A block of the only row of its panel, for an MXFP4 W that is not expanded: main = 256 high + low, in groups of 4 as
 * the words of W have them, even elements before odd ones. The sums begin with what W's offset of 12 adds to them.
 */
struct gemm_e4m3_single {
	_Alignas(64) int8_t high[GEMM_E4M3_BLOCK];
	int8_t low[GEMM_E4M3_BLOCK], rest[GEMM_E4M3_BLOCK];
	int32_t main_start, rest_start;
	float factor;
	uint32_t has_rest;
};

/* A block of a panel of W, ready to be multiplied. */
struct gemm_e4m3_columns {
	_Alignas(64) int16_t main[GEMM_E4M3_PAIRS][GEMM_E4M3_NR][2];
	float factor[GEMM_E4M3_NR];     /* as those of rows */
	int32_t exponent[GEMM_E4M3_NR]; /* of the scale alone */
	float norm;                     /* of the column that has the largest */
	uint32_t rests;                 /* bit p: some column's pair p has a rest */
};

struct gemm_e4m3_expanded {
	struct gemm_e4m3_columns block[GEMM_E4M3_BLOCKS];
	_Alignas(64) int16_t rest[GEMM_E4M3_BLOCKS][GEMM_E4M3_PAIRS][GEMM_E4M3_NR][2];
	_Alignas(64) float last[GEMM_E4M3_NR];
	float one[GEMM_E4M3_NR];
	bool general;
};

/* An element of e4m3 in words: 2^low_bits main + rest, in units of 2^-9. A NaN gives any number. */
struct gemm_e4m3_parts {
	__m512i main, rest;
};

ALWAYS_INLINE struct gemm_e4m3_parts gemm_e4m3_split(__m512i codes, int low_bits)
{
	const __m512i one = _mm512_set1_epi16(1), hidden = _mm512_set1_epi16(8);
	__m512i exponent = _mm512_and_si512(_mm512_srli_epi16(codes, 3), _mm512_set1_epi16(15));
	__mmask32 normal = _mm512_test_epi16_mask(exponent, exponent);
	__mmask32 negative = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x80));
	__m512i shift = _mm512_sub_epi16(_mm512_max_epi16(exponent, one), one);
	__m512i significand = _mm512_and_si512(codes, _mm512_set1_epi16(7));
	__m512i down = _mm512_sub_epi16(_mm512_set1_epi16((short)(12 + low_bits)), shift);
	struct gemm_e4m3_parts parts;

	significand = _mm512_mask_add_epi16(significand, normal, significand, hidden);
	parts.main = _mm512_srlv_epi16(_mm512_slli_epi16(significand, 12), down);
	parts.rest = _mm512_and_si512(_mm512_sllv_epi16(significand, shift),
	                              _mm512_set1_epi16((short)((1 << low_bits) - 1)));
	parts.main = _mm512_mask_sub_epi16(parts.main, negative, _mm512_setzero_si512(), parts.main);
	parts.rest = _mm512_mask_sub_epi16(parts.rest, negative, _mm512_setzero_si512(), parts.rest);
	return parts;
}

ALWAYS_INLINE size_t gemm_e4m3_blocks(size_t k)
{
	return (k + GEMM_E4M3_BLOCK - 1) / GEMM_E4M3_BLOCK;
}

/* Bytes of codes in a block of a column of a panel of W. */
ALWAYS_INLINE size_t gemm_e4m3_code_bytes(enum mxfp_format w_format)
{
	return w_format == MXFP_FORMAT_MXFP4 ? GEMM_E4M3_BLOCK / 2 : GEMM_E4M3_BLOCK;
}

ALWAYS_INLINE int gemm_e4m3_low_bits(const struct mxfp_gemm_shape *shape)
{
	return shape->a_format == shape->w_format ? 4 : 3;
}

/* By how many binades the scales of a narrow operand's row may differ to be folded: the sum of a block stays below
   2^31. It is at most 32 * 28672 times the largest element: 12, 60, 128. */
ALWAYS_INLINE int gemm_e4m3_fold_spread(enum mxfp_format narrow)
{
	if (narrow == MXFP_FORMAT_MXFP4)
		return 7;
	return narrow == MXFP_FORMAT_MXINT8 ? 4 : 5;
}

/* 2^x, or what is nearest to it among the normal numbers. */
ALWAYS_INLINE float gemm_e4m3_power(int x)
{
	const int least = 1 - F32_BIAS, most = F32_BIAS;

	return power_of_two(x < least ? least : x > most ? most : x);
}

/* At least the root of a sum of squares that was rounded on its way: that takes off less than the factor adds. */
ALWAYS_INLINE float gemm_e4m3_norm(float squares)
{
	__m128 root = _mm_sqrt_ps(_mm_set1_ps(squares));

	return _mm_cvtss_f32(_mm_mul_ps(root, _mm_set1_ps(1.001f)));
}

size_t mxfp_gemm_e4m3_a_bytes(const struct mxfp_gemm_shape *shape, size_t k);
size_t mxfp_gemm_e4m3_w_bytes(const struct mxfp_gemm_shape *shape, size_t k);
void mxfp_gemm_e4m3_pack_a(const struct mxfp_gemm_pack_job *job);
void mxfp_gemm_e4m3_pack_w(const struct mxfp_gemm_pack_job *job);

/* Expands a panel of W over `blocks` blocks. */
void mxfp_gemm_e4m3_expand(struct gemm_e4m3_expanded *to, const struct mxfp_gemm_shape *shape, const uint8_t *panel,
                           size_t blocks);

/* Multiplies the only row of a panel of A, of which `head` and `a` are parts, by a panel of an MXFP4 W, unless scales
   ask for the general loop: then false is returned and nothing done. In any state of floating point. */
bool mxfp_gemm_e4m3_multiply_single(const struct mxfp_gemm_multiply_job *job, const struct gemm_e4m3_head *head,
                                    const struct gemm_e4m3_single *a);

#endif
