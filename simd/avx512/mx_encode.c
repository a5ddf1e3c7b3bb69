/* SPDX-License-Identifier: MIT */
/*
 * Codes from numbers whose scale is known (mx_groups.h). A rounded number r has sign and exponent in its upper
 * 16 bits and the significand n in the lower ones, and a code is exponent << M + n, which vpdpwssd makes of r in one
 * instruction.
 */
#include "avx512/mx_groups.h"

/* Numbers to add or compare with that are the same for all groups of a job. */
struct rounder {
	__m512 factor; /* 2^(M - 23) */
	bool stochastic;
};

/* P + |x| * 2^(M-23), with the sign of x where P has it. Stochastic rounding adds one to what truncation leaves if the
   word is below the remainder, which is scaled to [0, 2^32) and rounded up: word < remainder stays what it was. */
ALWAYS_INLINE __m512i round_to(const struct rounder *how, __m512 x, __m512 p, const uint32_t *random)
{
	if (!how->stochastic)
		return _mm512_castps_si512(_mm512_fmadd_ps(x, how->factor, p));
	__m512 r = _mm512_fmadd_round_ps(x, how->factor, p, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
	__m512 remainder = _mm512_fmsub_ps(x, how->factor, _mm512_sub_ps(r, p));
	/* 2^55 / P, as the last place of r is 2^-23 P; with the sign of the remainder. */
	__m512i dividend = _mm512_set1_epi32((int)((2 * F32_BIAS + 55U) << F32_SIGNIFICAND_BITS));
	__m512 scale = _mm512_castsi512_ps(_mm512_sub_epi32(dividend, _mm512_castps_si512(p)));
	__m512i words = _mm512_cvt_roundps_epu32(
		_mm512_mul_round_ps(remainder, scale, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC),
		_MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
	__mmask16 up = _mm512_cmplt_epu32_mask(_mm512_loadu_si512(random), words);

	return _mm512_mask_add_epi32(_mm512_castps_si512(r), up, _mm512_castps_si512(r), _mm512_set1_epi32(1));
}

/* The first `size` bytes of v, or `room` if that is less. */
ALWAYS_INLINE void store_bytes(uint8_t *at, __m512i v, size_t size, size_t room)
{
	if (room < size)
		_mm512_mask_storeu_epi8(at, (UINT64_C(1) << room) - 1, v);
	else if (size < 64)
		_mm512_mask_storeu_epi8(at, (UINT64_C(1) << size) - 1, v);
	else
		_mm512_storeu_si512(at, v);
}

/* Counts among 64 codes. Zeros of the source are counted too; not_flushed() takes them back. */
struct code_counts {
	uint64_t zeros, saturated;
};

static NOINLINE uint64_t count_zeros(const float *x, size_t n)
{
	uint64_t zeros = 0;

	for (size_t i = 0; i < n; i += LANES) {
		__m512 v = _mm512_loadu_ps(x + i);

		zeros += (uint64_t)_mm_popcnt_u32(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ));
	}
	return zeros;
}

/* Blocks were encoded `step` at a time, of which the last ones may lie past the end of the row. */
static void add_counts(const struct mx_plan *plan, const struct mx_group *g, size_t step, const struct code_counts *c)
{
	struct mxfp_counts *counts = plan->job->counts;

	counts->saturated += c->saturated;
	counts->flushed += c->zeros;
	if (g->zeros)
		counts->flushed -= count_zeros(g->x, (g->n_blocks + step - 1) / step * step * BLOCK);
}

/* 2^(M - 23). */
ALWAYS_INLINE struct rounder rounder(const struct mx_plan *plan, bool stochastic)
{
	uint32_t field = F32_BIAS - F32_SIGNIFICAND_BITS + plan->element->significand_bits;

	return (struct rounder){_mm512_castsi512_ps(_mm512_set1_epi32((int)(field << F32_SIGNIFICAND_BITS))), stochastic};
}

/*
 * e2m1. Sign, exponent above that of the smallest normal element (0, 1, 2) and significand (0 to 4, in halves) make an
 * index of 6 bits, 0bSEEnnn, and a table gives the code, saturated.
 *
 * The index comes from the 16-bit halves of r: S * -2^15 + E * 2^7 and n. With the weights 65 and 1024, bits 10 to 15
 * of the sum are the index: 1024 n, 64 * 128 E, and 1 * -2^15 S, which borrows from the bits above only; 1 * 128 E
 * stays below bit 10 and 64 * -2^15 S above bit 15.
 */
enum { E2M1_LOWER_WEIGHT = 1024, E2M1_INDEX_SHIFT = 10, E2M1_SATURATED = 2 << 3 | 4 };

static const uint8_t e2m1_codes[64] = {
	0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 6, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 12, 13, 14, 0, 0, 0, 0, 0, 14, 15, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};

/* The indices of two blocks: qword j has numbers 2 j and 2 j + 1 of vector v (of four) in its bytes 2 v and 2 v + 1. */
ALWAYS_INLINE __m512i e2m1_indices(const struct rounder *how, const struct mx_group *g, size_t block,
                                   const uint32_t *random)
{
	const __m512i weights = _mm512_set1_epi32(MX_E2M1_WEIGHT << 16 | E2M1_LOWER_WEIGHT);
	const __m512i shifts = _mm512_set1_epi16((32 + E2M1_INDEX_SHIFT) << 8 | E2M1_INDEX_SHIFT);
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)(F32_SIGN | F32_INF)));
	__m512i indices = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (size_t v = 0; v < 4; v++) {
		__m512 a = _mm512_loadu_ps(g->x + block * BLOCK + v * LANES);
		/* The larger magnitude with the sign of a. */
		__m512 p = _mm512_and_ps(_mm512_range_ps(a, _mm512_set1_ps(g->smallest[block + v / 2]), 0x3), power);
		__m512i r = round_to(how, a, p, random + block * BLOCK + v * LANES);
		__m512i sum = _mm512_dpwssd_epi32(_mm512_set1_epi32(g->offset[block + v / 2]), r, weights);

		indices = _mm512_mask_multishift_epi64_epi8(indices, UINT64_C(0x0303030303030303) << 2 * v, shifts, sum);
	}
	return indices;
}

/* The codes of two blocks, pairs of them in the lower bytes of words: numbers 2 j and 2 j + 1 of vector v in word v of
   qword j. */
ALWAYS_INLINE __m512i e2m1_pairs(const struct rounder *how, const struct mx_group *g, size_t block,
                                 const uint32_t *random, __m512i table, struct code_counts *counts)
{
	__m512i indices = e2m1_indices(how, g, block, random);
	__m512i codes = _mm512_permutexvar_epi8(indices, table);

	counts->zeros += (uint64_t)_mm_popcnt_u64(_mm512_testn_epi8_mask(codes, _mm512_set1_epi8(7)));
	if (how->stochastic || g->saturates) {
		__m512i positive = _mm512_and_si512(indices, _mm512_set1_epi8(31));
		__mmask64 saturated = _mm512_cmpeq_epi8_mask(positive, _mm512_set1_epi8(E2M1_SATURATED));

		counts->saturated += (uint64_t)_mm_popcnt_u64(saturated);
	}
	return _mm512_maddubs_epi16(codes, _mm512_set1_epi16(16 << 8 | 1));
}

/* Two vectors of such pairs to bytes in the order of the numbers. */
ALWAYS_INLINE __m512i e2m1_order(__m512i first, __m512i second)
{
	/* After packing, the first vector's qwords 2 i and 2 i + 1 are dwords 4 i and 4 i + 1, the second's 4 i + 2 and
	   4 i + 3. Vector v has its eight bytes in byte v of the dwords. */
	const int64_t from = 0x3430242014100400, one = 0x0101010101010101;
	const __m512i order = _mm512_setr_epi64(from, from + one, from + 2 * one, from + 3 * one, from + 8 * one,
	                                        from + 9 * one, from + 10 * one, from + 11 * one);

	return _mm512_permutexvar_epi8(order, _mm512_packus_epi16(first, second));
}

ALWAYS_INLINE void encode_e2m1(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random,
                               bool stochastic)
{
	const struct rounder how = rounder(plan, stochastic);
	const uint64_t negative_zero = (uint64_t)plan->job->rounding.no_negative_zero << 32;
	const __m512i table = _mm512_mask_mov_epi8(_mm512_loadu_si512(e2m1_codes), negative_zero, _mm512_setzero_si512());
	/* In variables, as codes are stored through a pointer that may point to anything. */
	const bool prefetches = plan->job->rule != MXFP_RULE_MSE;
	const size_t number_bytes = plan->number_bytes;
	const uint8_t *ahead = g->ahead;
	struct code_counts counts = {0};

	for (size_t block = 0; block < g->n_blocks; block += 4) {
		if (prefetches)
			prefetch(ahead, number_bytes, block, 4);
		__m512i first = e2m1_pairs(&how, g, block, random, table, &counts);
		__m512i second = e2m1_pairs(&how, g, block + 2, random, table, &counts);

		store_bytes(g->codes + block * BLOCK / 2, e2m1_order(first, second), 64,
		            (g->n_blocks - block) * BLOCK / 2);
	}
	add_counts(plan, g, 4, &counts);
}

void mxfp_mx_encode_e2m1(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random)
{
	if (plan->job->rounding.mode == MXFP_ROUND_SR)
		encode_e2m1(plan, g, random, true);
	else
		encode_e2m1(plan, g, random, false);
}

/*
 * Every other element. The magnitude's code, without sign, comes from |x| as E << M + n; the sum of vpdpwssd has those
 * of two vectors, the first from bit 7 - M on (where the exponent has the weight 1), the second 8 bits further.
 * Saturation is a minimum of bytes.
 */
struct magnitude_coder {
	struct rounder how;
	__m512i weights[2];  /* of the lower and upper half of r: first and second vector */
	__m512i shifts;      /* from the sum to bytes 3 and 2, or 1 and 0, of each dword */
	__m512i max;
};

ALWAYS_INLINE struct magnitude_coder magnitude_coder(const struct mx_plan *plan, bool stochastic)
{
	int first = 7 - (int)plan->element->significand_bits, second = first + 8;
	int bytes = second | first << 8;
	int64_t dword = bytes | bytes << 16;

	return (struct magnitude_coder){
		.how = rounder(plan, stochastic),
		.weights = {
			_mm512_set1_epi32(1 << 16 | 1 << first),
			_mm512_set1_epi32((MX_PAIR_WEIGHT - 1) << 16 | 1 << second),
		},
		.shifts = _mm512_set1_epi64(dword | (dword + 0x20202020) << 32),
		.max = _mm512_set1_epi8((char)plan->element->max_code),
	};
}

/* The magnitudes' codes of a block: the first 16 numbers in bytes 3 and the others in bytes 2 of the dwords, or in
   bytes 1 and 0. */
ALWAYS_INLINE __m512i block_magnitudes(const struct magnitude_coder *m, const struct mx_group *g, size_t block,
                                       const uint32_t *random)
{
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)F32_INF));
	__m512i sum = _mm512_set1_epi32(g->offset[block]);

#pragma GCC unroll 2
	for (size_t half = 0; half < 2; half++) {
		size_t i = block * BLOCK + half * LANES;
		__m512 a = _mm512_abs_ps(_mm512_loadu_ps(g->x + i));
		__m512 p = _mm512_and_ps(_mm512_max_ps(a, _mm512_set1_ps(g->smallest[block])), power);

		sum = _mm512_dpwssd_epi32(sum, round_to(&m->how, a, p, random + i), m->weights[half]);
	}
	return sum;
}

/* The signs of 64 numbers in bit 7 of the bytes, in the order of the magnitudes' codes. Loading from one address
   further moves the upper byte of each number down by one. */
ALWAYS_INLINE __m512i signs_of(const float *x)
{
	__m512i v = _mm512_loadu_si512(x);

	v = _mm512_mask_loadu_epi8(v, 0x4444444444444444, (const uint8_t *)(x + LANES) + 1);
	v = _mm512_mask_loadu_epi8(v, 0x2222222222222222, (const uint8_t *)(x + 2 * LANES) + 2);
	return _mm512_mask_loadu_epi8(v, 0x1111111111111111, (const uint8_t *)(x + 3 * LANES) + 3);
}

/* What the compiler makes separate functions for. */
struct variant {
	unsigned bits;
	bool two_s_complement, stochastic;
};

/* From magnitudes to codes in the order of the numbers; those in bytes 3 of the dwords come first. */
ALWAYS_INLINE __m512i join_signs(struct variant variant, __m512i magnitudes, __m512i signs)
{
	const __m512i dwords = _mm512_broadcast_i32x4(
		_mm_setr_epi8(3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63));
	const int64_t one = 0x0101010101010101;
	const __m512i bytes = _mm512_setr_epi64(0, 0, one, one, 2 * one, 2 * one, 3 * one, 3 * one);
	const __m512i order = _mm512_sub_epi8(dwords, bytes);
	const __m512i sign = _mm512_set1_epi8((char)(1 << (variant.bits - 1)));
	__m512i codes;

	if (variant.two_s_complement) {
		codes = _mm512_mask_sub_epi8(magnitudes, _mm512_movepi8_mask(signs), _mm512_setzero_si512(), magnitudes);
	} else {
		if (variant.bits < 8)
			signs = _mm512_srli_epi32(signs, 8 - variant.bits);
		/* Of the signs, their bit; everything of the magnitudes. */
		codes = _mm512_ternarylogic_epi32(magnitudes, signs, sign, 0xF8);
	}
	return _mm512_permutexvar_epi8(order, codes);
}

static const uint8_t six_bit_bytes[64] = {
	0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30,
	32, 33, 34, 36, 37, 38, 40, 41, 42, 44, 45, 46, 48, 49, 50, 52, 53, 54, 56, 57, 58, 60, 61, 62,
};

/* 64 codes of 6 bits to 48 bytes: pairs to 12 bits, fours to 24 bits of each dword, and dwords without their last byte
   one after the other. */
ALWAYS_INLINE __m512i pack_six_bits(__m512i codes)
{
	const __m512i pair = _mm512_set1_epi16(64 << 8 | 1), four = _mm512_set1_epi32(4096 << 16 | 1);

	return _mm512_permutexvar_epi8(_mm512_loadu_si512(six_bit_bytes),
	                               _mm512_madd_epi16(_mm512_maddubs_epi16(codes, pair), four));
}

ALWAYS_INLINE void encode(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random,
                          struct variant variant)
{
	const struct magnitude_coder m = magnitude_coder(plan, variant.stochastic);
	const size_t bytes = 2 * BLOCK / 8 * variant.bits;
	/* In variables, as codes are stored through a pointer that may point to anything. */
	const bool prefetches = plan->job->rule != MXFP_RULE_MSE;
	const size_t number_bytes = plan->number_bytes;
	const uint8_t *ahead = g->ahead;
	struct code_counts counts = {0};
	uint8_t *to = g->codes;

	for (size_t block = 0; block < g->n_blocks; block += 2, to += bytes) {
		size_t room = (g->n_blocks - block) * (bytes / 2);
		if (prefetches)
			prefetch(ahead, number_bytes, block, 2);
		__m512i upper = block_magnitudes(&m, g, block, random);
		__m512i lower = block_magnitudes(&m, g, block + 1, random);
		__m512i v = _mm512_mask_multishift_epi64_epi8(_mm512_multishift_epi64_epi8(m.shifts, upper),
		                                              0x3333333333333333, m.shifts, lower);
		__m512i signs = signs_of(g->x + block * BLOCK);
		__mmask64 zeros = _mm512_testn_epi8_mask(v, v);

		counts.zeros += (uint64_t)_mm_popcnt_u64(zeros);
		if (variant.stochastic || g->saturates)
			counts.saturated += (uint64_t)_mm_popcnt_u64(_mm512_cmpgt_epu8_mask(v, m.max));
		if (plan->job->rounding.no_negative_zero)
			signs = _mm512_maskz_mov_epi8(~zeros, signs);
		v = join_signs(variant, _mm512_min_epu8(v, m.max), signs);
		store_bytes(to, variant.bits == 6 ? pack_six_bits(v) : v, bytes, room);
	}
	add_counts(plan, g, 2, &counts);
}

void mxfp_mx_encode(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random)
{
	bool stochastic = plan->job->rounding.mode == MXFP_ROUND_SR;

	if (plan->element->kind == MXFP_KIND_FIXED && stochastic)
		encode(plan, g, random, (struct variant){8, true, true});
	else if (plan->element->kind == MXFP_KIND_FIXED)
		encode(plan, g, random, (struct variant){8, true, false});
	else if (plan->element->bits == 6 && stochastic)
		encode(plan, g, random, (struct variant){6, false, true});
	else if (plan->element->bits == 6)
		encode(plan, g, random, (struct variant){6, false, false});
	else if (stochastic)
		encode(plan, g, random, (struct variant){8, false, true});
	else
		encode(plan, g, random, (struct variant){8, false, false});
}
