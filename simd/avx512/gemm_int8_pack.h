/* SPDX-License-Identifier: MIT */
/* What packing A and W for gemm_int8.h share. Sources are read through masks: nothing past a row's last element
   is looked at. */
#ifndef MXFP_AVX512_GEMM_INT8_PACK_H
#define MXFP_AVX512_GEMM_INT8_PACK_H

#include "avx512/gemm_int8.h"

enum { E8M0_BIAS = 127, E8M0_NAN = 0xFF, UE4M3_NAN = 0x7F };

ALWAYS_INLINE uint32_t low_bits(size_t n)
{
	return _bzhi_u32(UINT32_MAX, n < 32 ? (unsigned)n : 32);
}

/* Codes of 6 bits, 4 in 3 bytes, as integers in eighths. */
ALWAYS_INLINE __m256i e2m3_elements(__m256i packed)
{
	const __m256i places = _mm256_set1_epi64x(0x2A241E18120C0600);
	const __m256i bytes = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1, 12, 13, 14, 15, 16, 17,
	                                       -1, -1, 18, 19, 20, 21, 22, 23, -1, -1);
	const __m512i eighths = _mm512_setr_epi64(0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1E1C1A1816141210,
	                                          0x3C3834302C282420, 0, 0, 0, 0);
	__m256i codes = _mm256_multishift_epi64_epi8(places, _mm256_permutexvar_epi8(bytes, packed));
	__m256i negative = _mm256_and_si256(codes, _mm256_set1_epi8(0x20));
	__mmask32 minus = _mm256_test_epi8_mask(negative, negative);
	__m256i magnitude = _mm512_castsi512_si256(_mm512_permutexvar_epi8(
		_mm512_castsi256_si512(_mm256_andnot_si256(_mm256_set1_epi8(0x20), codes)), eighths));

	return _mm256_mask_sub_epi8(magnitude, minus, _mm256_setzero_si256(), magnitude);
}

/* n <= 32 elements that begin at `codes`, as integers; then zeros. */
ALWAYS_INLINE __m256i load_elements(enum mxfp_format format, const uint8_t *codes, size_t n)
{
	__m256i x;

	switch (format) {
	case MXFP_FORMAT_MXINT8:
		return _mm256_maskz_loadu_epi8(low_bits(n), codes);
	case MXFP_FORMAT_MXFP6_E2M3:
		x = e2m3_elements(_mm256_maskz_loadu_epi8(low_bits((n * 6 + 7) / 8), codes));
		break;
	default:
		x = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8((__mmask16)low_bits((n + 1) / 2), codes));
		x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi16(x, 4)), _mm256_set1_epi8(0x0F));
		x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(gemm_int8_e2m1(0)), x);
	}
	return _mm256_maskz_mov_epi8(low_bits(n), x);
}

ALWAYS_INLINE size_t code_bytes(enum mxfp_format format, size_t k)
{
	return k * mxfp_format_info(mxfp_format_info(format)->element)->bits / 8;
}

ALWAYS_INLINE uint8_t least_byte(__m256i x)
{
	__m128i y = _mm_min_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

	y = _mm_min_epu8(y, _mm_srli_epi16(y, 8));
	return (uint8_t)_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_and_si128(y, _mm_set1_epi16(0xFF))));
}

/* The scale of a block of zeros (bits of `zero`) counts for nothing unless it is NaN: the least of the others takes its
   place, lest a subnormal slows the multiplication down, or keeps the row from being folded. Returns whether it can
   be. */
ALWAYS_INLINE bool even_out(uint8_t scale[GEMM_INT8_BLOCKS], uint32_t zero, size_t n_blocks, uint8_t *least)
{
	const __m256i ones = _mm256_set1_epi8(-1);
	__m256i x = _mm256_loadu_si256((const __m256i *)scale);
	__mmask32 idle = zero & ~_mm256_cmpeq_epi8_mask(x, ones), counts = low_bits(n_blocks) & ~idle;
	uint8_t most = (uint8_t)~least_byte(_mm256_xor_si256(_mm256_maskz_mov_epi8(counts, x), ones));

	*least = least_byte(_mm256_mask_mov_epi8(ones, counts, x));
	if (counts == 0)
		*least = most = E8M0_BIAS;
	_mm256_storeu_si256((__m256i *)scale, _mm256_mask_mov_epi8(x, idle, _mm256_set1_epi8((char)*least)));
	return most - *least <= GEMM_INT8_FOLD_SPREAD && *least >= GEMM_INT8_FOLD_LEAST && *least <= GEMM_INT8_FOLD_MOST;
}

#endif
