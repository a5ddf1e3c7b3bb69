/* SPDX-License-Identifier: MIT */
/*
 * One row of A by a panel of an MXFP4 W, as fast as W can be read: nothing is expanded in memory. vpermb turns nibbles
 * into bytes of 0 .. 24 (halves plus an offset of 12), whatever is beside them in a byte: its table of 64 repeats. Then
 * vpdpbusd takes 4 elements at once, for each of the two bytes of A's main parts and, in the few blocks that have any,
 * for the rests.
 */
#include "gemm_e4m3_load_avx512.h"

enum {
	GROUPS = GEMM_E4M3_BLOCK / 4,
	BLOCK_BYTES = GEMM_E4M3_BLOCK / 2 * GEMM_E4M3_NR,
	AHEAD = 2048 /* bytes that are asked for before they are needed */
};

/* acc += the 4 products in each lane. The compiler's intrinsic copies accumulators. */
ALWAYS_INLINE __m512i add_groups(__m512i acc, __m512i w, __m512i a)
{
	__asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(a));
	return acc;
}

ALWAYS_INLINE __m512i splat_group(const int8_t *bytes, int group)
{
	int32_t x;

	memcpy(&x, bytes + 4 * group, sizeof x);
	return _mm512_set1_epi32(x);
}

ALWAYS_INLINE __m512 sum_block(const struct gemm_e4m3_single *a, const uint8_t *codes, bool with_rest)
{
	const __m512i table = _mm512_broadcast_i32x4(_mm_add_epi8(e2m1_halves(), _mm_set1_epi8(GEMM_E4M3_SINGLE_OFFSET)));
	__m512i high = _mm512_setzero_si512(), low = _mm512_set1_epi32(a->main_start);
	__m512i rest = _mm512_set1_epi32(a->rest_start);

#pragma GCC unroll 8
	for (int g = 0; g < GROUPS; g++) {
		__m512i x = _mm512_loadu_si512(codes + g / 2 * GEMM_E4M3_NR * 4);

		x = _mm512_permutexvar_epi8(g % 2 != 0 ? _mm512_srli_epi16(x, 4) : x, table);
		high = add_groups(high, x, splat_group(a->high, g));
		low = add_groups(low, x, splat_group(a->low, g));
		if (with_rest)
			rest = add_groups(rest, x, splat_group(a->rest, g));
	}
	low = _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
	if (!with_rest)
		return _mm512_cvtepi32_ps(low);
	/* 27 bits, rounded once. */
	rest = _mm512_add_epi32(_mm512_slli_epi32(low, 3), rest);
	return _mm512_mul_ps(_mm512_cvtepi32_ps(rest), _mm512_set1_ps(0x1p-3f));
}

ALWAYS_INLINE void add_block(__m512 p[GEMM_E4M3_VECTORS], const struct gemm_e4m3_single *a, const uint8_t *scales,
                             const uint8_t *codes, bool with_rest)
{
#pragma GCC unroll 2
	for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
		__m512i scale = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(scales + v * LANES)));
		__m512 factor = _mm512_castsi512_ps(_mm512_slli_epi32(scale, F32_SIGNIFICAND_BITS));
		__m512 sum = sum_block(a, codes + v * LANES * 4, with_rest);

		p[v] = _mm512_fmadd_ps(_mm512_mul_ps(sum, factor), _mm512_set1_ps(a->factor), p[v]);
	}
}

/* A NaN counts as too large. */
static bool are_moderate(const uint8_t *scales, size_t bytes)
{
	__m512i least = _mm512_set1_epi8(-1), most = _mm512_setzero_si512();

	for (size_t i = 0; i < bytes; i += sizeof least) {
		/* What is left out counts as the first byte. */
		__mmask64 rest = bytes - i < sizeof least ? UINT32_MAX : UINT64_MAX;
		__m512i x = _mm512_mask_loadu_epi8(_mm512_set1_epi8((char)scales[0]), rest, scales + i);

		least = _mm512_min_epu8(least, x);
		most = _mm512_max_epu8(most, x);
	}
	return _mm512_cmplt_epu8_mask(least, _mm512_set1_epi8(GEMM_E4M3_SCALE_LEAST)) == 0 &&
	       _mm512_cmpgt_epu8_mask(most, _mm512_set1_epi8((char)GEMM_E4M3_SCALE_MOST)) == 0;
}

ALWAYS_INLINE void prefetch_block(const uint8_t *codes)
{
	for (int i = 0; i < BLOCK_BYTES; i += 64)
		_mm_prefetch((const char *)codes + AHEAD + i, _MM_HINT_T0);
}

bool mxfp_gemm_e4m3_multiply_single(const struct mxfp_gemm_multiply_job *job, const struct gemm_e4m3_head *head,
                                    const struct gemm_e4m3_single *a)
{
	const size_t blocks = gemm_e4m3_blocks(job->k), pass_blocks = job->shape->pass / GEMM_E4M3_BLOCK;
	const uint8_t *scales = job->w, *codes = scales + blocks * GEMM_E4M3_NR;
	__m512 p[GEMM_E4M3_VECTORS] = {_mm512_setzero_ps(), _mm512_setzero_ps()};

	if (head->general || !are_moderate(scales, blocks * GEMM_E4M3_NR))
		return false;
	for (size_t b = 0; b < blocks; b++, scales += GEMM_E4M3_NR, codes += BLOCK_BYTES) {
		prefetch_block(codes);
		if (__builtin_expect(a[b].has_rest != 0, 0))
			add_block(p, &a[b], scales, codes, true);
		else
			add_block(p, &a[b], scales, codes, false);
		if ((b + 1) % pass_blocks != 0 && b + 1 < blocks)
			continue;
		for (int v = 0; v < GEMM_E4M3_VECTORS; v++) {
			float *c = job->c + v * LANES;

			_mm512_store_ps(c, _mm512_fmadd_ps(p[v], _mm512_set1_ps(head->last[0]), _mm512_load_ps(c)));
			p[v] = _mm512_setzero_ps();
		}
	}
	return true;
}
