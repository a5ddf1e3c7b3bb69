/* SPDX-License-Identifier: MIT */
/*
 * bf16, f16, tf32 and f32 to binary32, 64 at a time. Groups with a NaN or an Inf are the general kernel's.
 */
#include "avx512/convert_groups.h"

/* Decodes a group. False if it is the general kernel's. */
typedef bool group_decoder(const void *from, __m512i x[GROUP / LANES]);

ALWAYS_INLINE bool is_below(__m512i a, __m512i b, uint16_t inf)
{
	const __m512i magnitude = _mm512_set1_epi16(INT16_MAX);
	__m512i largest = _mm512_max_epu16(_mm512_and_si512(a, magnitude), _mm512_and_si512(b, magnitude));

	return _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16((short)inf)) == 0;
}

ALWAYS_INLINE bool decode_bf16(const void *from, __m512i x[GROUP / LANES])
{
	__m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512((const uint8_t *)from + sizeof a);

#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++) {
		const __m256i *at = (const __m256i *)from + v;
		x[v] = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(at)), 16);
	}
	return is_below(a, b, F32_INF >> 16);
}

ALWAYS_INLINE bool decode_f16(const void *from, __m512i x[GROUP / LANES])
{
	enum { F16_INF = 0x7C00 };
	__m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512((const uint8_t *)from + sizeof a);

#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++)
		x[v] = (__m512i)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from + v));
	return is_below(a, b, F16_INF);
}

ALWAYS_INLINE bool decode_words(const void *from, __m512i x[GROUP / LANES], uint32_t kept)
{
	const __m512i inf = _mm512_set1_epi32(F32_INF);
	__mmask16 finite = 0xFFFF;

#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++) {
		x[v] = _mm512_and_si512(_mm512_loadu_si512((const __m512i *)from + v), _mm512_set1_epi32((int)kept));
		finite = _mm512_mask_cmpneq_epi32_mask(finite, _mm512_and_si512(x[v], inf), inf);
	}
	return finite == 0xFFFF;
}

ALWAYS_INLINE bool decode_tf32(const void *from, __m512i x[GROUP / LANES])
{
	return decode_words(from, x, 0xFFFFE000);
}

ALWAYS_INLINE bool decode_f32(const void *from, __m512i x[GROUP / LANES])
{
	return decode_words(from, x, UINT32_MAX);
}

ALWAYS_INLINE void decode_array(const struct mxfp_convert_job *job, group_decoder *decode, size_t bytes)
{
	for (size_t i = 0; i < job->n; i += GROUP) {
		const uint8_t *from = (const uint8_t *)job->src + i * bytes;
		uint32_t *to = (uint32_t *)job->dst + i;
		__m512i x[GROUP / LANES];

#pragma GCC unroll 4
		for (size_t at = 0; at < GROUP * bytes; at += 64)
			_mm_prefetch((const char *)from + at + PREFETCH_BYTES, _MM_HINT_T0);
		if (__builtin_expect(decode(from, x), 1)) {
#pragma GCC unroll 4
			for (int v = 0; v < GROUP / LANES; v++)
				store_numbers(to + v * LANES, x[v], job->past_caches);
		} else {
			struct mxfp_convert_job part = job_part(job, i, GROUP);
			TIER(convert)(&part);
		}
	}
}

static NOINLINE void decode_bf16_array(const struct mxfp_convert_job *job)
{
	decode_array(job, decode_bf16, sizeof(uint16_t));
}

static NOINLINE void decode_f16_array(const struct mxfp_convert_job *job)
{
	decode_array(job, decode_f16, sizeof(uint16_t));
}

static NOINLINE void decode_tf32_array(const struct mxfp_convert_job *job)
{
	decode_array(job, decode_tf32, sizeof(uint32_t));
}

static NOINLINE void decode_f32_array(const struct mxfp_convert_job *job)
{
	decode_array(job, decode_f32, sizeof(uint32_t));
}

void TIER(decode_wide)(const struct mxfp_convert_job *job)
{
	mxfp_convert_kernel *decode = job->src_format == MXFP_FORMAT_BF16   ? decode_bf16_array
	                              : job->src_format == MXFP_FORMAT_F16  ? decode_f16_array
	                              : job->src_format == MXFP_FORMAT_TF32 ? decode_tf32_array
	                                                                    : decode_f32_array;

	convert_groups(job, job->rounding.no_negative_zero ? NULL : decode);
}
