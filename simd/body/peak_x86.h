/* SPDX-License-Identifier: MIT */
/* Products of bytes, summed in registers alone: what a core computes at most, for the bench. The tier's header comes
   first. As instructions: gcc makes copies of what its function for vpdpbusd changes. */
#ifndef MXFP_BODY_PEAK_X86_H
#define MXFP_BODY_PEAK_X86_H

enum { DOT_CHAINS = 12, DOT_TURNS = 20000 };

/* How many operations, two a product, it did. */
#ifdef __AVX512VNNI__
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
/* Products of bytes to 16 bits, pairs of these to 32, and their sum. */
static inline double peak_dot(void)
{
	const __m256i ones = _mm256_set1_epi16(1);
	volatile int result;
	__m256i sum[DOT_CHAINS], x[DOT_CHAINS];

#pragma GCC unroll 12
	for (int i = 0; i < DOT_CHAINS; i++)
		sum[i] = x[i] = _mm256_set1_epi32(i);
	for (int turn = 0; turn < DOT_TURNS; turn++)
#pragma GCC unroll 12
		for (int i = 0; i < DOT_CHAINS; i++)
			sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(_mm256_maddubs_epi16(sum[i], x[0]), ones));
#pragma GCC unroll 12
	for (int i = 1; i < DOT_CHAINS; i++)
		sum[0] = _mm256_add_epi32(sum[0], sum[i]);
	result = _mm256_cvtsi256_si32(sum[0]);
	(void)result;
	return 2.0 * DOT_CHAINS * DOT_TURNS * 32;
}
#endif

#endif
