/* SPDX-License-Identifier: MIT */
/*
 * Loads elements of block formats for packing as integers in a unit of the format (MXFP4 and NVFP4: halves, MXFP6_E2M3:
 * eighths), and computes their dot products. Loads are masked: nothing past a row's last element is read.
 */
#ifndef MXFP_AVX512_GEMM_ELEMENTS_H
#define MXFP_AVX512_GEMM_ELEMENTS_H

#include "tier.h"

#include "kernels.h"
#include "scale.h"

ALWAYS_INLINE uint32_t low_mask(size_t n)
{
	return _bzhi_u32(UINT32_MAX, n < 32 ? (unsigned)n : 32);
}

/* Added to the integers of e2m1, it makes them unsigned. */
enum { E2M1_OFFSET = 12 };

/* The integers of the 16 codes of e2m1, plus `offset`. */
ALWAYS_INLINE __m128i e2m1_integers(int8_t offset)
{
	const __m128i halves = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

	return _mm_add_epi8(halves, _mm_set1_epi8(offset));
}

/* Packed 6-bit codes, 4 in 3 bytes, as bytes; their high bits are those of others. */
ALWAYS_INLINE __m256i unpack_sixes(__m256i packed)
{
	const __m256i places = _mm256_set1_epi64x(0x2A241E18120C0600);
	const __m256i bytes = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1, 12, 13, 14, 15, 16, 17,
	                                       -1, -1, 18, 19, 20, 21, 22, 23, -1, -1);

	return _mm256_multishift_epi64_epi8(places, _mm256_permutexvar_epi8(bytes, packed));
}

/* The integers of packed e2m3 codes. */
ALWAYS_INLINE __m256i e2m3_integers(__m256i packed)
{
	const __m256i eighths = _mm256_setr_epi64x(0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1E1C1A1816141210,
	                                           0x3C3834302C282420);
	__m256i codes = unpack_sixes(packed);
	__mmask32 minus = _mm256_test_epi8_mask(codes, _mm256_set1_epi8(0x20));
	__m256i magnitude = _mm256_permutexvar_epi8(codes, eighths); /* uses the low 5 bits */

	return _mm256_mask_sub_epi8(magnitude, minus, _mm256_setzero_si256(), magnitude);
}

/* Loads the first 32 elements at `codes` as integers, or as codes if MXFP8_E4M3; those from n on are zeros. */
ALWAYS_INLINE __m256i load_integers(enum mxfp_format format, const uint8_t *codes, size_t n)
{
	__m256i x;

	switch (format) {
	case MXFP_FORMAT_MXFP4:
	case MXFP_FORMAT_NVFP4:
		x = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8((__mmask16)low_mask((n + 1) / 2), codes));
		x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi16(x, 4)), _mm256_set1_epi8(0x0F));
		x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(e2m1_integers(0)), x);
		break;
	case MXFP_FORMAT_MXFP6_E2M3:
		x = e2m3_integers(_mm256_maskz_loadu_epi8(low_mask((n * 6 + 7) / 8), codes));
		break;
	default: /* MXINT8, MXFP8_E4M3 */
		return _mm256_maskz_loadu_epi8(low_mask(n), codes);
	}
	return _mm256_maskz_mov_epi8(low_mask(n), x);
}

/* Codes of 6 bits in bytes, 4 vectors in 3: the fourth is in the 2 high bits of the others. */
ALWAYS_INLINE void store_sixes(uint8_t *to, size_t stride, const __m512i codes[4])
{
	const __m512i six = _mm512_set1_epi8(0x3F);

	for (int i = 0; i < 3; i++) {
		__m512i high = _mm512_slli_epi16(_mm512_srli_epi16(_mm512_and_si512(codes[3], six), (unsigned)(2 * i)), 6);

		_mm512_storeu_si512(to + (size_t)i * stride, _mm512_ternarylogic_epi32(six, codes[i], high, 0xCA));
	}
}

/* Vector i of 4 that are stored like this. The 2 high bits of its bytes are others'. */
ALWAYS_INLINE __m512i load_sixes(const uint8_t *at, size_t stride, int i)
{
	const __m512i two = _mm512_set1_epi8(0x03), four = _mm512_set1_epi8(0x0F);

	if (i < 3)
		return _mm512_loadu_si512(at + (size_t)i * stride);
	__m512i x = _mm512_srli_epi16(_mm512_loadu_si512(at), 6), y = _mm512_srli_epi16(_mm512_loadu_si512(at + stride), 4);
	__m512i z = _mm512_srli_epi16(_mm512_loadu_si512(at + 2 * stride), 2);

	return _mm512_ternarylogic_epi32(four, _mm512_ternarylogic_epi32(two, x, y, 0xCA), z, 0xCA);
}

/* The integers of the 64 codes of e2m3, plus `offset`. */
ALWAYS_INLINE __m512i e2m3_table(int8_t offset)
{
	const __m256i eighths = _mm256_setr_epi64x(0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1E1C1A1816141210,
	                                           0x3C3834302C282420);
	const __m256i plus = _mm256_add_epi8(_mm256_set1_epi8(offset), eighths);

	return _mm512_inserti64x4(_mm512_castsi256_si512(plus), _mm256_sub_epi8(_mm256_set1_epi8(offset), eighths), 1);
}

/* Reorders each 8 elements: the even ones, then the odd ones. */
ALWAYS_INLINE __m256i evens_first(__m256i x)
{
	return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9,
	                                                                        11, 13, 15)));
}

/* The exponent of a format's unit. */
ALWAYS_INLINE int unit_of_format(enum mxfp_format format)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(format)->element);
	int m = (int)element->significand_bits;

	return element->kind == MXFP_KIND_FIXED ? -m : 1 - element->bias - m;
}

ALWAYS_INLINE size_t code_bytes(enum mxfp_format format, size_t k)
{
	return k * mxfp_format_get_info(mxfp_format_get_info(format)->element)->bits / 8;
}

/* The codes of a row from element k on, and its scales from block b on. */
ALWAYS_INLINE const uint8_t *codes_at(const struct mxfp_matrix *m, size_t row, size_t k)
{
	return (const uint8_t *)m->data + row * m->stride + code_bytes(m->format, k);
}

ALWAYS_INLINE const uint8_t *scales_at(const struct mxfp_matrix *m, size_t row, size_t b)
{
	return (const uint8_t *)m->scales + row * m->scales_stride + b;
}

/* Converts 16 scales of a panel of W to binary32; ue4m3 ones become 2^-8 times their value. */
ALWAYS_INLINE __m512 decode_scales(bool ue4m3, const uint8_t *bytes)
{
	const __m128i b = _mm_loadu_si128((const __m128i *)bytes);

	if (ue4m3) /* as binary16, scales are 2^-8 times their value */
		return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepi8_epi16(b), 7));
	/* The code is the exponent field, but 0 is 2^-127 and 0xFF is NaN. */
	__m512 power = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(b), F32_SIGNIFICAND_BITS));
	return _mm512_fixupimm_ps(_mm512_set1_ps(0x1p-127f), power, _mm512_set1_epi32(0x11301000), 0);
}

/* Broadcasts four bytes, or a pair of words, to every lane. */
ALWAYS_INLINE __m512i broadcast(const void *at)
{
	int32_t x;

	memcpy(&x, at, sizeof x);
	return _mm512_set1_epi32(x);
}

/* Adds four products of bytes to each lane, or two of words. With the intrinsics, compilers copy or spill the sums. */
ALWAYS_INLINE __m512i dot_bytes(__m512i sum, __m512i unsigned_bytes, __m512i signed_bytes)
{
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
	return sum;
}

ALWAYS_INLINE __m512i dot_words(__m512i sum, __m512i a, __m512i b)
{
	__asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
}

#endif
