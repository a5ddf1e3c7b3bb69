/* SPDX-License-Identifier: MIT */
/* What the limits and peaks of a tier use of its instruction set: stores of cache lines past the caches, vectors of
   binary32 with a fused multiply-add (LANES; the tier "ref" has none), sums of products of bytes (HAS_DOT). */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#elif defined __ARM_NEON
#include <arm_neon.h>
#endif

/* Stores a cache line of 64 bytes past the caches; dst is aligned to 64. */
static inline void stream_line(void *dst, const void *line)
{
#if defined __AVX512F__
	_mm512_stream_si512(dst, _mm512_loadu_si512(line));
#elif defined __AVX__
	for (int i = 0; i < 2; i++)
		_mm256_stream_si256((__m256i *)dst + i, _mm256_loadu_si256((const __m256i *)line + i));
#elif defined __SSE2__
	for (int i = 0; i < 4; i++)
		_mm_stream_si128((__m128i *)dst + i, _mm_loadu_si128((const __m128i *)line + i));
#else
	memcpy(dst, line, 64);
#endif
}

/* Makes these stores visible to other threads before any later store. */
static inline void stream_end(void)
{
#ifdef __SSE2__
	_mm_sfence();
#endif
}

#ifndef TIER_REF
#if defined __AVX512F__
#define LANES 16
typedef __m512 vf32;
#define splat_f32(x) _mm512_set1_ps(x)
#define fma_f32(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined __AVX2__
#define LANES 8
typedef __m256 vf32;
#define splat_f32(x) _mm256_set1_ps(x)
#define fma_f32(a, b, c) _mm256_fmadd_ps(a, b, c)
#elif defined __ARM_NEON
#define LANES 4
typedef float32x4_t vf32;
#define splat_f32(x) vdupq_n_f32(x)
#define fma_f32(a, b, c) vfmaq_f32(c, a, b)
#endif
#endif

enum { DOT_CHAINS = 12, DOT_TURNS = 20000 };

#ifdef __AVX512VNNI__
#define HAS_DOT
/* Sums products of bytes in registers only. Returns the number of operations, two a product. The instruction is written
   out because gcc copies the sums that its intrinsic for vpdpbusd changes. */
static inline double peak_dot(void)
{
	volatile int result;
	__m512i sum[DOT_CHAINS], x = _mm512_set1_epi8(3);

#pragma GCC unroll 12
	for (int i = 0; i < DOT_CHAINS; i++)
		sum[i] = _mm512_set1_epi32(i);
	for (int turn = 0; turn < DOT_TURNS; turn++)
#pragma GCC unroll 12
		for (int i = 0; i < DOT_CHAINS; i++)
			__asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(sum[i]) : "v"(x));
#pragma GCC unroll 12
	for (int i = 1; i < DOT_CHAINS; i++)
		sum[0] = _mm512_add_epi32(sum[0], sum[i]);
	result = _mm512_reduce_add_epi32(sum[0]);
	(void)result;
	return 2.0 * DOT_CHAINS * DOT_TURNS * 64;
}
#elif defined __AVX2__
#define HAS_DOT
/* The same: adds products of bytes to 16 bits, pairs of those to 32 bits, and these to the sums. */
static inline double peak_dot(void)
{
	const __m256i ones = _mm256_set1_epi16(1);
	volatile int result;
	__m256i sum[DOT_CHAINS], x = _mm256_set1_epi8(3);

	__asm__("" : "+x"(x)); /* compilers know what it holds no longer */
#pragma GCC unroll 12
	for (int i = 0; i < DOT_CHAINS; i++)
		sum[i] = _mm256_set1_epi32(i);
	for (int turn = 0; turn < DOT_TURNS; turn++)
#pragma GCC unroll 12
		for (int i = 0; i < DOT_CHAINS; i++)
			sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(_mm256_maddubs_epi16(sum[i], x), ones));
#pragma GCC unroll 12
	for (int i = 1; i < DOT_CHAINS; i++)
		sum[0] = _mm256_add_epi32(sum[0], sum[i]);
	result = _mm256_cvtsi256_si32(sum[0]);
	(void)result;
	return 2.0 * DOT_CHAINS * DOT_TURNS * 32;
}
#endif

#endif
