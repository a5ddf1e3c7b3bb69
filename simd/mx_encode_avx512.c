/* SPDX-License-Identifier: MIT */
/*
 * Codes from numbers whose scale is known (mx_groups_avx512.h). A rounded number r has sign and exponent in its upper
 * 16 bits and the significand n in the lower ones, and a code is exponent << M + n, which vpdpwssd makes of r in one
 * instruction.
 */
#include "mx_groups_avx512.h"

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
	__m512 remainder = _mm512_abs_ps(_mm512_fmsub_ps(x, how->factor, _mm512_sub_ps(r, p)));
	/* 2^55 / |P|: the last place of r is 2^-23 P. */
	__m512i exponent = _mm512_and_si512(_mm512_castps_si512(p), _mm512_set1_epi32((int)F32_INF));
	__m512i dividend = _mm512_set1_epi32((int)((2 * F32_BIAS + 55U) << F32_SIGNIFICAND_BITS));
	__m512 scale = _mm512_castsi512_ps(_mm512_sub_epi32(dividend, exponent));
	__m512i words = _mm512_cvt_roundps_epu32(
		_mm512_mul_round_ps(remainder, scale, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC),
		_MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
	__mmask16 up = _mm512_cmplt_epu32_mask(_mm512_loadu_si512(random), words);

	return _mm512_mask_add_epi32(_mm512_castps_si512(r), up, _mm512_castps_si512(r), _mm512_set1_epi32(1));
}

ALWAYS_INLINE void store_bytes(uint8_t *at, __m512i v, size_t n)
{
	if (n >= 64)
		_mm512_storeu_si512(at, v);
	else
		_mm512_mask_storeu_epi8(at, (UINT64_C(1) << n) - 1, v);
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

/* Numbers relative to which a block is rounded. */
struct block_constants {
	alignas(64) float smallest[GROUP_BLOCKS];  /* the smallest normal element times the scale */
	alignas(64) int32_t offset[GROUP_BLOCKS]; /* - its exponent field times the weight of the exponent */
};

ALWAYS_INLINE void block_constants(struct block_constants *c, const struct mx_plan *plan, const struct mx_group *g,
                                   int weight)
{
	__m512i field = _mm512_add_epi32(g->scale, _mm512_set1_epi32(plan->emin));

	_mm512_store_si512(c->smallest, _mm512_slli_epi32(field, F32_SIGNIFICAND_BITS));
	_mm512_store_si512(c->offset, _mm512_mullo_epi32(field, _mm512_set1_epi32(-weight * 128)));
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
enum { E2M1_UPPER_WEIGHT = 65, E2M1_LOWER_WEIGHT = 1024, E2M1_INDEX_SHIFT = 10, E2M1_SATURATED = 2 << 3 | 4 };


static const uint8_t e2m1_codes[64] = {
	0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 6, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 12, 13, 14, 0, 0, 0, 0, 0, 14, 15, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};

/* From bytes that stand in dwords, one of each of four vectors of 16 numbers, to the vectors one after the other. The
   first vector's are bytes 0 of the dwords, or bytes 3 if `descending`. */
ALWAYS_INLINE __m512i order_of_vectors(bool descending)
{
	__m512i dwords = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60));
	__m512i ascending = _mm512_setr_epi64(0, 0, 0x0101010101010101, 0x0101010101010101, 0x0202020202020202,
	                                      0x0202020202020202, 0x0303030303030303, 0x0303030303030303);

	return _mm512_xor_si512(dwords, descending ? _mm512_xor_si512(ascending, _mm512_set1_epi8(3)) : ascending);
}

/* The indices of 16 numbers of each of four blocks: of block b in byte b of each dword. */
ALWAYS_INLINE __m512i e2m1_indices(const struct rounder *how, const struct block_constants *c, size_t block,
                                   const float *x, const uint32_t *random)
{
	const __m512i weights = _mm512_set1_epi32(E2M1_UPPER_WEIGHT << 16 | E2M1_LOWER_WEIGHT);
	const __m512i shifts = _mm512_set1_epi64(0x2A2A2A2A0A0A0A0A);
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)(F32_SIGN | F32_INF)));
	__m512i indices = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (size_t b = 0; b < 4; b++) {
		__m512 v = _mm512_loadu_ps(x + b * BLOCK);
		/* The larger magnitude with the sign of v. */
		__m512 p = _mm512_and_ps(_mm512_range_ps(v, _mm512_set1_ps(c->smallest[block + b]), 0x3), power);
		__m512i r = round_to(how, v, p, random + b * BLOCK);
		__m512i sum = _mm512_dpwssd_epi32(_mm512_set1_epi32(c->offset[block + b]), r, weights);

		indices = _mm512_mask_multishift_epi64_epi8(indices, UINT64_C(0x1111111111111111) << b, shifts, sum);
	}
	return indices;
}

ALWAYS_INLINE void encode_e2m1(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random,
                               uint8_t *codes, bool stochastic)
{
	const struct rounder how = rounder(plan, stochastic);
	const __m512i order = order_of_vectors(false);
	const __m512i table = _mm512_mask_mov_epi8(_mm512_loadu_si512(e2m1_codes),
		(uint64_t)plan->job->rounding.no_negative_zero << 32, _mm512_setzero_si512());
	struct block_constants constants;
	struct code_counts counts = {0};

	block_constants(&constants, plan, g, E2M1_UPPER_WEIGHT);
	for (size_t block = 0; block < g->n_blocks; block += 4) {
		__m512i pairs[2];

#pragma GCC unroll 2
		for (size_t half = 0; half < 2; half++) {
			size_t first = block * BLOCK + half * LANES;
			__m512i indices = e2m1_indices(&how, &constants, block, g->x + first, random + first);

			indices = _mm512_permutexvar_epi8(order, indices);
			__m512i four = _mm512_permutexvar_epi8(indices, table);

			counts.zeros += (uint64_t)_mm_popcnt_u64(_mm512_testn_epi8_mask(four, _mm512_set1_epi8(7)));
			counts.saturated += (uint64_t)_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(
				_mm512_and_si512(indices, _mm512_set1_epi8(31)), _mm512_set1_epi8(E2M1_SATURATED)));
			pairs[half] = _mm512_maddubs_epi16(four, _mm512_set1_epi16(16 << 8 | 1));
		}
		store_bytes(codes + block * BLOCK / 2, _mm512_packus_epi16(pairs[0], pairs[1]),
		            (g->n_blocks - block) * BLOCK / 2);
	}
	add_counts(plan, g, 4, &counts);
}

void mxfp_mx_encode_e2m1(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random, uint8_t *codes)
{
	if (plan->job->rounding.mode == MXFP_ROUND_SR)
		encode_e2m1(plan, g, random, codes, true);
	else
		encode_e2m1(plan, g, random, codes, false);
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
		.weights = {_mm512_set1_epi32(1 << 16 | 1 << first), _mm512_set1_epi32(1 << 24 | 1 << second)},
		.shifts = _mm512_set1_epi64(dword | (dword + 0x20202020) << 32),
		.max = _mm512_set1_epi8((char)plan->element->max_code),
	};
}

/* The magnitudes' codes of a block: the first 16 numbers in bytes 3 and the others in bytes 2 of the dwords, or in
   bytes 1 and 0. */
ALWAYS_INLINE __m512i block_magnitudes(const struct magnitude_coder *m, const struct block_constants *c, size_t block,
                                       const float *x, const uint32_t *random)
{
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)F32_INF));
	__m512i sum = _mm512_set1_epi32(c->offset[block]);

#pragma GCC unroll 2
	for (size_t half = 0; half < 2; half++) {
		__m512 a = _mm512_abs_ps(_mm512_loadu_ps(x + half * LANES));
		__m512 p = _mm512_and_ps(_mm512_max_ps(a, _mm512_set1_ps(c->smallest[block])), power);

		sum = _mm512_dpwssd_epi32(sum, round_to(&m->how, a, p, random + half * LANES), m->weights[half]);
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

/* Magnitudes to codes; `zeros` marks the magnitudes that are 0. */
ALWAYS_INLINE __m512i join_signs(const struct mx_plan *plan, __m512i magnitudes, __m512i signs, __mmask64 zeros)
{
	unsigned bits = plan->element->bits;

	if (plan->element->kind == MXFP_KIND_FIXED)
		return _mm512_mask_sub_epi8(magnitudes, _mm512_movepi8_mask(signs), _mm512_setzero_si512(), magnitudes);
	if (plan->job->rounding.no_negative_zero)
		signs = _mm512_maskz_mov_epi8(~zeros, signs);
	signs = _mm512_srl_epi64(signs, _mm_cvtsi32_si128(8 - (int)bits));
	return _mm512_ternarylogic_epi32(magnitudes, signs, _mm512_set1_epi8((char)(1 << (bits - 1))), 0xF8);
}

/* 64 codes of 6 bits to 48 bytes. */
ALWAYS_INLINE __m512i pack_six_bits(__m512i codes)
{
	const __m512i pair = _mm512_set1_epi16(64 << 8 | 1), four = _mm512_set1_epi32(4096 << 16 | 1);
	__m512i dwords = _mm512_madd_epi16(_mm512_maddubs_epi16(codes, pair), four);

	/* Bytes 0, 1 and 2 of each dword. */
	return _mm512_maskz_compress_epi8(0x7777777777777777, dwords);
}

ALWAYS_INLINE void encode(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random, uint8_t *codes,
                          bool stochastic)
{
	const struct magnitude_coder m = magnitude_coder(plan, stochastic);
	const __m512i order = order_of_vectors(true);
	struct block_constants constants;
	struct code_counts counts = {0};

	block_constants(&constants, plan, g, 0x101);
	for (size_t block = 0; block < g->n_blocks; block += 2) {
		const float *x = g->x + block * BLOCK;
		const uint32_t *words = random + block * BLOCK;
		size_t room = (g->n_blocks - block) * plan->block_bytes;
		__m512i upper = block_magnitudes(&m, &constants, block, x, words);
		__m512i lower = block_magnitudes(&m, &constants, block + 1, x + BLOCK, words + BLOCK);
		__m512i v = _mm512_mask_multishift_epi64_epi8(_mm512_multishift_epi64_epi8(m.shifts, upper),
		                                              0x3333333333333333, m.shifts, lower);
		__mmask64 zeros = _mm512_testn_epi8_mask(v, v);

		counts.zeros += (uint64_t)_mm_popcnt_u64(zeros);
		counts.saturated += (uint64_t)_mm_popcnt_u64(_mm512_cmpgt_epu8_mask(v, m.max));
		v = join_signs(plan, _mm512_min_epu8(v, m.max), signs_of(x), zeros);
		v = _mm512_permutexvar_epi8(order, v);
		if (plan->element->bits == 6)
			store_bytes(codes + block * plan->block_bytes, pack_six_bits(v), room < 48 ? room : 48);
		else
			store_bytes(codes + block * plan->block_bytes, v, room);
	}
	add_counts(plan, g, 2, &counts);
}

void mxfp_mx_encode(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random, uint8_t *codes)
{
	if (plan->job->rounding.mode == MXFP_ROUND_SR)
		encode(plan, g, random, codes, true);
	else
		encode(plan, g, random, codes, false);
}
