/* SPDX-License-Identifier: MIT */
/* Stores that bypass the caches, one cache line at a time, or ordinary stores where the tier has none. They are for
   large outputs: an ordinary store first reads the line that it overwrites. */
#ifndef MXFP_BODY_STREAM_H
#define MXFP_BODY_STREAM_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum { STREAM_LINE_BYTES = 64 };

/* Stores STREAM_LINE_BYTES bytes to dst, which is aligned to as many. */
static inline void stream_line(void *dst, const void *line)
{
#if defined(__AVX512F__)
	_mm512_stream_si512(dst, _mm512_loadu_si512(line));
#elif defined(__AVX__)
	__m256i *to = dst;
	const __m256i *from = line;
	for (int i = 0; i < 2; i++)
		_mm256_stream_si256(to + i, _mm256_loadu_si256(from + i));
#elif defined(__SSE2__)
	__m128i *to = dst;
	const __m128i *from = line;
	for (int i = 0; i < 4; i++)
		_mm_stream_si128(to + i, _mm_loadu_si128(from + i));
#else
	memcpy(dst, line, STREAM_LINE_BYTES);
#endif
}

/* Makes these stores visible to other threads before any later store. */
static inline void stream_end(void)
{
#ifdef __SSE2__
	_mm_sfence();
#endif
}

#endif
