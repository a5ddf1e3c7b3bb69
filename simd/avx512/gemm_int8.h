/* SPDX-License-Identifier: MIT */
/*
 * Exact products of two block formats whose elements are integers of 8 bits in a unit of the format: MXFP4 and NVFP4
 * (halves, to 12), MXFP6_E2M3 (eighths, to 60), MXINT8. What the two parts of this family (packing, multiplying) agree
 * on: the panels.
 *
 * vpdpbusd multiplies unsigned bytes by signed ones, four at a time: W's are made unsigned by adding an offset, and
 * each sum starts from minus the offset times the sum of A's elements in the block, which is known when A is packed.
 * The same start holds 1.5 * 2^23 as binary32 bits, so that the sum of a block needs no conversion: as a binary32 it is
 * 1.5 * 2^23 + S, and fma(that, f, -1.5 * 2^23 f) is S f, exact for a power of two f and for an NVFP4 scale, as
 * |S| < 2^22 and S f has at most 24 bits. A second fma with the scale of W adds it to P, in one rounding. So a block of
 * 32 takes 8 + 2 operations for 16 sums.
 *
 * Panel of W, GEMM_INT8_NR rows ("columns" here: they are columns of C), all of it bytes:
 *   scales  [blocks of W's format][NR]. e8m0: the code, that of a block of zeros replaced by another one of its column;
 *           ue4m3: without its spare bit, and NaN is 0xFF.
 *   codes   [words][NR][4 bytes]: a word is what 4 bytes of a row hold. A 4-bit format: as stored, 8 elements a word,
 *           element 2 i in the low half of byte i, so the low halves of a word are its even elements. Others: 4
 *           elements a word, each a byte, plus the offset (128, or 60 in MXFP6_E2M3).
 * A block of 32 has 4 or 8 words, one of 16 (NVFP4) 2. It depends on W's format alone.
 *
 * Panel of A, GEMM_INT8_MR rows:
 *   head    struct gemm_int8_head.
 *   codes   [units of 32][MR][32 bytes]: signed elements in the order in which W's are met: as they are, or beside a
 *           4-bit W, of each 8 the 4 even before the 4 odd.
 *   blocks  [blocks of the pair][MR] struct gemm_int8_block. A pair with NVFP4 has blocks of 16.
 *
 * Folding, where both are MXFP4: if the scales of a row (column) differ by at most 3 binades in a chunk, its elements
 * are multiplied by the differences and still fit a byte. If that goes for both panels, all sums of a pass are integers
 * below 2^24 in one unit: no rounding takes place before a pass ends, and it is one sum of integers. A panel of A holds
 * its rows folded where it can; W is folded when it is multiplied.
 */
#ifndef MXFP_AVX512_GEMM_INT8_H
#define MXFP_AVX512_GEMM_INT8_H

#include "tier.h"
#include "body/slots.h"

enum {
	GEMM_INT8_MR = 4,
	GEMM_INT8_VECTORS = 3,
	GEMM_INT8_NR = GEMM_INT8_VECTORS * LANES,
	GEMM_INT8_UNIT = 32,
	GEMM_INT8_UNITS = MXFP_GEMM_CHUNK / GEMM_INT8_UNIT,
	GEMM_INT8_BLOCKS = MXFP_GEMM_CHUNK / 16,
	GEMM_INT8_PASSES = 4,              /* in a chunk, at most */
	GEMM_INT8_BIAS = 0x4B400000,       /* 1.5 * 2^23 */
	GEMM_INT8_OFFSET_FOLDED = 128,
	GEMM_INT8_FOLD_SPREAD = 3,
	/* Codes of the least scales of rows and columns that may be folded: with them no P leaves the normal numbers. */
	GEMM_INT8_FOLD_LEAST = 67,
	GEMM_INT8_FOLD_MOST = 177
};

struct gemm_int8_block {
	int32_t start;
	float factor, less; /* less = -1.5 * 2^23 factor */
	float excess;       /* what `factor` lacks of the scale where that is so large that `less` would overflow; else 1 */
};

struct gemm_int8_head {
	_Alignas(MXFP_GEMM_ALIGN) int32_t folded_start[GEMM_INT8_PASSES][GEMM_INT8_MR];
	float folded_factor[GEMM_INT8_MR];
	uint32_t folded; /* every row is */
	uint32_t excess; /* some block's is not 1 */
};

ALWAYS_INLINE size_t gemm_int8_w_block(enum mxfp_format format)
{
	return format == MXFP_FORMAT_NVFP4 ? 16 : 32;
}

ALWAYS_INLINE size_t gemm_int8_pair_block(const struct mxfp_gemm_shape *shape)
{
	return shape->a_format == MXFP_FORMAT_NVFP4 || shape->w_format == MXFP_FORMAT_NVFP4 ? 16 : 32;
}

ALWAYS_INLINE bool gemm_int8_has_nibbles(enum mxfp_format format)
{
	return format == MXFP_FORMAT_MXFP4 || format == MXFP_FORMAT_NVFP4;
}

/* What is added to the elements of a W. */
ALWAYS_INLINE int gemm_int8_offset(enum mxfp_format format)
{
	if (gemm_int8_has_nibbles(format))
		return 12;
	return format == MXFP_FORMAT_MXINT8 ? 128 : 60;
}

/* Blocks of n in k elements. */
ALWAYS_INLINE size_t gemm_int8_count(size_t k, size_t n)
{
	return (k + n - 1) / n;
}

ALWAYS_INLINE size_t gemm_int8_w_words(enum mxfp_format format, size_t k)
{
	const size_t block = gemm_int8_w_block(format);

	return gemm_int8_count(k, block) * block / (gemm_int8_has_nibbles(format) ? 8 : 4);
}

/* 32 codes of 4 bits as integers in halves, plus `offset`. */
ALWAYS_INLINE __m128i gemm_int8_e2m1(int8_t offset)
{
	const __m128i halves = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

	return _mm_add_epi8(halves, _mm_set1_epi8(offset));
}

size_t mxfp_gemm_int8_a_bytes(const struct mxfp_gemm_shape *shape, size_t k);
size_t mxfp_gemm_int8_w_bytes(const struct mxfp_gemm_shape *shape, size_t k);
void mxfp_gemm_int8_pack_a(const struct mxfp_gemm_pack_job *job);
void mxfp_gemm_int8_pack_w(const struct mxfp_gemm_pack_job *job);

/* Rows of A's only panel, none with an excess; in fp_enter()'s state. */
void mxfp_gemm_int8_few(const struct mxfp_gemm_multiply_job *job);

#endif
