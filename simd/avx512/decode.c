/* SPDX-License-Identifier: MIT */
/*
 * Decodes codes of at most 8 bits to binary32, 64 at a time. Every such number fits in the top 16 bits of a binary32,
 * so two tables of 256 bytes describe a format: one has the top byte of each code's number, the other the byte below.
 * The general kernel fills them at each call.
 */
#include "avx512/convert_groups.h"

enum { CODES = 256 };

struct byte_table {
	__m512i quarter[4];
};

struct tables {
	struct byte_table top, next;
	__m512i magnitudes, max_code; /* per byte: codes past max_code are NaN or Inf; of FNUZ, with their sign, negative or NaN */
	__m512i spread;               /* permutes codes so that the interleaving after the tables restores their order */
};

static void tables_init(struct tables *t, const struct mxfp_format_info *f)
{
	uint8_t codes[CODES], top[CODES], next[CODES], spread[GROUP];
	uint32_t x[CODES];
	struct mxfp_counts unused = {0};
	const struct mxfp_convert_job job = {
		.dst_format = MXFP_FORMAT_F32, .src_format = f->format, .dst = x, .src = codes, .n = CODES, .counts = &unused};
	const bool has_sign = (f->kind == MXFP_KIND_FLOAT || f->kind == MXFP_KIND_UFLOAT) && f->special != MXFP_SPECIAL_FNUZ;

	for (unsigned i = 0; i < CODES; i++)
		codes[i] = (uint8_t)i;
	TIER(convert)(&job);
	for (unsigned i = 0; i < CODES; i++) {
		top[i] = (uint8_t)(x[i] >> 24);
		next[i] = (uint8_t)(x[i] >> 16);
	}
	memcpy(&t->top, top, sizeof top);
	memcpy(&t->next, next, sizeof next);
	/* Byte b of 128-bit part p ends up in vector 2 * (b / 8) + b % 2, as number b % 8 / 2 of part p. */
	for (unsigned i = 0; i < GROUP; i++)
		spread[i] = (uint8_t)(i % 16 / 8 * 2 * LANES + i % 2 * LANES + i / 16 * 4 + i % 8 / 2);
	memcpy(&t->spread, spread, sizeof spread);
	t->magnitudes = _mm512_set1_epi8((char)(has_sign ? (1 << (f->bits - 1)) - 1 : 0xFF));
	t->max_code = _mm512_set1_epi8((char)(f->special == MXFP_SPECIAL_NONE ? 0xFF : f->max_code));
}

ALWAYS_INLINE __m512i look_up(const struct byte_table *t, __m512i codes, __mmask64 high)
{
	__m512i low_half = _mm512_permutex2var_epi8(t->quarter[0], codes, t->quarter[1]);

	return _mm512_mask_blend_epi8(high, low_half, _mm512_permutex2var_epi8(t->quarter[2], codes, t->quarter[3]));
}

static NOINLINE void count_special(const struct mxfp_format_info *f, __m512i magnitudes, struct mxfp_counts *counts)
{
	const __m512i max_code = _mm512_set1_epi8((char)f->max_code);
	__mmask64 special = _mm512_cmpgt_epu8_mask(magnitudes, max_code), inf = 0;

	if (f->special == MXFP_SPECIAL_FNUZ)
		special = _mm512_cmpeq_epi8_mask(magnitudes, _mm512_set1_epi8((char)(f->max_code + 1)));
	if (f->special == MXFP_SPECIAL_IEEE)
		inf = _mm512_cmpeq_epi8_mask(magnitudes, _mm512_set1_epi8((char)(f->max_code + 1)));
	counts->nan += (uint64_t)_mm_popcnt_u64(special & ~inf);
	counts->inf += (uint64_t)_mm_popcnt_u64(inf);
}

static NOINLINE void decode_groups(const struct mxfp_convert_job *job)
{
	const __m512i high_half = _mm512_set1_epi32((int)0xFFFF0000);
	const struct mxfp_format_info *f = mxfp_format_get_info(job->src_format);
	const uint8_t *from = job->src;
	uint32_t *to = job->dst;
	const bool past_caches = job->past_caches;
	struct tables t;

	tables_init(&t, f);
	for (size_t i = 0; i < job->n; i += GROUP) {
		__m512i codes = _mm512_loadu_si512(from + i);
		__m512i magnitudes = _mm512_and_si512(codes, t.magnitudes);

		_mm_prefetch((const char *)from + i + PREFETCH_BYTES, _MM_HINT_T0);
		if (__builtin_expect(_mm512_cmpgt_epu8_mask(magnitudes, t.max_code) != 0, 0))
			count_special(f, magnitudes, job->counts);
		codes = _mm512_permutexvar_epi8(t.spread, codes);
		__mmask64 high = _mm512_movepi8_mask(codes);
		__m512i top = look_up(&t.top, codes, high), next = look_up(&t.next, codes, high);
		__m512i low = _mm512_unpacklo_epi8(next, top), last = _mm512_unpackhi_epi8(next, top);

		store_numbers(to + i, _mm512_slli_epi32(low, 16), past_caches);
		store_numbers(to + i + LANES, _mm512_and_si512(low, high_half), past_caches);
		store_numbers(to + i + 2 * LANES, _mm512_slli_epi32(last, 16), past_caches);
		store_numbers(to + i + 3 * LANES, _mm512_and_si512(last, high_half), past_caches);
	}
}

void TIER(decode)(const struct mxfp_convert_job *job)
{
	convert_groups(job, job->rounding.no_negative_zero || job->n < CODES ? NULL : decode_groups);
}

/*
 * Decodes bf16, f16, tf32 and f32 to binary32, 64 at a time. Groups with a NaN or an Inf go to the general kernel.
 */

/* Decodes a group. Returns false if the general kernel must decode it. */
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

#define DECODE_ARRAY(name, decode, bytes) \
	static NOINLINE void name(const struct mxfp_convert_job *job) \
	{ \
		decode_array(job, decode, bytes); \
	}
DECODE_ARRAY(decode_bf16_array, decode_bf16, sizeof(uint16_t))
DECODE_ARRAY(decode_f16_array, decode_f16, sizeof(uint16_t))
DECODE_ARRAY(decode_tf32_array, decode_tf32, sizeof(uint32_t))
DECODE_ARRAY(decode_f32_array, decode_f32, sizeof(uint32_t))
#undef DECODE_ARRAY

void TIER(decode_wide)(const struct mxfp_convert_job *job)
{
	mxfp_convert_kernel *decode = job->src_format == MXFP_FORMAT_BF16   ? decode_bf16_array
	                              : job->src_format == MXFP_FORMAT_F16  ? decode_f16_array
	                              : job->src_format == MXFP_FORMAT_TF32 ? decode_tf32_array
	                                                                    : decode_f32_array;

	convert_groups(job, job->rounding.no_negative_zero ? NULL : decode);
}
