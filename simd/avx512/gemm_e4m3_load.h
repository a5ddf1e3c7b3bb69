/* SPDX-License-Identifier: MIT */
/* Blocks of 32 elements of MX formats on their way into panels. Nothing past a row's last element is looked at. */
#ifndef MXFP_AVX512_GEMM_E4M3_LOAD_H
#define MXFP_AVX512_GEMM_E4M3_LOAD_H

#include "avx512/gemm_e4m3.h"

ALWAYS_INLINE uint32_t low_mask(size_t n)
{
	return _bzhi_u32(UINT32_MAX, n < 32 ? (unsigned)n : 32);
}

/* Codes of 6 bits, 4 in 3 bytes, as integers in eighths. */
ALWAYS_INLINE __m256i e2m3_integers(__m256i packed)
{
	const __m256i places = _mm256_set1_epi64x(0x2A241E18120C0600);
	const __m256i bytes = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1, 12, 13, 14, 15, 16, 17,
	                                       -1, -1, 18, 19, 20, 21, 22, 23, -1, -1);
	const __m256i eighths = _mm256_setr_epi64x(0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1E1C1A1816141210,
	                                           0x3C3834302C282420);
	__m256i codes = _mm256_multishift_epi64_epi8(places, _mm256_permutexvar_epi8(bytes, packed));
	__mmask32 minus = _mm256_test_epi8_mask(codes, _mm256_set1_epi8(0x20));
	__m256i magnitude = _mm256_permutexvar_epi8(codes, eighths); /* looks at the low 5 bits */

	return _mm256_mask_sub_epi8(magnitude, minus, _mm256_setzero_si256(), magnitude);
}

/* 16 integers in halves: what the codes of e2m1 stand for. */
ALWAYS_INLINE __m128i e2m1_halves(void)
{
	return _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
}

/* The block of n <= 32 elements that begins at `codes`, as integers in a unit of the format, or as codes of e4m3; then
   zeros. */
ALWAYS_INLINE __m256i load_block(enum mxfp_format format, const uint8_t *codes, size_t n)
{
	__m256i x;

	switch (format) {
	case MXFP_FORMAT_MXFP4:
		x = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8((__mmask16)low_mask((n + 1) / 2), codes));
		x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi16(x, 4)), _mm256_set1_epi8(0x0F));
		x = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(e2m1_halves()), x);
		return _mm256_maskz_mov_epi8(low_mask(n), x);
	case MXFP_FORMAT_MXFP6_E2M3:
		x = e2m3_integers(_mm256_maskz_loadu_epi8(low_mask((n * 6 + 7) / 8), codes));
		return _mm256_maskz_mov_epi8(low_mask(n), x);
	default: /* MXINT8, MXFP8_E4M3 */
		return _mm256_maskz_loadu_epi8(low_mask(n), codes);
	}
}

/* The code of e4m3 whose magnitude bits are all set is NaN. */
ALWAYS_INLINE bool has_nan(__m256i codes)
{
	const __m256i magnitude = _mm256_set1_epi8(0x7F);

	return _mm256_cmpeq_epi8_mask(_mm256_and_si256(codes, magnitude), magnitude) != 0;
}

/* Whether all elements are zeros: of e4m3 there are two. */
ALWAYS_INLINE bool all_zero(enum mxfp_format format, __m256i x)
{
	return _mm256_test_epi8_mask(x, _mm256_set1_epi8(format == MXFP_FORMAT_MXFP8_E4M3 ? 0x7F : -1)) == 0;
}

ALWAYS_INLINE const uint8_t *codes_at(const struct mxfp_matrix *matrix, size_t row, size_t k)
{
	const unsigned bits = mxfp_format_info(mxfp_format_info(matrix->format)->element)->bits;

	return (const uint8_t *)matrix->data + row * matrix->stride + k * bits / 8;
}

ALWAYS_INLINE const uint8_t *scales_at(const struct mxfp_matrix *matrix, size_t row, size_t k)
{
	return (const uint8_t *)matrix->scales + row * matrix->scales_stride + k / GEMM_E4M3_BLOCK;
}

/* The scales of a row in a chunk: what counts of them. */
struct scale_range {
	uint8_t least, most; /* of blocks that are neither zero nor NaN; if there is none, both 127 */
	bool nan;
};

/* The scale of a block of zeros counts for nothing unless it is NaN: `least` takes its place. */
ALWAYS_INLINE struct scale_range even_out(uint8_t *scale, const bool *zero, size_t n)
{
	struct scale_range range = {E8M0_NAN, 0, false};

	for (size_t b = 0; b < n; b++) {
		if (scale[b] == E8M0_NAN) {
			range.nan = true;
			continue;
		}
		if (zero[b])
			continue;
		range.least = scale[b] < range.least ? scale[b] : range.least;
		range.most = scale[b] > range.most ? scale[b] : range.most;
	}
	if (range.most < range.least)
		range.least = range.most = E8M0_BIAS;
	for (size_t b = 0; b < n; b++)
		if (zero[b] && scale[b] != E8M0_NAN)
			scale[b] = range.least;
	return range;
}

ALWAYS_INLINE bool is_moderate(struct scale_range range)
{
	return range.least >= GEMM_E4M3_SCALE_LEAST && range.most <= GEMM_E4M3_SCALE_MOST;
}

#endif
