/* SPDX-License-Identifier: MIT */
/*
 * Prunes rows (ref/sparse.c) in groups that fill a vector, all but those of 12: a lane is an element. It is compared with
 * each other one of its group, which a permutation brings to its lane; the comparison of "fewer than n precede it" then
 * gives the bits of the mask in their order.
 */
#include "tier.h"

#include "body/slots.h"

enum { GROUP_MAX = 16 };

/* For d = 1 .. m - 1, the lane of the element d places further on in the group, in a circle; and -1 if that comes before
   the lane's own, which it precedes if the two are equal. */
struct turns {
	__m512i lane[GROUP_MAX], tie[GROUP_MAX];
};

/* width: bytes of an element, a constant here and below, like m. */
ALWAYS_INLINE __m512i set1(int x, size_t width)
{
	return width == sizeof(uint16_t) ? _mm512_set1_epi16((short)x) : _mm512_set1_epi32(x);
}

ALWAYS_INLINE __m512i add(__m512i a, __m512i b, size_t width)
{
	return width == sizeof(uint16_t) ? _mm512_add_epi16(a, b) : _mm512_add_epi32(a, b);
}

ALWAYS_INLINE __mmask32 greater(__m512i a, __m512i b, size_t width)
{
	return width == sizeof(uint16_t) ? _mm512_cmpgt_epi16_mask(a, b) : _mm512_cmpgt_epi32_mask(a, b);
}

ALWAYS_INLINE void turns_begin(struct turns *t, size_t width, int m)
{
	uint16_t halves[2 * LANES];
	__m512i number = (__m512i)lane_numbers();

	for (uint16_t i = 0; i < 2 * LANES; i++)
		halves[i] = i;
	if (width == sizeof(uint16_t))
		number = _mm512_loadu_si512(halves);
	const __m512i place = _mm512_and_si512(number, set1(m - 1, width)), first = _mm512_xor_si512(number, place);
	for (int d = 1; d < m; d++) {
		const __m512i other = _mm512_and_si512(add(place, set1(d, width), width), set1(m - 1, width));
		const __mmask32 before = greater(place, other, width);

		t->lane[d] = _mm512_or_si512(first, other);
		t->tie[d] = width == sizeof(uint16_t) ? _mm512_maskz_set1_epi16(before, -1)
		                                      : _mm512_maskz_set1_epi32((__mmask16)before, -1);
	}
}

/* The mask of the elements of a vector of groups. Magnitudes have no sign, so that 1 may be subtracted. */
ALWAYS_INLINE uint32_t kept(__m512i x, const struct turns *t, int n, size_t width, int m)
{
	const __m512i one = set1(1, width);
	const __m512i magnitude = _mm512_and_si512(x, width == sizeof(uint16_t) ? set1(0x7FFF, width) : set1(INT32_MAX, width));
	__m512i before = _mm512_setzero_si512();

#pragma GCC unroll 16
	for (int d = 1; d < m; d++) {
		const __m512i other = width == sizeof(uint16_t) ? _mm512_permutexvar_epi16(t->lane[d], magnitude)
		                                                : _mm512_permutexvar_epi32(t->lane[d], magnitude);
		const __mmask32 precedes = greater(other, add(magnitude, t->tie[d], width), width);

		before = width == sizeof(uint16_t) ? _mm512_mask_add_epi16(before, precedes, before, one)
		                                   : _mm512_mask_add_epi32(before, (__mmask16)precedes, before, one);
	}
	return greater(set1(n, width), before, width);
}

/* The elements that are kept, and zeros for the others. */
ALWAYS_INLINE __m512i pruned_of(__m512i x, uint32_t mask, size_t width)
{
	return width == sizeof(uint16_t) ? _mm512_maskz_mov_epi16(mask, x) : _mm512_maskz_mov_epi32((__mmask16)mask, x);
}

/* The bytes of the first n elements. */
ALWAYS_INLINE __mmask64 bytes_of(size_t n, size_t width)
{
	return _bzhi_u64(UINT64_MAX, (unsigned)(n * width));
}

ALWAYS_INLINE void prune_row(const struct turns *t, uint8_t *masks, uint8_t *pruned, const uint8_t *src, size_t cols, int n,
                             size_t width, int m)
{
	const size_t step = VECTOR_BYTES / width;

	for (; cols >= step; cols -= step, src += VECTOR_BYTES, masks += step / 8) {
		const __m512i x = _mm512_loadu_si512(src);
		const uint32_t mask = kept(x, t, n, width, m);

		memcpy(masks, &mask, step / 8);
		if (pruned != NULL) {
			_mm512_storeu_si512(pruned, pruned_of(x, mask, width));
			pruned += VECTOR_BYTES;
		}
	}
	if (cols == 0)
		return;
	const size_t bits = (cols + (size_t)m - 1) / (size_t)m * (size_t)m;
	const __m512i x = _mm512_maskz_loadu_epi8(bytes_of(cols, width), src);
	const uint32_t mask = kept(x, t, n, width, m) & _bzhi_u32(UINT32_MAX, (unsigned)bits);

	memcpy(masks, &mask, (bits + 7) / 8);
	if (pruned != NULL)
		_mm512_mask_storeu_epi8(pruned, bytes_of(cols, width), pruned_of(x, mask, width));
}

ALWAYS_INLINE void prune(const struct mxfp_prune_job *job, size_t width, int m)
{
	struct turns t;

	turns_begin(&t, width, m);
	for (size_t row = 0; row < job->rows; row++)
		prune_row(&t, job->masks + row * job->masks_stride,
		          job->pruned != NULL ? job->pruned + row * job->pruned_stride : NULL, job->src + row * job->src_stride,
		          job->cols, (int)job->sparsity.n, width, m);
}

/* Calls prune() with the bytes of an element as a constant. */
ALWAYS_INLINE void prune_groups(const struct mxfp_prune_job *job, int m)
{
	if (mxfp_format_get_info(job->format)->storage_bytes == sizeof(uint16_t))
		prune(job, sizeof(uint16_t), m);
	else
		prune(job, sizeof(uint32_t), m);
}

/* And with the length of a group as one. */
void TIER(prune_vectors)(const struct mxfp_prune_job *job)
{
	switch (job->sparsity.m) {
	case 2:
		prune_groups(job, 2);
		break;
	case 4:
		prune_groups(job, 4);
		break;
	case 8:
		prune_groups(job, 8);
		break;
	case 16:
		prune_groups(job, 16);
		break;
	default:
		TIER(prune)(job);
	}
}
