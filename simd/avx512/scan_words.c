/* SPDX-License-Identifier: MIT */
/*
 * Finds the largest finite magnitude and the first non-finite number of f32, bf16 and f16 (ref/scan.c) as fast as
 * memory can be read. Magnitudes compare like their bits, so codes are compared as they are and only the largest is
 * decoded.
 */
#include "tier.h"
#include "body/slots.h"

/* A chunk is 4 KiB, a page. The hardware prefetches within a page only. */
enum { CHUNK_VECTORS = 64, STREAMS = 4, AHEAD = 4096 };

/* n codes of 4 bytes (wide) or 2; `wide` is a constant where the functions below are inlined. */
struct source {
	bool wide;
	const uint8_t *at;
	size_t n;
};

/* Codes in a vector. */
ALWAYS_INLINE size_t lanes_of(const struct source *s)
{
	return s->wide ? LANES : 2 * LANES;
}

/* The magnitudes of vector v of the source; lanes past its end are 0. */
ALWAYS_INLINE __m512i magnitudes(const struct source *s, size_t v)
{
	const size_t first = v * lanes_of(s), n = s->n - first;
	const uint8_t *at = s->at + v * VECTOR_BYTES;
	__m512i codes;

	if (n >= lanes_of(s))
		codes = _mm512_loadu_si512(at);
	else if (s->wide)
		codes = _mm512_maskz_loadu_epi32((__mmask16)_bzhi_u32(UINT32_MAX, (unsigned)n), at);
	else
		codes = _mm512_maskz_loadu_epi16(_bzhi_u32(UINT32_MAX, (unsigned)n), at);
	return _mm512_and_si512(codes, s->wide ? _mm512_set1_epi32(INT32_MAX) : _mm512_set1_epi16(INT16_MAX));
}

ALWAYS_INLINE __m512i larger(bool wide, __m512i a, __m512i b)
{
	return wide ? _mm512_max_epu32(a, b) : _mm512_max_epu16(a, b);
}

/* A mask of the lanes that are at least `from`. */
ALWAYS_INLINE uint32_t lanes_from(bool wide, __m512i magnitude, __m512i from)
{
	return wide ? _mm512_cmpge_epu32_mask(magnitude, from) : _mm512_cmpge_epu16_mask(magnitude, from);
}

/* The lane-wise largest of a chunk. */
ALWAYS_INLINE __m512i largest_of(const struct source *chunk)
{
	const size_t vectors = (chunk->n + lanes_of(chunk) - 1) / lanes_of(chunk);
	__m512i largest[STREAMS] = {0};
	size_t v = 0;

	for (; (v + STREAMS) * lanes_of(chunk) <= chunk->n; v += STREAMS)
#pragma GCC unroll 4
		for (size_t k = 0; k < STREAMS; k++) {
			/* A prefetch past the end is harmless. */
			_mm_prefetch(chunk->at + (v + k) * VECTOR_BYTES + AHEAD, _MM_HINT_T0);
			largest[k] = larger(chunk->wide, largest[k], magnitudes(chunk, v + k));
		}
	for (; v < vectors; v++)
		largest[0] = larger(chunk->wide, largest[0], magnitudes(chunk, v));
	return larger(chunk->wide, larger(chunk->wide, largest[0], largest[1]),
	              larger(chunk->wide, largest[2], largest[3]));
}

/* The same for a chunk with non-finite numbers, which are ignored; *first becomes the index of the first. */
ALWAYS_INLINE __m512i largest_finite(const struct source *chunk, __m512i from, size_t *first)
{
	__m512i largest = _mm512_setzero_si512();

	*first = SIZE_MAX;
	for (size_t v = 0; v * lanes_of(chunk) < chunk->n; v++) {
		__m512i magnitude = magnitudes(chunk, v);
		uint32_t above = lanes_from(chunk->wide, magnitude, from);

		if (above != 0 && *first == SIZE_MAX)
			*first = v * lanes_of(chunk) + (size_t)__builtin_ctz(above);
		magnitude = chunk->wide ? _mm512_mask_mov_epi32(magnitude, (__mmask16)above, _mm512_setzero_si512())
		                        : _mm512_mask_mov_epi16(magnitude, above, _mm512_setzero_si512());
		largest = larger(chunk->wide, largest, magnitude);
	}
	return largest;
}

/* The largest code below `from`; *first becomes the index of the first other code, or SIZE_MAX. */
ALWAYS_INLINE uint32_t scan(bool wide, const struct mxfp_scan_job *job, uint32_t from, size_t *first)
{
	const __m512i limit = wide ? _mm512_set1_epi32((int32_t)from) : _mm512_set1_epi16((int16_t)from);
	__m512i amax = _mm512_setzero_si512();
	struct source chunk = {wide, job->src, 0};
	uint16_t lanes[2 * LANES];
	uint32_t largest = 0;

	*first = SIZE_MAX;
	for (size_t i = 0; i < job->n; i += chunk.n, chunk.at += CHUNK_VECTORS * VECTOR_BYTES) {
		size_t place, rest = job->n - i;
		chunk.n = rest < CHUNK_VECTORS * lanes_of(&chunk) ? rest : CHUNK_VECTORS * lanes_of(&chunk);
		__m512i chunk_amax = largest_of(&chunk);
		if (__builtin_expect(lanes_from(wide, chunk_amax, limit) != 0, 0)) {
			chunk_amax = largest_finite(&chunk, limit, &place);
			*first = *first == SIZE_MAX ? i + place : *first;
		}
		amax = larger(wide, amax, chunk_amax);
	}
	if (wide)
		return _mm512_reduce_max_epu32(amax);
	_mm512_storeu_si512(lanes, amax);
	for (int k = 0; k < 2 * LANES; k++)
		largest = lanes[k] > largest ? lanes[k] : largest;
	return largest;
}

static NOINLINE void scan_words(struct mxfp_scan_job *job)
{
	uint32_t from = job->non_finite_from, amax;
	float limit;
	size_t first;

	switch (job->src_format) {
	case MXFP_FORMAT_F32:
		amax = scan(true, job, from, &first);
		break;
	case MXFP_FORMAT_BF16:
		amax = scan(false, job, (from + UINT16_MAX) >> 16, &first) << 16;
		break;
	default:
		memcpy(&limit, &from, sizeof limit);
		limit = _cvtsh_ss((uint16_t)scan(false, job, _cvtss_sh(limit, _MM_FROUND_TO_POS_INF), &first));
		memcpy(&amax, &limit, sizeof amax);
	}
	if (amax > job->amax)
		job->amax = amax;
	if (first != SIZE_MAX && job->first_index + first < job->first_non_finite)
		job->first_non_finite = job->first_index + first;
}

void TIER(scan_words)(struct mxfp_scan_job *job)
{
	struct fp_state state = fp_enter();

	scan_words(job);
	fp_leave(state);
}
