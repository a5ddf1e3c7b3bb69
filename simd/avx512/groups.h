/* SPDX-License-Identifier: MIT */
/*
 * What mx_groups.c and nvfp4_groups.c share to quantize groups of 16 blocks, whose largest magnitudes are one vector:
 * loading numbers in any source format, replacing NaN and Inf, reducing 16 vectors to one, and the loop over groups.
 */
#ifndef MXFP_AVX512_GROUPS_H
#define MXFP_AVX512_GROUPS_H

#include "tier.h"

#include "body/slots.h"

enum { GROUP_BLOCKS = 16 };

/* Loads numbers i to i + 15 of the source as binary32; those outside `lanes` are zeros. */
ALWAYS_INLINE __m512 load_numbers(const void *src, enum mxfp_format format, size_t i, __mmask16 lanes)
{
	const uint16_t *halves = (const uint16_t *)src + i;

	switch (format) {
	case MXFP_FORMAT_BF16: {
		/* Moves word i to the upper half of dword i. */
		const __m512i upper = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5,
		                                       0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
		__m512i x = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(lanes, halves));

		return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAA, upper, x));
	}
	case MXFP_FORMAT_F16:
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, halves));
	default:
		return _mm512_maskz_loadu_ps(lanes, (const float *)src + i);
	}
}

/* A mask of numbers i to i + 15 that are below n. */
ALWAYS_INLINE __mmask16 lanes_left(size_t i, size_t n)
{
	return i >= n ? 0 : n - i >= LANES ? 0xFFFF : (__mmask16)((1U << (n - i)) - 1);
}

/* Counts the NaNs and Infs among 16 numbers and replaces Inf by FLT_MAX if the policy says so. Returns whether one is
   left, for which the block becomes NaN. */
ALWAYS_INLINE bool mend_numbers(const struct mxfp_quantize_job *job, __m512i *x)
{
	const __m512i inf = _mm512_set1_epi32((int)F32_INF);
	const __m512i magnitude = _mm512_and_si512(*x, _mm512_set1_epi32((int)~F32_SIGN));
	const __mmask16 nans = _mm512_cmpgt_epu32_mask(magnitude, inf), infs = _mm512_cmpeq_epi32_mask(magnitude, inf);

	job->counts->nan += (uint64_t)_mm_popcnt_u32(nans);
	job->counts->inf += (uint64_t)_mm_popcnt_u32(infs);
	if (job->saturate_inf) /* FLT_MAX is the pattern before Inf */
		*x = _mm512_mask_sub_epi32(*x, infs, *x, _mm512_set1_epi32(1));
	return (job->saturate_inf ? nans : nans | infs) != 0;
}

/* Reduction: lane j becomes the maximum (of integers) or the sum (of floats) of the lanes of v[j], in the halving tree
   j + 8, + 4, + 2, + 1. Each step merges pairs of vectors, so that every lane stays busy. */
enum combination { LARGEST, SUM };

ALWAYS_INLINE __m512i combine(__m512i a, __m512i b, enum combination operation)
{
	if (operation == LARGEST)
		return _mm512_max_epu32(a, b);
	return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}

/* Combines lanes of a, and of b, that are `distance` apart. The lower half of the result, or of each 128 bits if the
   distance is below 4, comes from a, the upper half from b. */
ALWAYS_INLINE __m512i merge(__m512i a, __m512i b, int distance, enum combination operation)
{
	const __m512 c = _mm512_castsi512_ps(a), d = _mm512_castsi512_ps(b);

	switch (distance) {
	case 8: /* a blend replaces one of two shuffles, which only port 5 executes */
		return combine(_mm512_mask_blend_epi64(0xF0, a, b), _mm512_shuffle_i64x2(a, b, 0x4E), operation);
	case 4:
		return combine(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xDD), operation);
	case 2:
		return combine(_mm512_mask_blend_epi64(0xAA, a, b), _mm512_alignr_epi8(b, a, 8), operation);
	default:
		return combine(_mm512_castps_si512(_mm512_shuffle_ps(c, d, 0x88)),
		               _mm512_castps_si512(_mm512_shuffle_ps(c, d, 0xDD)), operation);
	}
}

/* The last three steps of a reduction. The lower and upper half of halves[i] are left of v[i] and v[i + 4], and from
   i = 4 on, of v[i + 4] and v[i + 8]. */
ALWAYS_INLINE __m512i reduce_halves(const __m512i halves[GROUP_BLOCKS / 2], enum combination operation)
{
	__m512i quarter[4];

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		quarter[i] = merge(halves[i], halves[i + 4], 4, operation);
	return merge(merge(quarter[0], quarter[1], 2, operation), merge(quarter[2], quarter[3], 2, operation), 1,
	             operation);
}

ALWAYS_INLINE __m512i reduce_each(const __m512i v[GROUP_BLOCKS], enum combination operation)
{
	__m512i halves[GROUP_BLOCKS / 2];

#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		halves[i] = merge(v[i], v[i + 4], 8, operation);
		halves[i + 4] = merge(v[i + 8], v[i + 12], 8, operation);
	}
	return reduce_halves(halves, operation);
}

/* Counts zeros among n numbers, a multiple of 16. */
ALWAYS_INLINE uint64_t count_zeros(const float *x, size_t n)
{
	uint64_t zeros = 0;

	for (size_t i = 0; i < n; i += LANES)
		zeros += (uint64_t)_mm_popcnt_u32(
			_mm512_testn_epi32_mask(_mm512_loadu_si512(x + i), _mm512_set1_epi32((int)~F32_SIGN)));
	return zeros;
}

/* The two steps for a group, the numbers of a row from column k on. A context has two groups: `prepare` loads group
   `which` and chooses its scales, `finish` encodes it. */
typedef void group_prepare(void *context, unsigned which, size_t row, size_t k);
typedef void group_finish(void *context, unsigned which);

/* Runs both steps for all groups. A group is finished after the next one has been prepared: scales are a long chain of
   dependent instructions, whose latency the other group's work hides. */
ALWAYS_INLINE void run_groups(void *context, size_t rows, size_t cols, size_t group, group_prepare *prepare,
                              group_finish *finish)
{
	bool more = rows != 0 && cols != 0, ready = false;
	size_t row = 0, k = 0;

	/* One place for each step: they are long, and written out where they are called. */
	for (unsigned which = 0; more || ready; which ^= 1) {
		if (more)
			prepare(context, which, row, k);
		if (ready)
			finish(context, which ^ 1);
		ready = more;
		k += group;
		if (k >= cols) {
			k = 0;
			row++;
		}
		more = row < rows && ready;
	}
}

#endif
