/* SPDX-License-Identifier: MIT */
/*
 * binary32 to bf16, tf32 and f16. The first two are its top bits, so rounding is an addition to the bits below, from
 * which the code takes a carry or not; what is added depends on one bit of the number: the code's lowest to nearest
 * even, the sign toward an infinity. f16 has an instruction, which follows the control register.
 */
#include "avx512/encode.h"

enum {
	BF16_DROPPED = 16, /* low bits of a binary32 that are not in the code */
	TF32_DROPPED = 13,
	F16_MAX = 0x477FE000 /* 65504, as a binary32 */
};

/* What is added if a bit of the number is clear, or set. For bf16, in 16-bit lanes: the bit of the upper half, and what
   the lower half must be above to carry.
   Magnitudes above `limit` are special or may become Inf. */
struct carry {
	__m512i bit, if_clear, if_set, limit;
};

static struct carry carry_of(unsigned dropped_bits, enum mxfp_round mode)
{
	uint32_t half = UINT32_C(1) << (dropped_bits - 1), all = 2 * half - 1;
	uint32_t bit = 2 * half, if_clear = 0, if_set = 0;

	switch (mode) {
	case MXFP_ROUND_RNE:
		if_clear = half - 1;
		if_set = half;
		break;
	case MXFP_ROUND_RNA:
		if_clear = if_set = half;
		break;
	case MXFP_ROUND_RHZ:
		if_clear = if_set = half - 1;
		break;
	case MXFP_ROUND_RTP:
		bit = F32_SIGN;
		if_clear = all;
		break;
	case MXFP_ROUND_RTN:
		bit = F32_SIGN;
		if_set = all;
		break;
	case MXFP_ROUND_RTZ:
	case MXFP_ROUND_SR:
		break;
	}
	if (dropped_bits == BF16_DROPPED)
		return (struct carry){
			.bit = _mm512_set1_epi16((short)(bit >> 16)),
			.if_clear = _mm512_set1_epi16((short)(all - if_clear)),
			.if_set = _mm512_set1_epi16((short)(all - if_set)),
			.limit = _mm512_set1_epi16((F32_INF >> 16) - 2),
		};
	return (struct carry){
		.bit = _mm512_set1_epi32((int)bit),
		.if_clear = _mm512_set1_epi32((int)if_clear),
		.if_set = _mm512_set1_epi32((int)if_set),
		.limit = _mm512_set1_epi32((int)(F32_INF - 1 - all)),
	};
}

ALWAYS_INLINE __m512i round_bits(const struct carry *c, __m512i x)
{
	__mmask16 set = _mm512_test_epi32_mask(x, c->bit);

	return _mm512_mask_add_epi32(_mm512_add_epi32(x, c->if_clear), set, x, c->if_set);
}

ALWAYS_INLINE bool is_within(const struct group *g, __m512i limit)
{
	const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
	__m512i largest = _mm512_and_si512(g->x[0], magnitude);

#pragma GCC unroll 4
	for (int v = 1; v < GROUP / LANES; v++)
		largest = _mm512_max_epu32(largest, _mm512_and_si512(g->x[v], magnitude));
	return _mm512_cmpgt_epu32_mask(largest, limit) == 0;
}

/* Encodes a group and adds the number of codes that are zeros. False if the group is the general kernel's. */
typedef bool group_encoder(const struct carry *c, const struct group *g, void *to, size_t *zeros);

ALWAYS_INLINE size_t zeros_of_words(__m512i words)
{
	return (size_t)_mm_popcnt_u32(_mm512_testn_epi16_mask(words, _mm512_set1_epi16(INT16_MAX)));
}

ALWAYS_INLINE bool encode_bf16(const struct carry *c, const struct group *g, void *to, size_t *zeros)
{
	const __m512i low = _mm512_set1_epi32(0xFFFF), magnitude = _mm512_set1_epi16(INT16_MAX);
	/* Lane i of the low half takes lane 2i, of the high half lane 2i + 1. */
	const __m512i in_order = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
	                                          22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
	__m512i words[2], largest = _mm512_setzero_si512();

#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		__m512i a = g->x[2 * i], b = g->x[2 * i + 1];
		__m512i upper = _mm512_ternarylogic_epi64(low, _mm512_srli_epi32(a, 16), b, 0xCA);
		__m512i lower = _mm512_ternarylogic_epi64(low, a, _mm512_slli_epi32(b, 16), 0xCA);
		__mmask32 set = _mm512_test_epi16_mask(upper, c->bit);
		__mmask32 up = _mm512_cmpgt_epu16_mask(lower, _mm512_mask_mov_epi16(c->if_clear, set, c->if_set));

		largest = _mm512_max_epu16(largest, _mm512_and_si512(upper, magnitude));
		words[i] = _mm512_permutexvar_epi16(in_order, _mm512_mask_sub_epi16(upper, up, upper, _mm512_set1_epi16(-1)));
	}
	if (__builtin_expect(_mm512_cmpgt_epu16_mask(largest, c->limit) != 0, 0))
		return false;
#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		_mm512_storeu_si512((uint16_t *)to + i * 2 * LANES, words[i]);
		*zeros += zeros_of_words(words[i]);
	}
	return true;
}

ALWAYS_INLINE bool encode_f16(const struct carry *c, const struct group *g, void *to, size_t *zeros)
{
	if (__builtin_expect(!is_within(g, c->limit), 0))
		return false;
#pragma GCC unroll 2
	for (int v = 0; v < GROUP / LANES; v += 2) {
		__m256i first = _mm512_cvtps_ph((__m512)g->x[v], _MM_FROUND_CUR_DIRECTION);
		__m256i second = _mm512_cvtps_ph((__m512)g->x[v + 1], _MM_FROUND_CUR_DIRECTION);
		__m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);

		_mm512_storeu_si512((uint16_t *)to + v * LANES, words);
		*zeros += zeros_of_words(words);
	}
	return true;
}

ALWAYS_INLINE bool encode_tf32(const struct carry *c, const struct group *g, void *to, size_t *zeros)
{
	const __m512i kept = _mm512_set1_epi32(-(1 << TF32_DROPPED));

	if (__builtin_expect(!is_within(g, c->limit), 0))
		return false;
#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++) {
		__m512i words = _mm512_and_si512(round_bits(c, g->x[v]), kept);

		_mm512_storeu_si512((uint32_t *)to + v * LANES, words);
		*zeros += (size_t)_mm_popcnt_u32(_mm512_testn_epi32_mask(words, _mm512_set1_epi32(INT32_MAX)));
	}
	return true;
}

ALWAYS_INLINE void encode_array(const struct mxfp_convert_job *job, group_encoder *encode, struct carry c, size_t bytes)
{

	for (size_t i = 0; i < job->n; i += CHUNK) {
		struct mxfp_convert_job part = job_part(job, i, job->n - i < CHUNK ? job->n - i : CHUNK);
		size_t zeros = 0;

		for (size_t j = 0; j < part.n; j += GROUP) {
			struct group g = load_group((const uint32_t *)part.src + j);
			uint8_t *to = (uint8_t *)part.dst + j * bytes;

#pragma GCC unroll 4
			for (size_t line = 0; line < GROUP * bytes; line += 64)
				_mm_prefetch((const char *)to + line + PREFETCH_DST_BYTES, _MM_HINT_T0);
			if (!encode(&c, &g, to, &zeros))
				zeros += encode_rare_group(&part, j);
		}
		count_flushed(&part, zeros);
	}
}

static NOINLINE void encode_bf16_array(const struct mxfp_convert_job *job)
{
	encode_array(job, encode_bf16, carry_of(BF16_DROPPED, job->rounding.mode), sizeof(uint16_t));
}

static NOINLINE void encode_tf32_array(const struct mxfp_convert_job *job)
{
	encode_array(job, encode_tf32, carry_of(TF32_DROPPED, job->rounding.mode), sizeof(uint32_t));
}

static NOINLINE void encode_f16_array(const struct mxfp_convert_job *job)
{
	encode_array(job, encode_f16, (struct carry){.limit = _mm512_set1_epi32(F16_MAX)}, sizeof(uint16_t));
}

void TIER(encode_wide)(const struct mxfp_convert_job *job)
{
	enum mxfp_round mode = job->rounding.mode;

	if (job->rounding.no_negative_zero || mode == MXFP_ROUND_SR)
		convert_groups(job, NULL);
	else if (job->dst_format == MXFP_FORMAT_BF16)
		convert_groups(job, encode_bf16_array);
	else if (job->dst_format == MXFP_FORMAT_TF32)
		convert_groups(job, encode_tf32_array);
	else
		convert_groups(job, has_direction(mode) ? encode_f16_array : NULL);
}
