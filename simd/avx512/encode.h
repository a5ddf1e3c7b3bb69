/* SPDX-License-Identifier: MIT */
/*
 * What the fast paths of conversion from binary32 share. Numbers that round to zero are a chunk's codes that are zero
 * less the zeros among its sources, which are counted only if there are such codes.
 */
#ifndef MXFP_AVX512_ENCODE_H
#define MXFP_AVX512_ENCODE_H

#include "avx512/convert_groups.h"

enum { CHUNK = 4096 }; /* numbers whose sources a second look, for zeros, finds in the first-level cache */

/* A group's sources. */
struct group {
	__m512i x[GROUP / LANES];
};

ALWAYS_INLINE struct group load_group(const uint32_t *x)
{
	struct group g;

#pragma GCC unroll 4
	for (size_t i = 0; i < GROUP / LANES; i++) {
		_mm_prefetch((const char *)(x + i * LANES) + PREFETCH_BYTES, _MM_HINT_T1);
		g.x[i] = _mm512_loadu_si512(x + i * LANES);
	}
	return g;
}

/* Zeros among whole groups. */
static NOINLINE size_t count_zeros(const uint32_t *x, size_t n)
{
	const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
	size_t zeros = 0;

	for (size_t i = 0; i < n; i += GROUP) {
		struct group g = load_group(x + i);
		__mmask16 nonzero = 0xFFFF;

#pragma GCC unroll 4
		for (int v = 0; v < GROUP / LANES; v++)
			nonzero = _mm512_mask_test_epi32_mask(nonzero, g.x[v], magnitude);
		if (nonzero == 0xFFFF)
			continue;
#pragma GCC unroll 4
		for (int v = 0; v < GROUP / LANES; v++)
			zeros += (unsigned)_mm_popcnt_u32(_mm512_testn_epi32_mask(g.x[v], magnitude));
	}
	return zeros;
}

/* Encodes the group at i by every rule. Its zeros are returned, for count_flushed() is not to count it again. */
static NOINLINE size_t encode_rare_group(const struct mxfp_convert_job *job, size_t i)
{
	struct mxfp_convert_job part = job_part(job, i, GROUP);

	TIER(convert)(&part);
	return count_zeros(part.src, GROUP);
}

/* Counts the job's numbers that became zero, given how many codes are zeros in groups that were not rare, and how many
   numbers in those that were. */
static inline void count_flushed(const struct mxfp_convert_job *job, size_t zeros)
{
	if (zeros != 0)
		job->counts->flushed += zeros - count_zeros(job->src, job->n);
}

#endif
