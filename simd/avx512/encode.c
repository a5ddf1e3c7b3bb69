/* SPDX-License-Identifier: MIT */
/*
 * Fast paths of conversion from binary32. Flushed numbers are counted per chunk, as its zero codes minus the zeros
 * among its sources; the sources are searched only if there are zero codes.
 */
#include "avx512/convert_groups.h"

enum { CHUNK = 4096 }; /* numbers whose sources are still in the L1 cache when they are searched for zeros */

/* The sources of a group. */
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

/* Counts zeros among n numbers, a multiple of GROUP. */
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

/* Encodes the group at i by the general kernel, which counts it. Returns its zeros, which make up for those that
   count_flushed() subtracts. */
static NOINLINE size_t encode_rare_group(const struct mxfp_convert_job *job, size_t i)
{
	struct mxfp_convert_job part = job_part(job, i, GROUP);

	TIER(convert)(&part);
	return count_zeros(part.src, GROUP);
}

/* Counts flushed numbers. zeros: the zero codes of groups encoded here plus what encode_rare_group() returned. */
static inline void count_flushed(const struct mxfp_convert_job *job, size_t zeros)
{
	if (zeros != 0)
		job->counts->flushed += zeros - count_zeros(job->src, job->n);
}

/*
 * Encodes binary32 to the formats of at most 8 bits.
 *
 * Float formats: P is the power of two at the top of |x|, but at least the smallest normal number of the format, with
 * the sign of x, and M the format's significand bits. r = x * 2^-(23-M) + P, one fused multiply-add, has M + 1 bits of
 * x at the bottom of its significand. It rounds once, in the mode of the control register, at the format's quantum,
 * both normal and subnormal numbers. The code is (exponent field of r - that of the smallest normal number) * 2^M + low
 * bits of r, as if codes continued past the largest. One vpdpwssd forms it from the high and low halves of r.
 *
 * e8m0: an addition to the bits rounds, and the exponent field is the code.
 */

enum { HIGH_BIT = 7 }; /* of the lowest exponent bit in the high half of a binary32 */

/* A float format and the options of a call. Codes are raised by `excess`, so that those past the largest have one more
   bit. */
struct encoder {
	__m512 min_normal, scale;      /* scale: 2^-(23-M) */
	__m512i digits, bias;          /* of vpdpwssd: weights of the halves, and the value to which it adds */
	__m512i low_codes, high_codes; /* where vpmultishiftqb finds codes and signs in 16-bit lanes */
	__m512i excess;
	__m512i past_bits;             /* of 16-bit lanes: one is set only in codes past the largest */
	__m512i max_lane, past_lane;   /* 16-bit lanes of the largest code, and of the code that replaces those past it */
	__m512i sign, magnitudes;      /* of bytes */
	bool overflows, one_rule;      /* one_rule: all codes past the largest become past_lane, with their sign */
};

/* Rounding of exponents: `up` is added to numbers from `from` on; those below have code 0, those past `last` are
   special. */
struct exponent_encoder {
	__m512i up, from, last;
};

static void encoder_init(struct encoder *e, const struct mxfp_format_info *f, const struct mxfp_rounding *r)
{
	unsigned m = f->significand_bits, up = HIGH_BIT - m;
	int emin = 1 - f->bias;
	uint32_t first = (uint32_t)(emin + F32_BIAS) << m, magnitudes = (UINT32_C(1) << (f->bits - 1)) - 1;
	uint32_t excess = magnitudes - f->max_code;
	/* The bits of a 64-bit lane at which the codes and signs of its four 16-bit lanes begin, last first. A byte of
	   signs begins where bit 15 of the lane becomes the format's sign bit. */
	uint32_t codes = 0x30201000 + up * 0x01010101, signs = 0x38281808 + (8 - f->bits) * 0x01010101;

	e->overflows = f->special != MXFP_SPECIAL_NONE && r->overflow == MXFP_OVERFLOW_OVF;
	e->one_rule = !e->overflows || (r->mode == MXFP_ROUND_RNE && f->special != MXFP_SPECIAL_FNUZ);
	e->min_normal = _mm512_set1_ps(power_of_two(emin));
	e->scale = _mm512_set1_ps(power_of_two(-(int)(F32_SIGNIFICAND_BITS - m)));
	e->digits = _mm512_set1_epi32((int)(UINT32_C(1) << 16 | UINT32_C(1) << up));
	e->bias = _mm512_set1_epi32((int)(0x8000 + ((excess - first) << up)));
	e->low_codes = _mm512_set1_epi64((long long)((uint64_t)signs << 32 | codes));
	e->high_codes = _mm512_set1_epi64((long long)((uint64_t)codes << 32 | signs));
	e->excess = _mm512_set1_epi8((char)excess);
	e->past_bits = _mm512_set1_epi16((short)(0x7FFF & -((magnitudes + 1) << up)));
	e->max_lane = _mm512_set1_epi16((short)(magnitudes << up));
	e->past_lane = _mm512_set1_epi16((short)((magnitudes + e->overflows) << up));
	e->sign = _mm512_set1_epi8((char)(magnitudes + 1));
	e->magnitudes = _mm512_set1_epi8((char)magnitudes);
}

/* The code in the low bits of each 32-bit lane; bit 15 is set if x is not negative. */
ALWAYS_INLINE __m512i encode_lanes(const struct encoder *e, __m512i bits)
{
	__m512 x = (__m512)bits, larger = _mm512_range_ps(x, e->min_normal, 3); /* the larger magnitude, the sign of x */
	__m512 power = (__m512)_mm512_and_si512((__m512i)larger, _mm512_set1_epi32((int)~(F32_HIDDEN - 1)));
	__m512 r = _mm512_fmadd_ps(x, e->scale, power);

	return _mm512_dpwssd_epi32(e->bias, (__m512i)r, e->digits);
}

/* A full mask if no vector has a NaN. */
ALWAYS_INLINE __mmask16 all_numbers(const struct group *g)
{
	__mmask16 ab = _mm512_cmp_ps_mask((__m512)g->x[0], (__m512)g->x[1], _CMP_ORD_Q);

	return _mm512_mask_cmp_ps_mask(ab, (__m512)g->x[2], (__m512)g->x[3], _CMP_ORD_Q);
}

static inline uint64_t count_inf(const struct group *g)
{
	enum { INFINITIES = 0x18 };
	uint64_t inf = 0;

#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++)
		inf += (uint64_t)_mm_popcnt_u32(_mm512_fpclass_ps_mask((__m512)g->x[v], INFINITIES));
	return inf;
}

/* Replaces codes past the largest in 16-bit lanes by past_lane. Returns their number. */
ALWAYS_INLINE uint64_t replace_past(const struct encoder *e, __m512i *lanes)
{
	const __m512i sign = _mm512_set1_epi16(INT16_MIN);
	__mmask32 past = _mm512_cmpgt_epu16_mask(_mm512_andnot_si512(sign, *lanes), e->max_lane);
	__m512i replaced = _mm512_ternarylogic_epi64(sign, *lanes, e->past_lane, 0xCA);

	*lanes = _mm512_mask_mov_epi16(*lanes, past, replaced);
	return (uint64_t)_mm_popcnt_u32(past);
}

static inline void replace_all_past(const struct encoder *e, const struct group *g, __m512i *even, __m512i *odd,
                                    struct mxfp_counts *counts)
{
	uint64_t past = replace_past(e, even) + replace_past(e, odd), inf = count_inf(g);

	counts->inf += inf;
	if (e->overflows)
		counts->overflowed += past - inf;
	else
		counts->saturated += past;
}

/* Puts the bytes of a group in order after two steps of packing, which work within 128 bits. */
ALWAYS_INLINE __m512i in_order(__m512i packed)
{
	return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed);
}

/* Encodes a group. Returns false if the general kernel must encode it. */
typedef bool group_encoder(const void *encoder, const struct group *g, __m512i *codes, struct mxfp_counts *counts);

ALWAYS_INLINE bool encode_floats(const void *encoder, const struct group *g, __m512i *codes, struct mxfp_counts *counts)
{
	const struct encoder *e = encoder;
	const __m512i low_half = _mm512_set1_epi64(UINT32_MAX);
	__mmask16 numbers = all_numbers(g);
	__m512i even = _mm512_packus_epi32(encode_lanes(e, g->x[0]), encode_lanes(e, g->x[2]));
	__m512i odd = _mm512_packus_epi32(encode_lanes(e, g->x[1]), encode_lanes(e, g->x[3]));
	__m512i any = _mm512_or_si512(even, odd);

	if (__builtin_expect(_mm512_mask_testn_epi32_mask(numbers, any, e->past_bits) != 0xFFFF, 0)) {
		if (numbers != 0xFFFF || !e->one_rule)
			return false;
		replace_all_past(e, g, &even, &odd, counts);
	}
	/* Each 64 bits: four codes and four signs of `even`; four signs and four codes of `odd`. */
	__m512i of_even = _mm512_multishift_epi64_epi8(e->low_codes, even);
	__m512i of_odd = _mm512_multishift_epi64_epi8(e->high_codes, odd);
	__m512i raised = _mm512_ternarylogic_epi64(low_half, of_even, of_odd, 0xCA);
	__m512i signs = _mm512_rol_epi64(_mm512_ternarylogic_epi64(low_half, of_odd, of_even, 0xCA), 32);
	__m512i magnitudes = _mm512_sub_epi8(raised, e->excess);
	*codes = in_order(_mm512_ternarylogic_epi64(e->sign, signs, magnitudes, 0x3A)); /* sign ? not signs : magnitudes */
	return true;
}

/* Encodes a group to a format whose zero has no sign. */
ALWAYS_INLINE bool encode_fnuz(const void *encoder, const struct group *g, __m512i *codes, struct mxfp_counts *counts)
{
	const struct encoder *e = encoder;

	if (!encode_floats(encoder, g, codes, counts))
		return false;
	*codes = _mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(*codes, e->sign), *codes);
	return true;
}

ALWAYS_INLINE bool encode_int8(const void *encoder, const struct group *g, __m512i *codes, struct mxfp_counts *counts)
{
	const __m512 past = _mm512_set1_ps(2), units = _mm512_set1_ps(64);
	const __m512i max = _mm512_set1_epi16(INT8_MAX);
	__m512i lanes[GROUP / LANES];

	(void)encoder;
#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++) {
		__m512 cut = _mm512_range_ps((__m512)g->x[v], past, 2); /* the smaller magnitude, the sign of x */
		lanes[v] = _mm512_cvtps_epi32(_mm512_mul_ps(cut, units));
	}
	__m512i low = _mm512_packs_epi32(lanes[0], lanes[1]), high = _mm512_packs_epi32(lanes[2], lanes[3]);
	__mmask32 past_low = _mm512_cmpgt_epi16_mask(_mm512_abs_epi16(low), max);
	__mmask32 past_high = _mm512_cmpgt_epi16_mask(_mm512_abs_epi16(high), max);
	if (__builtin_expect(all_numbers(g) != 0xFFFF, 0))
		return false;
	if ((past_low | past_high) != 0) {
		counts->saturated += (uint64_t)_mm_popcnt_u32(past_low) + (uint64_t)_mm_popcnt_u32(past_high);
		counts->inf += count_inf(g);
	}
	*codes = in_order(_mm512_max_epi8(_mm512_packs_epi16(low, high), _mm512_set1_epi8(-INT8_MAX)));
	return true;
}

ALWAYS_INLINE bool encode_exponents(const void *encoder, const struct group *g, __m512i *codes,
                                    struct mxfp_counts *counts)
{
	const struct exponent_encoder *e = encoder;
	__m512i lanes[GROUP / LANES], largest = g->x[0];

	(void)counts;
#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++) {
		__mmask16 counted = _mm512_cmpge_epu32_mask(g->x[v], e->from);

		largest = _mm512_max_epu32(largest, g->x[v]);
		lanes[v] = _mm512_maskz_srli_epi32(counted, _mm512_add_epi32(g->x[v], e->up), F32_SIGNIFICAND_BITS);
	}
	*codes = in_order(_mm512_packus_epi16(_mm512_packus_epi32(lanes[0], lanes[1]),
	                                      _mm512_packus_epi32(lanes[2], lanes[3])));
	return _mm512_cmpgt_epu32_mask(largest, e->last) == 0;
}

/* Encodes a group with negative numbers to a format without sign: they are encoded as 0 and then, except for -0,
   replaced by NaN. */
ALWAYS_INLINE bool encode_negatives(group_encoder *encode, const void *encoder, const struct group *g, __m512i nan_code,
                                    __m512i *codes, struct mxfp_counts *counts)
{
	const __m512i minus_0 = _mm512_set1_epi32(INT32_MIN), minus_inf = _mm512_set1_epi32((int)(F32_SIGN | F32_INF));
	struct group positive;
	uint64_t negative = 0, inf = 0;
	__mmask16 nan = 0;

#pragma GCC unroll 4
	for (int v = 0; v < GROUP / LANES; v++) {
		__mmask16 signs = _mm512_movepi32_mask(g->x[v]);
		negative |= (uint64_t)_mm512_mask_cmpneq_epi32_mask(signs, g->x[v], minus_0) << (v * LANES);
		inf += (uint64_t)_mm_popcnt_u32(_mm512_cmpeq_epi32_mask(g->x[v], minus_inf));
		nan |= _mm512_cmpgt_epu32_mask(g->x[v], minus_inf);
		positive.x[v] = _mm512_max_epi32(g->x[v], _mm512_setzero_si512());
	}
	if (nan != 0 || !encode(encoder, &positive, codes, counts))
		return false;
	counts->inf += inf;
	counts->overflowed += (uint64_t)_mm_popcnt_u64(negative) - inf;
	*codes = _mm512_mask_mov_epi8(*codes, negative, nan_code);
	return true;
}

ALWAYS_INLINE bool encode_unsigned(group_encoder *encode, const void *encoder, const struct group *g, __m512i nan_code,
                                   __m512i *codes, struct mxfp_counts *counts)
{
	__m512i any = _mm512_or_si512(_mm512_or_si512(g->x[0], g->x[1]), _mm512_or_si512(g->x[2], g->x[3]));

	if (__builtin_expect(_mm512_movepi32_mask(any) != 0, 0))
		return encode_negatives(encode, encoder, g, nan_code, codes, counts);
	return encode(encoder, g, codes, counts);
}

ALWAYS_INLINE bool encode_unsigned_floats(const void *encoder, const struct group *g, __m512i *codes,
                                          struct mxfp_counts *counts)
{
	const struct encoder *e = encoder;

	return encode_unsigned(encode_floats, encoder, g, e->magnitudes, codes, counts);
}

ALWAYS_INLINE bool encode_any_exponents(const void *encoder, const struct group *g, __m512i *codes,
                                           struct mxfp_counts *counts)
{
	return encode_unsigned(encode_exponents, encoder, g, _mm512_set1_epi8(-1), codes, counts);
}

/* Encodes whole groups. Returns the argument of count_flushed(). magnitudes: the bits of a code without its sign. */
ALWAYS_INLINE size_t encode_chunk(const struct mxfp_convert_job *job, group_encoder *encode, const void *encoder,
                                  __m512i magnitudes)
{
	uint8_t *to = job->dst;
	size_t zeros = 0;

	for (size_t i = 0; i < job->n; i += GROUP) {
		struct group g = load_group((const uint32_t *)job->src + i);
		__m512i codes;

		_mm_prefetch((const char *)to + i + PREFETCH_DST_BYTES, _MM_HINT_T0);
		if (__builtin_expect(encode(encoder, &g, &codes, job->counts), 1)) {
			_mm512_storeu_si512(to + i, codes);
			zeros += (size_t)_mm_popcnt_u64(_mm512_testn_epi8_mask(codes, magnitudes));
		} else {
			zeros += encode_rare_group(job, i);
		}
	}
	return zeros;
}

static NOINLINE void encode_float_array(const struct mxfp_convert_job *job)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(job->dst_format);
	struct encoder e;

	encoder_init(&e, f, &job->rounding);
	for (size_t i = 0; i < job->n; i += CHUNK) {
		struct mxfp_convert_job part = job_part(job, i, job->n - i < CHUNK ? job->n - i : CHUNK);

		count_flushed(&part, f->kind == MXFP_KIND_UFLOAT
		                             ? encode_chunk(&part, encode_unsigned_floats, &e, e.magnitudes)
		              : f->special == MXFP_SPECIAL_FNUZ
		                             ? encode_chunk(&part, encode_fnuz, &e, e.magnitudes)
		                             : encode_chunk(&part, encode_floats, &e, e.magnitudes));
	}
}

static NOINLINE void encode_int8_array(const struct mxfp_convert_job *job)
{
	for (size_t i = 0; i < job->n; i += CHUNK) {
		struct mxfp_convert_job part = job_part(job, i, job->n - i < CHUNK ? job->n - i : CHUNK);

		count_flushed(&part, encode_chunk(&part, encode_int8, NULL, _mm512_set1_epi8(-1)));
	}
}

/* Nothing is flushed, because e8m0 has no zero. */
static NOINLINE void encode_exponent_array(const struct mxfp_convert_job *job)
{
	enum mxfp_round mode = job->rounding.mode;
	/* Everything below 2^-127, half of the smallest normal binary32, has code 0. From there to 2^-126 the gap
	   between codes is 2^22 bit patterns, above it 2^23. */
	uint32_t up = mode == MXFP_ROUND_RTP   ? F32_HIDDEN - 1
	              : mode == MXFP_ROUND_RHZ ? F32_HIDDEN / 2 - 1
	              : mode == MXFP_ROUND_RNE || mode == MXFP_ROUND_RNA ? F32_HIDDEN / 2
	                                       : 0;
	struct exponent_encoder e = {
		.up = _mm512_set1_epi32((int)up),
		.from = _mm512_set1_epi32((int)(F32_HIDDEN - up / 2)),
		.last = _mm512_set1_epi32((int)(F32_INF - up - 1)),
	};

	encode_chunk(job, encode_any_exponents, &e, _mm512_setzero_si512());
}

void TIER(encode)(const struct mxfp_convert_job *job)
{
	enum mxfp_round mode = job->rounding.mode;

	if (job->dst_format == MXFP_FORMAT_E8M0)
		convert_groups(job, mode == MXFP_ROUND_SR ? NULL : encode_exponent_array);
	else if (!has_direction(mode))
		convert_groups(job, NULL);
	else if (job->dst_format == MXFP_FORMAT_INT8)
		convert_groups(job, encode_int8_array);
	else
		convert_groups(job, job->rounding.no_negative_zero ? NULL : encode_float_array);
}

/*
 * Encodes binary32 to bf16, tf32 and f16. The first two are the top bits of binary32, so rounding is an addition to the
 * bits below, which may carry into the code. The addend depends on one bit of the number: the code's lowest bit to
 * nearest even, the sign toward an infinity. f16 has an instruction, which follows the control register.
 */

enum {
	BF16_DROPPED = 16, /* low bits of a binary32 that are not in the code */
	TF32_DROPPED = 13,
	F16_MAX = 0x477FE000 /* 65504, as a binary32 */
};

/* The addends if a bit of the number is clear and if it is set. For bf16, in 16-bit lanes: the bit of the upper half,
   and the values that the lower half must exceed to carry. Magnitudes above `limit` are special or may become Inf. */
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

/* Encodes a group and adds its zero codes to *zeros. Returns false if the general kernel must encode it. */
typedef bool word_encoder(const struct carry *c, const struct group *g, void *to, size_t *zeros);

ALWAYS_INLINE size_t zeros_of_words(__m512i words)
{
	return (size_t)_mm_popcnt_u32(_mm512_testn_epi16_mask(words, _mm512_set1_epi16(INT16_MAX)));
}

ALWAYS_INLINE bool encode_bf16(const struct carry *c, const struct group *g, void *to, size_t *zeros)
{
	const __m512i low = _mm512_set1_epi32(0xFFFF), magnitude = _mm512_set1_epi16(INT16_MAX);
	/* Lane i of the low half comes from lane 2i, of the high half from lane 2i + 1. */
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

ALWAYS_INLINE void encode_words(const struct mxfp_convert_job *job, word_encoder *encode, struct carry c, size_t bytes)
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
	encode_words(job, encode_bf16, carry_of(BF16_DROPPED, job->rounding.mode), sizeof(uint16_t));
}

static NOINLINE void encode_tf32_array(const struct mxfp_convert_job *job)
{
	encode_words(job, encode_tf32, carry_of(TF32_DROPPED, job->rounding.mode), sizeof(uint32_t));
}

static NOINLINE void encode_f16_array(const struct mxfp_convert_job *job)
{
	encode_words(job, encode_f16, (struct carry){.limit = _mm512_set1_epi32(F16_MAX)}, sizeof(uint16_t));
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
