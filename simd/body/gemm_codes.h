/* SPDX-License-Identifier: MIT */
/*
 * Panels of W that stays in codes of four, six or eight bits, hardly more than its format takes: a head, the codes of the scales
 * [block][column], E8M0 or UE4M3, and words of codes [word][column]. A code is a nibble of E2M1, a byte of MXINT8, or has the six bits
 * of E3M2 or E2M3. Elements are placed in words so that decoding gives pairs of neighbors.
 *
 * Where a tier looks integers up by six bits, a word of these is three bytes. Elsewhere a code has six bits of a byte, placed as its
 * decoding wants them, and three words hold four: the codes of the fourth are in the other two bits. Those of E2M3 are
 *
 *     sign, bit 1 of the exponent, 2 of the fourth word, bit 0 of the exponent, 3 of the significand
 *
 * and of E3M2 2 of the fourth word, 2 of the significand, the sign, 3 of the exponent. A line is what is decoded at once: a word, or
 * three that hold four. Whatever bits a hostile panel has, they are codes of numbers of the format.
 */
#ifndef MXFP_BODY_GEMM_CODES_H
#define MXFP_BODY_GEMM_CODES_H

#include "body/gemm_int16.h"

enum {
	CODES_MOST_WORDS = 4, /* in a line */
	CODES_MOST_PAIRS = 4, /* in a word */
	CODES_FETCHED = 64,   /* bytes that one request to fetch them brings */
	/* E3M2 is decoded to integers times 2^CODES_E3M2_BITS, at most 448 * 16. 32 times that and 448 is below 2^31; so is, by the
	   inequality of Cauchy and Schwarz, the sum of its products with A of gemm_fp8.c: the root of the sum of 32 squares is below
	   2^15.4, that of A at most 2^14.5. */
#ifdef HAS_WIDE_LOOKUP
	CODES_E3M2_BITS = 0
#else
	CODES_E3M2_BITS = 4
#endif
};

enum codes_kind {
	CODES_NIBBLES, CODES_BYTES, CODES_E3M2, CODES_E2M3,
	CODES_WIDE, /* nibbles whose scales' significands multiply integers */
	CODES_E5M2, CODES_E4M3, /* of gemm_fp8.c, which has panels of its own for them */
	CODES_KINDS
};

/* A panel of W. */
struct codes_w {
	const uint8_t *scales, *codes;
	bool ue4m3; /* scales are */
};

static enum codes_kind kind_of(enum mxfp_format format)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(format)->element);

	if (element->bits == 4)
		return CODES_NIBBLES;
	if (format == MXFP_FORMAT_MXFP6_E2M3)
		return CODES_E2M3;
	return format == MXFP_FORMAT_MXFP6_E3M2 ? CODES_E3M2 : CODES_BYTES;
}

ALWAYS_INLINE bool has_six_bits(enum codes_kind kind)
{
	return kind == CODES_E3M2 || kind == CODES_E2M3;
}

/* The words that a line holds. */
ALWAYS_INLINE size_t words_of(enum codes_kind kind)
{
#ifndef HAS_WIDE_LOOKUP
	if (has_six_bits(kind))
		return CODES_MOST_WORDS;
#endif
	(void)kind;
	return 1;
}

/* Bytes of a line of a vector of columns. */
ALWAYS_INLINE size_t line_bytes(enum codes_kind kind)
{
	return has_six_bits(kind) ? words_of(kind) * VECTOR_BYTES * 6 / 8 : VECTOR_BYTES;
}

/* The pairs of elements in a word. */
ALWAYS_INLINE size_t pairs_of(enum codes_kind kind)
{
	return kind == CODES_NIBBLES || kind == CODES_WIDE ? 4 : 2;
}

/* Bytes of so many words of all columns, which are whole lines. */
ALWAYS_INLINE size_t words_bytes(size_t words, enum codes_kind kind)
{
	return words / words_of(kind) * INT16_VECTORS * line_bytes(kind);
}

/* Integers are decoded in units of 2^-unit_bits() of the format's. */
ALWAYS_INLINE int unit_bits(enum codes_kind kind)
{
	return kind == CODES_WIDE ? SCALE_BITS : kind == CODES_E3M2 ? CODES_E3M2_BITS : 0;
}

static size_t codes_offset(const struct mxfp_gemm_shape *shape, size_t k)
{
	return BLOCKS_HEAD_BYTES + blocks_count(shape, k) * INT16_NR;
}

static size_t codes_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	const size_t pairs = blocks_count(shape, k) * blocks_length(shape) / 2;
	const enum codes_kind kind = kind_of(shape->w_format);

	return codes_offset(shape, k) + words_bytes(pairs / pairs_of(kind), kind);
}

#ifdef HAS_WIDE_LOOKUP
/* The integers of E3M2's codes, and of E2M3's. */
#define FOUR(sign, e) sign (4 << (e)), sign (5 << (e)), sign (6 << (e)), sign (7 << (e))
#define HALF(sign) 0, sign 1, sign 2, sign 3, FOUR(sign, 0), FOUR(sign, 1), FOUR(sign, 2), FOUR(sign, 3), FOUR(sign, 4), FOUR(sign, 5), FOUR(sign, 6)
static const int16_t e3m2_integers[64] = {HALF(), HALF(-)};
#undef HALF
#undef FOUR
#define EIGHT(sign, e) \
	sign (8 << (e)), sign (9 << (e)), sign (10 << (e)), sign (11 << (e)), sign (12 << (e)), sign (13 << (e)), sign (14 << (e)), sign (15 << (e))
#define HALF(sign) 0, sign 1, sign 2, sign 3, sign 4, sign 5, sign 6, sign 7, EIGHT(sign, 0), EIGHT(sign, 1), EIGHT(sign, 2)
static const int16_t e2m3_integers[64] = {HALF(), HALF(-)};
#undef HALF
#undef EIGHT
#else
/* What is added to the bits of an integer of E2M3, by its lower four where bit 1 of the exponent, 0x40, is set. */
static const int8_t e2m3_more[16] = {-48, -47, -46, -45, -44, -43, -42, -41, -40, -37, -34, -31, -28, -25, -22, -19};

/* Powers of two of E3M2, by its sign and exponent, and what is added to these and the significand's bits above, so that 16 times the
   significand is left. */
static const int8_t e3m2_power[16] = {1, 1, 2, 4, 8, 16, 32, 64, -1, -1, -2, -4, -8, -16, -32, -64};
static const int8_t e3m2_more[16] = {0, 63, 62, 61, 60, 59, 58, 57, -8, 55, 54, 53, 52, 51, 50, 49};

/* The lowest of the two bits of a byte that are a code's of the fourth word, and the bit of it that word i has there. */
ALWAYS_INLINE unsigned fourth_at(enum codes_kind kind)
{
	return kind == CODES_E2M3 ? 4 : 6;
}

ALWAYS_INLINE unsigned fourth_bit(enum codes_kind kind, size_t i)
{
	return kind == CODES_E2M3 && i == 2 ? 6 : 2 * (unsigned)i;
}
#endif

/* Codes by the format's own bits. */
ALWAYS_INLINE vu32 e3m2_code(vu32 sign, vu32 magnitude)
{
#ifdef HAS_WIDE_LOOKUP
	return sign << 5 | magnitude;
#else
	return (magnitude & 3) << 4 | sign << 3 | magnitude >> 2;
#endif
}

ALWAYS_INLINE vu32 e2m3_code(vu32 sign, vu32 magnitude)
{
#ifdef HAS_WIDE_LOOKUP
	return sign << 5 | magnitude;
#else
	return sign << 7 | (magnitude & 0x10) << 2 | (magnitude & 0xF);
#endif
}

/* The codes of numbers, which are integers in the unit of their format. */
ALWAYS_INLINE vu32 codes_of(vf32 x, enum codes_kind kind)
{
	const vu32 bits = (vu32)x, magnitude = bits & ~F32_SIGN, n = (vu32)__builtin_convertvector((vf32)magnitude, vs32);

	switch (kind) {
	case CODES_NIBBLES: /* from 2 on, an exponent of two bits and a bit of significand */
		return (bits >> 31 << 3) | blend((vs32)(n < 2), n, (magnitude >> 22) - (2 * F32_BIAS));
	case CODES_E3M2: /* from 4 on, normal: a hidden bit, two of the significand, the exponent */
		return e3m2_code(bits >> 31, blend((vs32)(n < 4), n, (magnitude >> 21) - ((F32_BIAS + 1) << 2)));
	case CODES_E2M3:
		return e2m3_code(bits >> 31, blend((vs32)(n < 8), n, (magnitude >> 20) - ((F32_BIAS + 2) << 3)));
	default:
		return (vu32)__builtin_convertvector(x, vs32) & 0xFF;
	}
}

/* Codes of scales, which are binary32: E8M0 or UE4M3. */
ALWAYS_INLINE vu32 scale_codes(vu32 scales, bool ue4m3)
{
	const vs32 nan = (vs32)(scales > splat(F32_INF));
	const vu32 n = (vu32)__builtin_convertvector((vf32)(scales & (vu32)~nan) * splat_f32(512), vs32);

	if (!ue4m3)
		return scales >> F32_SIGNIFICAND_BITS;
	return blend(nan, splat(0x7F), blend((vs32)(n < 8), n, (scales >> 20) - ((F32_BIAS - 7) << 3)));
}

ALWAYS_INLINE uint32_t word_of_bytes(const uint32_t *x)
{
	return x[0] | x[2] << 8 | x[1] << 16 | x[3] << 24;
}

#ifndef HAS_WIDE_LOOKUP
/* Four words of codes of six bits become three, in place. */
static void merge_fourth(uint32_t *row, size_t words, enum codes_kind kind)
{
	for (size_t i = 0; i < words; i += CODES_MOST_WORDS) {
		const uint32_t fourth = row[i + 3];

		for (size_t j = 0; j < 3; j++)
			row[i / 4 * 3 + j] = row[i + j] | (fourth >> fourth_bit(kind, j) & 0x03030303) << fourth_at(kind);
	}
}
#endif

/* Places the codes of a row in words, in place. */
static void codes_to_words(uint32_t *row, size_t n, enum codes_kind kind)
{
	if (kind == CODES_NIBBLES)
		for (size_t i = 0; i < n; i += 8) {
			const uint32_t *x = row + i;

			row[i / 8] = x[0] | x[4] << 4 | x[2] << 8 | x[6] << 12 | x[1] << 16 | x[5] << 20 | x[3] << 24 | x[7] << 28;
		}
	else
		for (size_t i = 0; i < n; i += 4)
			row[i / 4] = word_of_bytes(row + i);
#ifndef HAS_WIDE_LOOKUP
	if (has_six_bits(kind))
		merge_fourth(row, n / 4, kind);
#endif
}

static bool has_ue4m3(const struct mxfp_gemm_shape *shape)
{
	return mxfp_format_get_info(shape->w_format)->tensor_scale;
}

/* Four codes of six bits become three bytes. */
static inline void pack_sixes(uint32_t codes, uint8_t to[3])
{
	const uint32_t packed = (codes & 0x3F) | (codes >> 2 & 0xFC0) | (codes >> 4 & 0x3F000) | (codes >> 6 & 0xFC0000);

	to[0] = (uint8_t)packed;
	to[1] = (uint8_t)(packed >> 8);
	to[2] = (uint8_t)(packed >> 16);
}

/* Packs columns k, k + 1, ... of the chunk. */
static void codes_pack_slice(const struct mxfp_gemm_pack_job *job, size_t k, struct blocks_range *range)
{
	const size_t length = blocks_length(job->shape);
	const enum codes_kind kind = kind_of(job->matrix->format);
	const float factor = power_of_two(fraction_bits(job->matrix->format));
	uint8_t scales[BLOCKS_HEAD_BYTES + PANEL_SLICE / MXFP_NVFP4_BLOCK * INT16_NR * sizeof(float)];
	uint8_t *panel = job->panel, *to = panel + BLOCKS_HEAD_BYTES + k / length * INT16_NR;
	struct mxfp_gemm_pack_job slice = panel_slice(job, k);
	const size_t blocks = blocks_count(job->shape, slice.k), n = blocks * length;
	panel_rows rows;

	slice.panel = scales;
	load_elements(&slice, rows);
	pack_blocks(&slice, 0, false, true, INT16_NR, rows, range);
	for (size_t i = 0; i < blocks * INT16_NR; i += LANES)
		store_u8(to + i, scale_codes(load(scales + BLOCKS_HEAD_BYTES + i * sizeof(float)), has_ue4m3(job->shape)));
	for (size_t r = 0; r < INT16_NR; r++) {
		for (size_t i = 0; i < n; i += LANES)
			store(rows[r] + i, codes_of((vf32)load(rows[r] + i) * factor, kind));
		codes_to_words(rows[r], n, kind);
	}
	const size_t words = n / 2 / pairs_of(kind);
	uint8_t *codes = panel + codes_offset(job->shape, job->k) + words_bytes(k / 2 / pairs_of(kind), kind);
	if (line_bytes(kind) >= VECTOR_BYTES) {
		store_columns(codes, rows[0], PANEL_SLICE, INT16_NR, words / words_of(kind) * line_bytes(kind) / VECTOR_BYTES);
	} else {
		uint32_t lines[PANEL_SLICE / 4 * INT16_NR];

		store_columns((uint8_t *)lines, rows[0], PANEL_SLICE, INT16_NR, words);
		for (size_t i = 0; i < words * INT16_NR; i++, codes += 3)
			pack_sixes(lines[i], codes);
	}
}

/* In the floating-point state that kernels need: compilers may convert scales that are E8M0, too, which overflow. */
static NOINLINE void codes_pack_rows(const struct mxfp_gemm_pack_job *job)
{
	struct blocks_range range = blocks_begin();

	memset(job->panel, 0, BLOCKS_HEAD_BYTES);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE)
		codes_pack_slice(job, k, &range);
	const struct blocks_head head = blocks_end(&range);
	memcpy(job->panel, &head, sizeof head);
}

static struct codes_w codes_begin(const struct mxfp_gemm_multiply_job *job)
{
	const uint8_t *w = job->w;

	return (struct codes_w){
		.scales = w + BLOCKS_HEAD_BYTES,
		.codes = w + codes_offset(job->shape, job->k),
		.ue4m3 = has_ue4m3(job->shape),
	};
}

#ifndef HAS_WIDE_LOOKUP
/* The codes of the fourth word of a line. */
ALWAYS_INLINE vu8 load_fourth(const uint8_t *codes, enum codes_kind kind)
{
	const unsigned at = fourth_at(kind);
	vu32 fourth = {0};

	HIDE_ORIGIN(codes);
#pragma GCC unroll 3
	for (size_t i = 0; i < 3; i++) {
		const vu16 x = (vu16)load(codes + i * INT16_VECTORS * VECTOR_BYTES);
		const unsigned bit = fourth_bit(kind, i);

		fourth |= (vu32)(at > bit ? x >> (at - bit) : x << (bit - at)) & splat(0x03030303U << bit);
	}
	return (vu8)fourth;
}

/* The integers of E2M3, in bytes. */
ALWAYS_INLINE vu8 e2m3_bytes(vu8 codes)
{
	const vu8 magnitude = codes & (vu8)splat(0x4F4F4F4F);

	return with_sign(magnitude + lookup(e2m3_more, magnitude + (vu8)splat(0xC0C0C0C0)), codes);
}

/* The pairs of E3M2, times 2^CODES_E3M2_BITS. */
ALWAYS_INLINE void decode_e3m2(vu8 codes, vs16 pairs[2])
{
	const vu8 six = codes & (vu8)splat(0x3F3F3F3F);

	multiply_bytes(six + lookup_nibble(e3m2_more, six), lookup_nibble(e3m2_power, six), pairs);
}
#endif

/* Word i of a line, of each column of a vector; bits above the six of a code, or those that it does not have, may be any. */
ALWAYS_INLINE vu8 load_word(const uint8_t *line, enum codes_kind kind, size_t i)
{
#ifdef HAS_WIDE_LOOKUP
	if (has_six_bits(kind))
		return load_packed_sixes(line);
#else
	if (i == 3)
		return load_fourth(line, kind);
#endif
	return (vu8)load(line + i * INT16_VECTORS * VECTOR_BYTES);
}

/* The pairs of a word of each column. */
ALWAYS_INLINE void decode_pairs(vu8 codes, enum codes_kind kind, vs16 pairs[CODES_MOST_PAIRS])
{
	if (kind == CODES_NIBBLES || kind == CODES_WIDE) {
		decode_nibbles(codes, pairs);
	} else if (kind == CODES_BYTES) {
		widen_pairs(order_bytes(codes), pairs);
	} else {
#ifdef HAS_WIDE_LOOKUP
		const int16_t *table = kind == CODES_E2M3 ? e2m3_integers : e3m2_integers;

		pairs[0] = lookup_words(table, (vu16)codes);
		pairs[1] = lookup_words(table, (vu16)codes >> 8);
#else
		if (kind == CODES_E2M3)
			widen_signed(e2m3_bytes(order_bytes(codes)), pairs);
		else
			decode_e3m2(order_bytes(codes), pairs);
#endif
	}
}

/* Keeps a sum of products in its place: gcc would reorder those with a word or line until it has not enough registers. */
ALWAYS_INLINE void keep_order(vs32 *sum)
{
#ifdef HAS_WIDE_LOOKUP
	(void)sum;
#else
	IN_REGISTER(*sum);
#endif
}

/* Ordinary scales as binary32. */
ALWAYS_INLINE vf32 scales_at(const struct codes_w *w, size_t i)
{
	const vu32 codes = load_u8(w->scales + i);

	return w->ue4m3 ? (vf32)(codes << 20) * splat_f32(0x1p120F) : (vf32)(codes << F32_SIGNIFICAND_BITS);
}

/* Any scales. */
ALWAYS_INLINE vf32 any_scales_at(const struct codes_w *w, size_t i)
{
	const vu32 codes = load_u8(w->scales + i), scales = (vu32)scales_at(w, i);
	const vu32 finite = blend((vs32)(codes == splat(0)) & (w->ue4m3 ? 0 : -1), splat(F32_HIDDEN / 2), scales);

	return (vf32)blend((vs32)(codes == splat(w->ue4m3 ? 0x7F : MXFP_SCALE_NAN)), splat(F32_NAN), finite);
}

/* The significands of scales as integers, and their powers of two; NaN stays. */
ALWAYS_INLINE vu32 significands(vf32 scales)
{
	return 1 << SCALE_BITS | ((vu32)scales >> (F32_SIGNIFICAND_BITS - SCALE_BITS) & ((1 << SCALE_BITS) - 1));
}

ALWAYS_INLINE vf32 powers(vf32 scales)
{
	return (vf32)blend(scales == scales, (vu32)scales & F32_INF, (vu32)scales);
}

#endif
