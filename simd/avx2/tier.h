/* SPDX-License-Identifier: MIT */
/* Tier avx2 under body/vector.h: 8 lanes. */
#ifndef MXFP_AVX2_TIER_H
#define MXFP_AVX2_TIER_H

#define TIER(name) mxfp_##name##_avx2
#define TIER_NAME "avx2"
#define VECTOR_BYTES 32

/* The micro-kernels of simd/body: the ids of their panels, rows of a panel of A, vectors of columns of a panel of W. */
enum {
	CHAIN_ID = 0x0600, CHAIN_MR = 6, CHAIN_VECTORS = 2,
	CHAIN_BLOCKS_ID = 0x0612, CHAIN_SUMS = 8, /* vectors of sums of few rows at once */
	INT16_MR = 6, INT16_VECTORS = 2,
	FP4_ID = 0x0608,
	FP4_BYTES_ID = 0x060A,
	FP8_ID = 0x0626,
	INT16_CODES_ID = 0x0625,
	MXFP8_ID = 0x0614
};

/* Products of MXFP4 by bytes: avx2/fp4_bytes.h, gemm_sparse_fp4.c. */
#define HAS_FP4_BYTES

/* Products of MXFP8_E4M3 by itself: avx2/gemm_mxfp8.c. */
#define HAS_MXFP8

/* Parts of an octave that powers of two are reduced to: a table of roots would need a gather here, which is slower. */
enum { EXP_PARTS = 1 };

#include "body/vector.h"

#include <immintrin.h>

/* Makes a compiler have a value here. Without it gcc loads codes twice, and reorders sums until it has not enough registers. */
#define IN_REGISTER(v) __asm__("" : "+x"(v))

#define MM(operation) _mm256_##operation
#define MM_INT __m256i
#define MM_F32 __m256
#define MM_F64 __m256d

#include "body/x86.h"

ALWAYS_INLINE uint32_t max_across(vu32 v)
{
	__m128i four = _mm_max_epu32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
	__m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));

	return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 1)));
}

ALWAYS_INLINE bool any(vs32 mask)
{
	return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
}

/* Toward zero. */
ALWAYS_INLINE vf64 truncate_f64(vf64 v)
{
	return (vf64)_mm256_round_pd((__m256d)v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

ALWAYS_INLINE vf64 floor_f64(vf64 v)
{
	return (vf64)_mm256_floor_pd((__m256d)v);
}

/* Loads LANES / 2 numbers and widens them. */
ALWAYS_INLINE vf64 widen_f32(const void *at)
{
	return (vf64)_mm256_cvtps_pd(_mm_loadu_ps(at));
}

/* Rounds to nearest even; the lanes of `low` come first. */
ALWAYS_INLINE vf32 narrow_f64(vf64 low, vf64 high)
{
	return (vf32)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}

ALWAYS_INLINE void widen_lanes(vf32 v, vf64 to[2])
{
	to[0] = (vf64)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
	to[1] = (vf64)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
}

/* Entries of a table by the low three bits of each index. */
#define HAS_PERMUTE
ALWAYS_INLINE vf32 permute_f32(const float table[8], vu32 index)
{
	return (vf32)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
}

/* 1 / b to a relative error below 2^-22.2, of which the estimate's, 1.5 * 2^-12, leaves its square. */
ALWAYS_INLINE vf32 reciprocal_f32(vf32 b)
{
	const vf32 r = (vf32)_mm256_rcp_ps((__m256)b);

	return fma_f32(fma_f32(-b, r, splat_f32(1)), r, r);
}

/* The low 32 bits of all lanes, in no particular order. */
ALWAYS_INLINE vu32 low_words(vf64 a, vf64 b)
{
	return (vu32)_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);
}

/* Whether a lane has v & bits == 0 or x > most. */
ALWAYS_INLINE bool any_zero_or_beyond(vu32 v, vu32 bits, vu32 x, vu32 most)
{
	return any((vs32)((v & bits) == splat(0)) | (vs32)(x > most));
}

/* 2^(n - floor n) by the table of 2^(i/16), n a multiple of 1 / EXP_PARTS, `shifted` n with its units in the lowest bits. */
ALWAYS_INLINE vf64 exp2_fraction(const double root[16], vf64 shifted)
{
	(void)root;
	(void)shifted;
	return splat_f64(1);
}

/* v * 2^floor(n). */
ALWAYS_INLINE vf64 exp2_scale(vf64 v, vf64 n, vf64 shifted)
{
	(void)n;
	return (vf64)((vu64)v + ((vu64)shifted << 52));
}

/* Division runs beside the multiplications, which are what limits here. */
ALWAYS_INLINE vf64 divide_f64(vf64 a, vf64 b)
{
	return a / b;
}

ALWAYS_INLINE vf64 rsqrt_f64(vf64 x)
{
	return splat_f64(1) / (vf64)_mm256_sqrt_pd((__m256d)x);
}

/* Bytes table[index], index below 16; 0 if it is 128 or more. */
ALWAYS_INLINE vu8 lookup(const int8_t table[16], vu8 index)
{
	return (vu8)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), (__m256i)index);
}

/* The same by the lower four bits of each index, whose bit 7 is 0. */
ALWAYS_INLINE vu8 lookup_nibble(const int8_t table[16], vu8 index)
{
	return lookup(table, index);
}

/* Negates bytes where bit 7 of `signs` is set; where `signs` are 0, they must be. */
ALWAYS_INLINE vu8 with_sign(vu8 bytes, vu8 signs)
{
	return (vu8)_mm256_sign_epi8((__m256i)bytes, (__m256i)signs);
}

/* The even bytes, which have signs, and the odd ones. */
ALWAYS_INLINE void widen_signed(vu8 bytes, vs16 to[2])
{
	to[0] = (vs16)_mm256_maddubs_epi16(_mm256_set1_epi16(1), (__m256i)bytes);
	to[1] = (vs16)bytes >> 8;
}

/* The products of the even bytes, those of b with signs and those of a, below 2^7, without, and of the odd ones. */
ALWAYS_INLINE void multiply_bytes(vu8 a, vu8 b, vs16 to[2])
{
	to[0] = (vs16)_mm256_maddubs_epi16((__m256i)(a & (vu8)splat(0x00FF00FF)), (__m256i)b);
	to[1] = (vs16)_mm256_maddubs_epi16((__m256i)(a & (vu8)splat(0xFF00FF00)), (__m256i)b);
}

/* a - b, at least 0. */
ALWAYS_INLINE vu8 subtract_saturated(vu8 a, vu8 b)
{
	return (vu8)_mm256_subs_epu8((__m256i)a, (__m256i)b);
}

/* sum + a[0] * b[0] + a[1] * b[1] for each pair of 16-bit lanes, in a lane of 32. */
ALWAYS_INLINE vs32 dot_pairs(vs32 sum, vs16 a, vs16 b)
{
	return (vs32)((vu32)sum + (vu32)_mm256_madd_epi16((__m256i)a, (__m256i)b));
}

ALWAYS_INLINE vu32 load_u8(const uint8_t *at)
{
	return (vu32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)at));
}

ALWAYS_INLINE vs32 load_s8(const uint8_t *at)
{
	return (vs32)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)at));
}

ALWAYS_INLINE vu32 load_u16(const void *at)
{
	return (vu32)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
}

/* Stores the low halves of lanes, which are at most 0xFFFF. */
ALWAYS_INLINE void store_u16(void *at, vu32 v)
{
	__m256i packed = _mm256_packus_epi32((__m256i)v, (__m256i)v);

	_mm_storeu_si128((__m128i *)at, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}

/* Stores the low bytes of lanes, which are at most 0xFF. */
ALWAYS_INLINE void store_u8(uint8_t *at, vu32 v)
{
	__m128i low = _mm256_castsi256_si128((__m256i)v), high = _mm256_extracti128_si256((__m256i)v, 1);
	__m128i words = _mm_packus_epi32(low, high);

	_mm_storel_epi64((__m128i *)at, _mm_packus_epi16(words, words));
}

/* Stores lane i of word[w] at at[4 * i + w]. */
ALWAYS_INLINE void store_interleaved(uint32_t *at, const vu32 word[4])
{
	__m256i quarter[4];

	interleave_quarters(quarter, word);
	for (int i = 0; i < 4; i++) {
		_mm_storeu_si128((__m128i *)(at + 4 * i), _mm256_castsi256_si128(quarter[i]));
		_mm_storeu_si128((__m128i *)(at + 16 + 4 * i), _mm256_extracti128_si256(quarter[i], 1));
	}
}

/* Puts lanes in order after two steps of packing, which work within 128 bits. */
ALWAYS_INLINE vu8 in_order(__m256i packed)
{
	return (vu8)_mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Packs the lanes of 4 vectors, each at most 0xFF, in order. */
ALWAYS_INLINE vu8 low_bytes(const vu32 v[4])
{
	__m256i low = _mm256_packus_epi32((__m256i)v[0], (__m256i)v[1]);
	__m256i high = _mm256_packus_epi32((__m256i)v[2], (__m256i)v[3]);

	return in_order(_mm256_packus_epi16(low, high));
}

/* Bytes whose top bits are the signs of the lanes of 4 vectors, in order; the other bits are undefined. */
ALWAYS_INLINE vs8 sign_bytes(const vu32 v[4])
{
	__m256i low = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
	__m256i high = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);

	return (vs8)in_order(_mm256_packs_epi16(low, high));
}

/* Converts to binary32, rounded down in the state of fp_enter_down(). */
ALWAYS_INLINE vf32 floor_f32(vu32 v)
{
	const __m256 of_signed = _mm256_cvtepi32_ps((__m256i)v);

	return (vf32)_mm256_blendv_ps(of_signed, _mm256_add_ps(of_signed, _mm256_set1_ps(0x1p32F)), (__m256)v);
}

/* Stochastic rounding of body/stochastic.h. */
#define HAS_STOCHASTIC
/* The codes (exponent field - first) * 2^M + n of 4 vectors of binary32 numbers with n in their low 16 bits. */
ALWAYS_INLINE vu8 join_codes(const vu32 v[4], unsigned significand_bits, uint32_t first)
{
	const int up = 7 - (int)significand_bits;
	const __m256i weights = _mm256_set1_epi32(1 << 16 | 1 << up); /* the upper half is the field times 2^7 */
	const __m256i low = _mm256_packus_epi32(_mm256_madd_epi16((__m256i)v[0], weights), _mm256_madd_epi16((__m256i)v[1], weights));
	const __m256i high = _mm256_packus_epi32(_mm256_madd_epi16((__m256i)v[2], weights), _mm256_madd_epi16((__m256i)v[3], weights));
	const vu16 base = (vu16){0} + (uint16_t)(first << 7);

	return in_order(_mm256_packus_epi16((__m256i)(((vu16)low - base) >> up), (__m256i)(((vu16)high - base) >> up)));
}

ALWAYS_INLINE vu8 min_u8(vu8 a, vu8 b)
{
	return (vu8)_mm256_min_epu8((__m256i)a, (__m256i)b);
}

/* Stores the low halves of the lanes of a, then of b, which are at most 0xFFFF. */
ALWAYS_INLINE void store_u16_pair(void *at, vu32 a, vu32 b)
{
	__m256i packed = _mm256_packus_epi32((__m256i)a, (__m256i)b);

	_mm256_storeu_si256((__m256i *)at, _mm256_permute4x64_epi64(packed, 0xD8));
}

/* Rounds to binary16, to nearest even, and stores. */
ALWAYS_INLINE void store_f16(void *at, vf32 v)
{
	_mm_storeu_si128((__m128i *)at, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

ALWAYS_INLINE void widen_bytes(vu8 v, vu16 to[2])
{
	to[0] = (vu16)_mm256_cvtepu8_epi16(_mm256_castsi256_si128((__m256i)v));
	to[1] = (vu16)_mm256_cvtepu8_epi16(_mm256_extracti128_si256((__m256i)v, 1));
}

/* Pairs of bytes of a and b: of the first 8 bytes of every 128 bits, and of the others. */
ALWAYS_INLINE void interleave_bytes(vu8 a, vu8 b, vu16 to[2])
{
	to[0] = (vu16)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b);
	to[1] = (vu16)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b);
}

/* v >> n, n from 1 on, which may vary: a shift by a register takes two operations. */
ALWAYS_INLINE vs16 shift_right_s16(vs16 v, int n)
{
	return (vs16)_mm256_mulhi_epi16((__m256i)v, _mm256_set1_epi16((short)(1 << (16 - n))));
}

/* binary16 to binary32. */
ALWAYS_INLINE void widen_f16(vu16 v, vf32 to[2])
{
	to[0] = (vf32)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)v));
	to[1] = (vf32)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)v, 1));
}

/* Stores 4-bit codes, two per byte. */
ALWAYS_INLINE void store_nibbles(uint8_t *at, vu8 codes)
{
	__m256i words = _mm256_maddubs_epi16((__m256i)codes, _mm256_set1_epi16(0x1001));
	__m256i packed = _mm256_packus_epi16(words, words);

	_mm_storeu_si128((__m128i *)at, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}

/* Adds the second half of the lanes to the first until one is left. Returns its bits. */
ALWAYS_INLINE uint32_t halving_sum(vf32 v)
{
	__m128 four = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
	__m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));

	return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(_mm_add_ps(two, _mm_movehdup_ps(two))));
}

#endif
