/* SPDX-License-Identifier: MIT */
/*
 * NVFP4 (ref/nvfp4.c), 16 blocks at a time: one vector has the largest magnitude of each block, so the arithmetic of
 * scales is done once for 16 blocks. Numbers are rounded to nearest even or stochastically; other modes are
 * for the generic kernel.
 */
#include "tier.h"
#include "body/slots.h"

#include "avx512/philox.h"

#include "avx512/nvfp4_code.h"

enum { SCALE_NAN = 0x7F, AHEAD = 8192, PAGE = 4096 };

/* While one group is encoded, the scales of the next are on their way: that is a long chain of operations. */
struct quantizer {
	const struct mxfp_quantize_job *job;
	struct tensor tensor;
	struct group groups[2];
	uint32_t random[GROUP + PHILOX_SLACK];
};

/* Numbers i to i + n - 1 of the source, n <= 16, and zeros. */
ALWAYS_INLINE __m512 load_numbers(enum mxfp_format from, const void *src, size_t i, size_t n)
{
	const __mmask16 lanes = (__mmask16)_bzhi_u32(UINT16_MAX, n < LANES ? (unsigned)n : LANES);

	if (from == MXFP_FORMAT_F32)
		return _mm512_maskz_loadu_ps(lanes, (const float *)src + i);
	__m256i half = _mm256_maskz_loadu_epi16(lanes, (const uint16_t *)src + i);
	if (from == MXFP_FORMAT_F16)
		return _mm512_cvtph_ps(half);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

ALWAYS_INLINE void copy_numbers(float *x, enum mxfp_format from, const void *src, size_t i, size_t n)
{
	for (size_t k = 0; k < GROUP; k += LANES)
		_mm512_storeu_ps(x + k, load_numbers(from, src, i + k, n > k ? n - k : 0));
}

/* n numbers of a row from column k on, as binary32: where they stand, or a copy. */
ALWAYS_INLINE const float *group_numbers(const struct mxfp_quantize_job *job, float *copy, size_t row, size_t k,
                                         size_t n)
{
	const size_t i = row * job->src_stride + k;

	switch (job->src_format) {
	case MXFP_FORMAT_F32:
		if (n == GROUP)
			return (const float *)job->src + i;
		copy_numbers(copy, MXFP_FORMAT_F32, job->src, i, n);
		break;
	case MXFP_FORMAT_BF16:
		copy_numbers(copy, MXFP_FORMAT_BF16, job->src, i, n);
		break;
	default:
		copy_numbers(copy, MXFP_FORMAT_F16, job->src, i, n);
	}
	return copy;
}

/* The halves, quarters, ... of two vectors that hold several blocks each side by side, side by side: what is to be
   combined with what, lane by lane. Lane 4 i + j of the last result belongs to block 4 i + j. */
ALWAYS_INLINE __m512i fold_halves(__m512i a, __m512i b, __m512i *other)
{
	*other = _mm512_shuffle_i64x2(a, b, 0x4E);
	return _mm512_mask_blend_epi32(0xFF00, a, b);
}

ALWAYS_INLINE __m512i fold_quarters(__m512i a, __m512i b, __m512i *other)
{
	const __m512i order = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);

	*other = _mm512_permutex2var_epi32(a, order, b);
	return _mm512_mask_blend_epi32(0xF0F0, a, b);
}

ALWAYS_INLINE __m512i fold_pairs(__m512i a, __m512i b, __m512i *other)
{
	*other = _mm512_castpd_si512(_mm512_shuffle_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), 0x55));
	return _mm512_mask_blend_epi32(0xCCCC, a, b);
}

ALWAYS_INLINE __m512i fold_lanes(__m512i a, __m512i b, __m512i *other)
{
	const __m512i order = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);

	*other = _mm512_permutex2var_epi32(a, order, b);
	return _mm512_mask_blend_epi32(0xAAAA, a, b);
}

typedef __m512i fold(__m512i a, __m512i b, __m512i *other);

/* v[i] and v[i + n] to v[i], by the larger or by the sum. */
ALWAYS_INLINE void fold_max(fold *fold_two, __m512i *v, int n)
{
#pragma GCC unroll 8
	for (int i = 0; i < n; i++) {
		__m512i other, one = fold_two(v[i], v[i + n], &other);
		v[i] = _mm512_max_epu32(one, other);
	}
}

ALWAYS_INLINE void fold_sum(fold *fold_two, __m512i *v, int n)
{
#pragma GCC unroll 8
	for (int i = 0; i < n; i++) {
		__m512i other, one = fold_two(v[i], v[i + n], &other);
		v[i] = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(one), _mm512_castsi512_ps(other)));
	}
}

/* The largest magnitude of each block; *least becomes 0 in a lane if there is a zero. */
ALWAYS_INLINE __m512i largest_magnitudes(const float *x, __m512i *least)
{
	__m512i v[GROUP_BLOCKS];

	*least = _mm512_set1_epi32(INT32_MAX);
#pragma GCC unroll 16
	for (int b = 0; b < GROUP_BLOCKS; b++) {
		v[b] = _mm512_and_si512(_mm512_loadu_si512(x + b * BLOCK), _mm512_set1_epi32(INT32_MAX));
		*least = _mm512_min_epu32(*least, v[b]);
	}
	fold_max(fold_halves, v, 8);
	fold_max(fold_quarters, v, 4);
	fold_max(fold_pairs, v, 2);
	fold_max(fold_lanes, v, 1);
	return v[0];
}

/* A group with a NaN or Inf to its copy, with the policy carried out: a block that is all NaN becomes zeros, which
   gives its codes. Returns the mask of such blocks. */
static NOINLINE __mmask16 remove_non_finite(const struct mxfp_quantize_job *job, float *copy, const float *x)
{
	const __m512i inf = _mm512_set1_epi32(F32_INF), magnitudes = _mm512_set1_epi32(INT32_MAX);
	struct mxfp_counts *counts = job->counts;
	unsigned all_nan = 0;

	for (int b = 0; b < GROUP_BLOCKS; b++) {
		__m512i bits = _mm512_loadu_si512(x + b * BLOCK), magnitude = _mm512_and_si512(bits, magnitudes);
		__mmask16 is_inf = _mm512_cmpeq_epi32_mask(magnitude, inf), bad = _mm512_cmpgt_epi32_mask(magnitude, inf);

		counts->inf += (unsigned)_mm_popcnt_u32(is_inf);
		counts->nan += (unsigned)_mm_popcnt_u32(bad);
		if (job->saturate_inf) /* the largest finite number has the bits before those of Inf */
			bits = _mm512_mask_sub_epi32(bits, is_inf, bits, _mm512_set1_epi32(1));
		else
			bad |= is_inf;
		all_nan |= (unsigned)(bad != 0) << b;
		_mm512_storeu_si512(copy + b * BLOCK, bad != 0 ? _mm512_setzero_si512() : bits);
	}
	return (__mmask16)all_nan;
}

/* Differences of two blocks at a scale of 4over6, squared, lane j of a block plus lane j + 8 in one rounding. */
ALWAYS_INLINE __m512i squares(const struct tensor *t, const float *x, const float *factor, const float *value, int b)
{
	__m512 d[2];

#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		const int block = b + 8 * i;
		__m512 number = absolute(_mm512_loadu_ps(x + block * BLOCK));
		__m512 a = _mm512_min_ps(_mm512_mul_ps(number, _mm512_set1_ps(factor[block])), _mm512_set1_ps(6));
		__m512i p = binade(a);
		/* n P / 2^23, the code's number times 2^-22: its product with `value`, 2^22 scales, is exact. */
		__m512 code = _mm512_sub_ps(_mm512_castsi512_ps(round_even(a, p)), _mm512_castsi512_ps(p));
		d[i] = _mm512_fnmadd_ps(code, _mm512_set1_ps(value[block]),
		                        _mm512_mul_ps(number, _mm512_set1_ps(t->of.encode)));
	}
	__m512 low = _mm512_shuffle_f32x4(d[0], d[1], 0x44), high = _mm512_shuffle_f32x4(d[0], d[1], 0xEE);
	return _mm512_castps_si512(_mm512_fmadd_ps(high, high, _mm512_mul_ps(low, low)));
}

/* The squared errors of all blocks, in the order of mxfp_ref_squared_error(). */
ALWAYS_INLINE __m512 squared_errors(const struct tensor *t, const float *x, const struct scales *s)
{
	float factor[GROUP_BLOCKS], value[GROUP_BLOCKS];
	__m512i v[WORD_BLOCKS];

	_mm512_storeu_ps(factor, s->factor);
	_mm512_storeu_ps(value, _mm512_mul_ps(s->value, _mm512_set1_ps(0x1p22f)));
#pragma GCC unroll 8
	for (int b = 0; b < WORD_BLOCKS; b++)
		v[b] = squares(t, x, factor, value, b);
	fold_sum(fold_quarters, v, 4);
	fold_sum(fold_pairs, v, 2);
	fold_sum(fold_lanes, v, 1);
	return _mm512_castsi512_ps(v[0]);
}

/* 4over6: the scale that puts the largest at 4 where its error is less. No error is NaN: the differences are Inf at
   most. */
static NOINLINE void choose_four(const struct tensor *t, const float *x, __m512 amax, struct scales *s)
{
	__m512 unrounded = _mm512_mul_ps(_mm512_set1_ps(1.5f), te_unrounded(t, amax));
	struct scales four = te_scales(t, unrounded);
	__mmask16 less = _mm512_cmp_ps_mask(squared_errors(t, x, &four), squared_errors(t, x, s), _CMP_LT_OQ);

	s->byte = _mm512_mask_mov_epi32(s->byte, less, four.byte);
	s->factor = _mm512_mask_mov_ps(s->factor, less, four.factor);
}

/* The codes of 8 blocks. */
ALWAYS_INLINE __m512i encode(enum quotient kind, struct group *g, int first)
{
	switch (g->rounding) {
	case QUICK:
		return encode_word(kind, QUICK, g, first);
	case CAREFUL:
		return encode_word(kind, CAREFUL, g, first);
	case STOCHASTIC:
		break;
	}
	return encode_word(kind, STOCHASTIC, g, first);
}

/* How the group is rounded: nothing saturates if its largest magnitudes do not. */
ALWAYS_INLINE enum rounding rounding_of(const struct quantizer *q, enum quotient kind, __m512 amax, __m512 factor)
{
	if (kind == NEAREST)
		return QUICK;
	if (q->job->rounding.mode == MXFP_ROUND_SR)
		return STOCHASTIC;
	__m512 largest = kind == QUOTIENT ? _mm512_div_ps(amax, factor) : _mm512_mul_ps(amax, factor);
	return _mm512_cmp_ps_mask(largest, _mm512_set1_ps(7), _CMP_NLT_UQ) == 0 ? QUICK : CAREFUL;
}

/* The mask of the blocks that n numbers are in. */
ALWAYS_INLINE __mmask16 blocks_present(size_t n)
{
	return (__mmask16)_bzhi_u32(UINT16_MAX, (unsigned)((n + BLOCK - 1) / BLOCK));
}

static inline uint64_t count_zeros(const float *x)
{
	uint64_t zeros = 0;

	for (int b = 0; b < GROUP_BLOCKS; b++)
		zeros += (unsigned)_mm_popcnt_u32(
			_mm512_testn_epi32_mask(_mm512_loadu_si512(x + b * BLOCK), _mm512_set1_epi32(INT32_MAX)));
	return zeros;
}

/* Codes past the n-th to the end of its block: 0 / 0 is not 0. */
static inline void clear_padding(uint8_t *codes, size_t n)
{
	size_t end = (n + BLOCK - 1) / BLOCK * BLOCK;

	if (n % 2 != 0)
		codes[n++ / 2] &= 0x0F;
	memset(codes + n / 2, 0, (end - n) / 2);
}

/* The scales of n numbers of a row from column k on, and what encoding them needs. */
ALWAYS_INLINE void prepare(struct quantizer *q, enum quotient kind, struct group *g, size_t row, size_t k)
{
	const struct mxfp_quantize_job *job = q->job;
	const size_t width = job->src_format == MXFP_FORMAT_F32 ? sizeof(float) : sizeof(uint16_t);
	const float *x = group_numbers(job, g->copy, row, k, g->n);
	__mmask16 all_nan = 0;
	__m512i least, amax = largest_magnitudes(x, &least);

	if (__builtin_expect(_mm512_cmpge_epu32_mask(amax, _mm512_set1_epi32(F32_INF)) != 0, 0)) {
		all_nan = remove_non_finite(job, g->copy, x);
		x = g->copy;
		amax = largest_magnitudes(x, &least);
	}
	struct scales s = block_scales(&q->tensor, _mm512_castsi512_ps(amax));
	if (job->recipe == MXFP_RECIPE_4OVER6)
		choose_four(&q->tensor, x, _mm512_castsi512_ps(amax), &s);
	g->x = x;
	g->ahead = (const char *)job->src + (row * job->src_stride + k) * width + AHEAD;
	g->ahead_step = BLOCK * width;
	g->first_index = job->first_index + row * job->cols + k;
	g->codes = job->codes + row * job->codes_stride + k / 2;
	g->rounding = rounding_of(q, kind, _mm512_castsi512_ps(amax), s.factor);
	_mm512_storeu_ps(g->factor, s.factor);
	if (g->rounding == QUICK && _mm512_testn_epi32_mask(least, least) != 0)
		g->flushed -= count_zeros(x);
	s.byte = _mm512_mask_mov_epi32(s.byte, all_nan, _mm512_set1_epi32(SCALE_NAN));
	_mm_mask_storeu_epi8(job->scales + row * job->scales_stride + k / BLOCK, blocks_present(g->n),
	                     _mm512_cvtepi32_epi8(s.byte));
}

/* Out of line, so that it takes no registers from those who round to nearest. */
static NOINLINE void draw(struct quantizer *q, struct group *g)
{
	const struct mxfp_rounding *r = &q->job->rounding;

	g->random = philox_array(q->random, r->seed, r->stream, g->first_index, g->n);
}

ALWAYS_INLINE void finish(struct quantizer *q, enum quotient kind, struct group *g)
{
	const unsigned present = blocks_present(g->n);

	if (__builtin_expect(kind != NEAREST && g->rounding == STOCHASTIC, 0))
		draw(q, g);
	/* One line of what comes a page later yet, so that its address is translated in time. */
	_mm_prefetch(g->ahead + PAGE, _MM_HINT_T1);
	for (int i = 0; i < 2; i++)
		_mm512_mask_storeu_epi64(g->codes + i * VECTOR_BYTES, (__mmask8)(present >> i * WORD_BLOCKS),
		                         encode(kind, g, i * WORD_BLOCKS));
	if (g->n % BLOCK != 0)
		clear_padding(g->codes, g->n);
}

ALWAYS_INLINE void quantize_rows(struct quantizer *q, enum quotient kind)
{
	const struct mxfp_quantize_job *job = q->job;
	struct group *next = &q->groups[0], *ready = NULL;

	for (size_t row = 0; row < job->rows; row++)
		for (size_t k = 0; k < job->cols; k += GROUP) {
			next->n = job->cols - k < GROUP ? job->cols - k : GROUP;
			prepare(q, kind, next, row, k);
			if (ready != NULL)
				finish(q, kind, ready);
			ready = next;
			next = &q->groups[next == &q->groups[0]];
		}
	if (ready != NULL)
		finish(q, kind, ready);
}

/* False if the generic kernel has to do it. */
static NOINLINE bool quantize(const struct mxfp_quantize_job *job)
{
	const bool keeps_sign = !job->rounding.no_negative_zero && job->recipe != MXFP_RECIPE_GGML;
	struct quantizer q;

	if (job->rounding.mode != MXFP_ROUND_RNE && job->rounding.mode != MXFP_ROUND_SR)
		return false;
	tensor_init(&q.tensor, job);
	q.job = job;
	for (int i = 0; i < 2; i++) {
		q.groups[i].zero_signs = _mm512_set1_epi32(keeps_sign ? -1 : 0);
		q.groups[i].saturated = q.groups[i].flushed = 0;
	}
	if (job->recipe == MXFP_RECIPE_GGML)
		quantize_rows(&q, NEAREST);
	else if (mxfp_nvfp4_divides(job->recipe))
		quantize_rows(&q, QUOTIENT);
	else
		quantize_rows(&q, PRODUCT);
	for (int i = 0; i < 2; i++) {
		job->counts->saturated += q.groups[i].saturated;
		job->counts->flushed += q.groups[i].flushed;
	}
	return true;
}

void TIER(quantize_nvfp4_fast)(const struct mxfp_quantize_job *job)
{
	struct fp_state state = fp_enter();
	bool done = quantize(job);

	fp_leave(state);
	if (!done)
		TIER(quantize_nvfp4)(job);
}
