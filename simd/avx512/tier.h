/* SPDX-License-Identifier: MIT */
/* Tier avx512 under body/vector.h: 16 lanes. */
#ifndef MXFP_AVX512_TIER_H
#define MXFP_AVX512_TIER_H

#ifndef TIER /* of a tier beside this one */
#define TIER(name) mxfp_##name##_avx512
#define TIER_NAME "avx512"
#endif
#define VECTOR_BYTES 64

/* The micro-kernels of simd/body: the ids of their panels, rows of a panel of A, vectors of columns of a panel of W. */
enum {
	INT16_MR = 12, INT16_VECTORS = 1,
	FP8_ID = 0x0622,
	INT16_CODES_ID = 0x061E
};

/* Parts of an octave that powers of two are reduced to, by a table of roots. */
enum { EXP_PARTS = 16 };

#include "body/vector.h"

#include <immintrin.h>

#define MM(operation) _mm512_##operation
#define MM_INT __m512i
#define MM_F32 __m512
#define MM_F64 __m512d

#include "body/x86.h"

ALWAYS_INLINE uint32_t max_across(vu32 v)
{
	return _mm512_reduce_max_epu32((__m512i)v);
}

ALWAYS_INLINE bool any(vs32 mask)
{
	return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
}

/* Toward zero. */
ALWAYS_INLINE vf64 truncate_f64(vf64 v)
{
	return (vf64)_mm512_roundscale_pd((__m512d)v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

ALWAYS_INLINE vf64 floor_f64(vf64 v)
{
	return (vf64)_mm512_roundscale_pd((__m512d)v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* Loads LANES / 2 numbers and widens them. */
ALWAYS_INLINE vf64 widen_f32(const void *at)
{
	return (vf64)_mm512_cvtps_pd(_mm256_loadu_ps(at));
}

/* Rounds to nearest even; the lanes of `low` come first. */
ALWAYS_INLINE vf32 narrow_f64(vf64 low, vf64 high)
{
	__m512 first = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));

	return (vf32)_mm512_insertf32x8(first, _mm512_cvtpd_ps((__m512d)high), 1);
}

ALWAYS_INLINE void widen_lanes(vf32 v, vf64 to[2])
{
	to[0] = (vf64)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
	to[1] = (vf64)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
}

/* Entries of a table by the low five bits of each index. */
#define HAS_PERMUTE
ALWAYS_INLINE vf32 permute_f32(const float table[32], vu32 index)
{
	const __m512 low = _mm512_loadu_ps(table), high = _mm512_loadu_ps(table + LANES);

	return (vf32)_mm512_permutex2var_ps(low, (__m512i)index, high);
}

/* 1 / b to a relative error below 2^-23.6. */
ALWAYS_INLINE vf32 reciprocal_f32(vf32 b)
{
	const vf32 r = (vf32)_mm512_rcp14_ps((__m512)b);

	return fma_f32(fma_f32(-b, r, splat_f32(1)), r, r);
}

/* The low 32 bits of all lanes, in no particular order. */
ALWAYS_INLINE vu32 low_words(vf64 a, vf64 b)
{
	return (vu32)_mm512_shuffle_ps((__m512)a, (__m512)b, 0x88);
}

/* Whether a lane has v & bits == 0 or x > most. */
ALWAYS_INLINE bool any_zero_or_beyond(vu32 v, vu32 bits, vu32 x, vu32 most)
{
	const __mmask16 zero = _mm512_testn_epi32_mask((__m512i)v, (__m512i)bits);

	return _mm512_kortestz(zero, _mm512_cmpgt_epu32_mask((__m512i)x, (__m512i)most)) == 0;
}

/* 2^(n - floor n) by the table of 2^(i/16), n a multiple of 1 / EXP_PARTS, `shifted` n with its units in the lowest bits. */
ALWAYS_INLINE vf64 exp2_fraction(const double root[16], vf64 shifted)
{
	const __m512d low = _mm512_loadu_pd(root), high = _mm512_loadu_pd(root + 8);

	return (vf64)_mm512_permutex2var_pd(low, (__m512i)shifted, high);
}

/* v * 2^floor(n). */
ALWAYS_INLINE vf64 exp2_scale(vf64 v, vf64 n, vf64 shifted)
{
	(void)shifted;
	return (vf64)_mm512_scalef_pd((__m512d)v, (__m512d)n);
}

/* a / b to a relative error below 2^-51, b normal and neither tiny nor huge: r = (1 - e) / b by estimate, |e| <= 2^-14,
   and 1 / b = r (1 + e) (1 + e^2) / (1 - e^4). Division would take four times as long. */
ALWAYS_INLINE vf64 divide_f64(vf64 a, vf64 b)
{
	const vf64 r = (vf64)_mm512_rcp14_pd((__m512d)b), e = fma_f64(-b, r, splat_f64(1)), q = a * r;
	const vf64 better = fma_f64(q, e, q);

	return fma_f64(better, e * e, better);
}

/* 1 / sqrt x to a relative error below 2^-51: y = sqrt((1 - e) / x) by estimate, |e| < 2^-12.9, times the series of
   1 / sqrt(1 - e), whose next term is 35/128 e^4. */
ALWAYS_INLINE vf64 rsqrt_f64(vf64 x)
{
	const vf64 y = (vf64)_mm512_rsqrt14_pd((__m512d)x), e = fma_f64(-x * y, y, splat_f64(1));
	const vf64 series = fma_f64(fma_f64(e, splat_f64(0.3125), splat_f64(0.375)), e, splat_f64(0.5));

	return fma_f64(y * e, series, y);
}

/* Bytes table[index], index below 16. */
ALWAYS_INLINE vu8 lookup(const int8_t table[16], vu8 index)
{
	return (vu8)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), (__m512i)index);
}

/* Bytes table[index]; bit 7 of an index is not used. */
#define HAS_WIDE_LOOKUP
ALWAYS_INLINE vu8 lookup_128(const uint8_t table[128], vu8 index)
{
	return (vu8)_mm512_permutex2var_epi8(_mm512_loadu_si512(table), (__m512i)index, _mm512_loadu_si512(table + VECTOR_BYTES));
}

/* Words table[index] by the low six bits of an index. */
ALWAYS_INLINE vs16 lookup_words(const int16_t table[64], vu16 index)
{
	return (vs16)_mm512_permutex2var_epi16(_mm512_loadu_si512(table), (__m512i)index, _mm512_loadu_si512(table + 32));
}

/* Bytes of 64 codes of six bits, four in three bytes; the two bits above a code are any. */
ALWAYS_INLINE vu8 load_packed_sixes(const uint8_t *at)
{
	const __m512i places = _mm512_set1_epi64(0x322C2620120C0600);
	const __m512i bytes = _mm512_setr_epi32(0x020100, 0x050403, 0x080706, 0x0B0A09, 0x0E0D0C, 0x11100F, 0x141312, 0x171615, 0x1A1918,
	                                        0x1D1C1B, 0x201F1E, 0x232221, 0x262524, 0x292827, 0x2C2B2A, 0x2F2E2D);
	const __m512i codes = _mm512_maskz_loadu_epi8(0x0000FFFFFFFFFFFF, at);

	return (vu8)_mm512_multishift_epi64_epi8(places, _mm512_permutexvar_epi8(bytes, codes));
}

/* Negates word i where bit 7 of byte i is set, those of v[0] before those of v[1]. */
ALWAYS_INLINE void negate(vu16 v[2], vu8 bytes)
{
	const __mmask64 negative = _mm512_movepi8_mask((__m512i)bytes);

	v[0] = (vu16)_mm512_mask_sub_epi16((__m512i)v[0], (__mmask32)negative, _mm512_setzero_si512(), (__m512i)v[0]);
	v[1] = (vu16)_mm512_mask_sub_epi16((__m512i)v[1], (__mmask32)(negative >> 32), _mm512_setzero_si512(), (__m512i)v[1]);
}

/* a - b, at least 0. */
ALWAYS_INLINE vu8 subtract_saturated(vu8 a, vu8 b)
{
	return (vu8)_mm512_subs_epu8((__m512i)a, (__m512i)b);
}

/* Pairs of bytes of a and b: of the first 8 bytes of every 128 bits, and of the others. */
ALWAYS_INLINE void interleave_bytes(vu8 a, vu8 b, vu16 to[2])
{
	to[0] = (vu16)_mm512_unpacklo_epi8((__m512i)a, (__m512i)b);
	to[1] = (vu16)_mm512_unpackhi_epi8((__m512i)a, (__m512i)b);
}

/* Rounds to binary16, to nearest even, and stores. */
ALWAYS_INLINE void store_f16(void *at, vf32 v)
{
	_mm256_storeu_si256((__m256i *)at, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* sum + a[0] * b[0] + a[1] * b[1] for each pair of 16-bit lanes, in a lane of 32. */
ALWAYS_INLINE vs32 dot_pairs(vs32 sum, vs16 a, vs16 b)
{
	return (vs32)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}

ALWAYS_INLINE vu32 load_u8(const uint8_t *at)
{
	return (vu32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at));
}

ALWAYS_INLINE vu32 load_u16(const void *at)
{
	return (vu32)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)at));
}

/* Stores the low halves of lanes, which are at most 0xFFFF. */
ALWAYS_INLINE void store_u16(void *at, vu32 v)
{
	_mm256_storeu_si256((__m256i *)at, _mm512_cvtepi32_epi16((__m512i)v));
}

/* Stores the low bytes of lanes, which are at most 0xFF. */
ALWAYS_INLINE void store_u8(uint8_t *at, vu32 v)
{
	_mm_storeu_si128((__m128i *)at, _mm512_cvtepi32_epi8((__m512i)v));
}

/* Packs the lanes of 4 vectors, each at most 0xFF, in order. */
ALWAYS_INLINE vu8 low_bytes(const vu32 v[4])
{
	__m512i low = _mm512_packus_epi32((__m512i)v[0], (__m512i)v[1]);
	__m512i high = _mm512_packus_epi32((__m512i)v[2], (__m512i)v[3]);
	const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);

	return (vu8)_mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
}

/* Stores 4-bit codes, two per byte. */
ALWAYS_INLINE void store_nibbles(uint8_t *at, vu8 codes)
{
	__m512i words = _mm512_maddubs_epi16((__m512i)codes, _mm512_set1_epi16(0x1001));

	_mm256_storeu_si256((__m256i *)at, _mm512_cvtepi16_epi8(words));
}

/* Stores lane i of word[w] at at[4 * i + w]. */
ALWAYS_INLINE void store_interleaved(uint32_t *at, const vu32 word[4])
{
	__m512i quarter[4];

	interleave_quarters(quarter, word);
	for (int i = 0; i < 4; i++) {
		_mm_storeu_si128((__m128i *)(at + 4 * i), _mm512_castsi512_si128(quarter[i]));
		_mm_storeu_si128((__m128i *)(at + 16 + 4 * i), _mm512_extracti32x4_epi32(quarter[i], 1));
		_mm_storeu_si128((__m128i *)(at + 32 + 4 * i), _mm512_extracti32x4_epi32(quarter[i], 2));
		_mm_storeu_si128((__m128i *)(at + 48 + 4 * i), _mm512_extracti32x4_epi32(quarter[i], 3));
	}
}

/* Adds the second half of the lanes to the first until one is left. Returns its bits. */
ALWAYS_INLINE uint32_t halving_sum(vf32 v)
{
	__m256 eight = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
	__m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
	__m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(_mm_add_ps(two, _mm_movehdup_ps(two))));
}

#endif
