/* SPDX-License-Identifier: MIT */
/*
 * The fast path of MX quantization: 16 blocks of a row at a time, so that the work done once per block, choosing its
 * scale, is done for all 16 in one vector. Other modes than rne and sr, and via_bf16, go to body/mx.c.
 *
 * It computes what ref/mx.c does, but rounds a number x in place instead of scaling it first. With P the power of two
 * at or below |x|, but at least the smallest normal element at the block's scale, and M the element's significand bits,
 * |x| * 2^(M-23) + P has the element's quantum as its last place, so one fused multiply-add rounds once, and the
 * integer in its low bits is the significand of the element.
 */
#include "tier.h"

#include "avx512/groups.h"
#include "avx512/philox.h"
#include "body/slots.h"
#include "f32.h"
#include "scale.h"

/* Weights of the exponent of a rounded number in the sums of encoding, which hold one number or two. */
enum { MX_E2M1_WEIGHT = 64 + 1, MX_PAIR_WEIGHT = 1 + 256 };

enum { BLOCK = MXFP_MX_BLOCK, GROUP = GROUP_BLOCKS * BLOCK };

/* Constants of a job. */
struct mx_plan {
	const struct mxfp_quantize_job *job;
	size_t rows, cols;     /* the job's, or one row that holds all of them */
	size_t number_bytes;   /* of the source */
	const struct mxfp_format_info *element;
	int emin;              /* exponent of the smallest normal element; FIXED has one quantum: emax */
	uint32_t scale_carry;  /* mxfp_ref_scale_carry() of the rule */
	uint32_t past_carry;   /* and of fit: added to a magnitude, it carries if that rounds past the largest element */
	uint32_t least_amax;   /* bits of the least amax that needs no upscaling, with s one below floor's */
	int exponent_weight;   /* MX_..._WEIGHT */
	size_t block_bytes;
};

/* Sixteen blocks, of which the first n_blocks belong to the row. The others, and the padding of the last block, are
   zeros. */
struct mx_group {
	const float *x;
	size_t n_blocks;
	uint64_t index;   /* of the first number, for stochastic rounding */
	uint8_t *codes;   /* destination */
	const uint8_t *ahead; /* to prefetch; past the end of the source in the last groups */
	bool zeros;       /* there may be zeros among the numbers */
	bool saturates;   /* a number may lie past the largest element */
	__m512i amax;     /* largest magnitude of each block, as bits */
	__m512i upscale;  /* the numbers of a block have been multiplied by 2^upscale */
	__m512i scale;    /* the scale's exponent + 127 + upscale, which encoding divides by */
	/* For encoding: the smallest normal element times the scale, and minus its weighted exponent field. */
	_Alignas(64) float smallest[GROUP_BLOCKS];
	_Alignas(64) int32_t offset[GROUP_BLOCKS];
	_Alignas(64) float copy[GROUP];
};

/* Prefetches the numbers ahead of blocks block .. block + n - 1. The longest step of a group calls it a few blocks at a
   time, because many requests at once wait for each other. */
ALWAYS_INLINE void prefetch(const uint8_t *ahead, size_t number_bytes, size_t block, size_t n)
{
	const char *at = (const char *)ahead + block * BLOCK * number_bytes;

#pragma GCC unroll 8
	for (size_t i = 0; i < n * BLOCK; i += LANES)
		_mm_prefetch(at + i * number_bytes, _MM_HINT_T0);
}

/*
 * Rule mse for 16 blocks: the squared errors at floor and at floor + 1, added in the order of doc/numerics.md, section
 * 3, without encoding. With y in units of the floor scale and P the power of two at or below |y|, but at least the
 * smallest normal element, y + 1.5 * 2^(23-M) P has the element's quantum as its last place, and subtracting the second
 * term is exact. At floor + 1 nothing overflows, and the quantum is the same or, below the smallest normal element
 * there, a larger fixed one. The larger of the errors with either quantum is the right one, because one grid contains
 * the other.
 */

/* Constants of the element, in units of the floor scale. */
struct candidates {
	__m512 smallest; /* normal number */
	__m512 max;
	__m512 magic; /* 1.5 * 2^(23 - M) */
};

/* The binary32 with this exponent and these bits of the significand. */
ALWAYS_INLINE __m512 constant(int exponent, uint32_t fraction)
{
	return _mm512_castsi512_ps(_mm512_set1_epi32((exponent + F32_BIAS) << F32_SIGNIFICAND_BITS | (int)fraction));
}

ALWAYS_INLINE struct candidates candidates(const struct mx_plan *plan)
{
	const struct mxfp_format_info *e = plan->element;
	/* rceil raises s past the largest significand. */
	uint32_t max = 2 * F32_HIDDEN - mxfp_ref_scale_carry(MXFP_RULE_RCEIL, e) - 1;

	return (struct candidates){
		.smallest = constant(plan->emin, 0),
		.max = constant(e->emax, max - F32_HIDDEN),
		.magic = constant(F32_SIGNIFICAND_BITS - (int)e->significand_bits, F32_QUIET),
	};
}

/* y minus y rounded to a multiple of 2^-fraction_bits. The immediate must be a literal, hence a case per element. */
ALWAYS_INLINE __m512 fixed_difference(__m512 y, int fraction_bits)
{
	switch (fraction_bits) {
	case 0:
		return _mm512_reduce_ps(y, 0x08); /* e2m1 */
	case 2:
		return _mm512_reduce_ps(y, 0x28); /* e2m3 */
	case 3:
		return _mm512_reduce_ps(y, 0x38); /* e3m2 */
	case 5:
		return _mm512_reduce_ps(y, 0x58); /* int8 */
	case 8:
		return _mm512_reduce_ps(y, 0x88); /* e4m3 */
	default:
		return _mm512_reduce_ps(y, 0xF8); /* e5m2: 15 */
	}
}

/* The errors d at floor (0) and floor + 1 (1), whose signs do not matter. The fixed quantum at floor + 1 is
   2^-fraction_bits. */
ALWAYS_INLINE void differences(const struct candidates *c, __m512 y, const int fraction_bits, __m512 d[2])
{
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)F32_INF));
	__m512 p = _mm512_and_ps(_mm512_range_ps(y, c->smallest, 0x3), power);
	__m512 q = _mm512_fnmadd_ps(p, c->magic, _mm512_fmadd_ps(p, c->magic, y));

	/* vrangeps gives the smaller magnitude with the sign of q, then the larger magnitude. */
	d[0] = _mm512_sub_ps(y, _mm512_range_ps(q, c->max, 0x2));
	d[1] = _mm512_range_ps(_mm512_sub_ps(y, q), fixed_difference(y, fraction_bits), 0x3);
}

ALWAYS_INLINE __mmask16 raises(const struct mx_plan *plan, const struct mx_group *g, const int fraction_bits)
{
	const struct candidates c = candidates(plan);
	const uint8_t *ahead = g->ahead;
	const size_t number_bytes = plan->number_bytes;
	_Alignas(64) float exponent[GROUP_BLOCKS];
	__m512i error[2][GROUP_BLOCKS];

	if (g->n_blocks < GROUP_BLOCKS)
		memset(error, 0, sizeof error);
	_mm512_store_ps(exponent, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(MXFP_SCALE_BIAS), g->scale)));
#pragma GCC unroll 2
	for (size_t block = 0; block < g->n_blocks; block++) {
		__m512 d[2][2];

		prefetch(ahead, number_bytes, block, 1);
#pragma GCC unroll 2
		for (size_t half = 0; half < 2; half++) {
			__m512 x = _mm512_loadu_ps(g->x + block * BLOCK + half * LANES);

			differences(&c, _mm512_scalef_ps(x, _mm512_set1_ps(exponent[block])), fraction_bits, d[half]);
		}
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++)
			error[i][block] = _mm512_castps_si512(
				_mm512_fmadd_ps(d[1][i], d[1][i], _mm512_mul_ps(d[0][i], d[0][i])));
	}
	return _mm512_cmp_ps_mask(_mm512_castsi512_ps(reduce_each(error[1], SUM)),
	                          _mm512_castsi512_ps(reduce_each(error[0], SUM)), _CMP_LE_OQ);
}

static NOINLINE __mmask16 mse_raises(const struct mx_plan *plan, const struct mx_group *g)
{
	switch ((int)plan->element->significand_bits - plan->emin - 1) {
	case 0:
		return raises(plan, g, 0);
	case 2:
		return raises(plan, g, 2);
	case 3:
		return raises(plan, g, 3);
	case 5:
		return raises(plan, g, 5);
	case 8:
		return raises(plan, g, 8);
	default:
		return raises(plan, g, 15);
	}
}

/*
 * Encoding with known scales. A rounded number r has sign and exponent in its upper 16 bits and the significand n in
 * the lower ones, and a code is (exponent << M) + n, which one vpdpwssd computes from r.
 */

/* How numbers are rounded. */
struct rounder {
	__m512 factor; /* 2^(M - 23) */
	bool stochastic;
};

/* P + x * 2^(M-23), where P has the sign of x. Stochastic rounding truncates and adds one if the random word is below
   the remainder scaled to [0, 2^32) and rounded up, which does not change whether a word is below it. */
ALWAYS_INLINE __m512i round_to(const struct rounder *how, __m512 x, __m512 p, const uint32_t *random)
{
	if (!how->stochastic)
		return _mm512_castps_si512(_mm512_fmadd_ps(x, how->factor, p));
	__m512 r = _mm512_fmadd_round_ps(x, how->factor, p, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
	__m512 remainder = _mm512_fmsub_ps(x, how->factor, _mm512_sub_ps(r, p));
	/* 2^55 / P, because the last place of r is 2^-23 P; it has the sign of the remainder. */
	__m512i dividend = _mm512_set1_epi32((int)((2 * F32_BIAS + 55U) << F32_SIGNIFICAND_BITS));
	__m512 scale = _mm512_castsi512_ps(_mm512_sub_epi32(dividend, _mm512_castps_si512(p)));
	__m512i words = _mm512_cvt_roundps_epu32(
		_mm512_mul_round_ps(remainder, scale, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC),
		_MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
	__mmask16 up = _mm512_cmplt_epu32_mask(_mm512_loadu_si512(random), words);

	return _mm512_mask_add_epi32(_mm512_castps_si512(r), up, _mm512_castps_si512(r), _mm512_set1_epi32(1));
}

/* Stores the first `size` bytes of v, or `room` bytes if that is less. */
ALWAYS_INLINE void store_bytes(uint8_t *at, __m512i v, size_t size, size_t room)
{
	if (room < size)
		_mm512_mask_storeu_epi8(at, (UINT64_C(1) << room) - 1, v);
	else if (size < 64)
		_mm512_mask_storeu_epi8(at, (UINT64_C(1) << size) - 1, v);
	else
		_mm512_storeu_si512(at, v);
}

/* Counts of codes. `zeros` includes the zeros of the source, which add_counts() subtracts. */
struct code_counts {
	uint64_t zeros, saturated;
};

/* Adds a group's counts. Blocks were encoded `step` at a time, so the last ones may lie past the end of the row. */
static void add_counts(const struct mx_plan *plan, const struct mx_group *g, size_t step, const struct code_counts *c)
{
	struct mxfp_counts *counts = plan->job->counts;

	counts->saturated += c->saturated;
	counts->flushed += c->zeros;
	if (g->zeros)
		counts->flushed -= count_zeros(g->x, (g->n_blocks + step - 1) / step * step * BLOCK);
}

ALWAYS_INLINE struct rounder rounder(const struct mx_plan *plan, bool stochastic)
{
	uint32_t field = F32_BIAS - F32_SIGNIFICAND_BITS + plan->element->significand_bits;

	return (struct rounder){_mm512_castsi512_ps(_mm512_set1_epi32((int)(field << F32_SIGNIFICAND_BITS))), stochastic};
}

/*
 * e2m1. The sign, the exponent minus that of the smallest normal element (0, 1, 2, or 3 under a rule whose scale may be
 * below floor's) and the significand (0 to 4, in halves) form a 6-bit index, 0bSEEnnn, and a table gives the saturated
 * code.
 *
 * The 16-bit halves of r are S * -2^15 + E * 2^7 and n. With the weights 65 and 1024, bits 10 to 15 of the sum are the
 * index: 1024 n, 64 * 128 E and 1 * -2^15 S, which borrows only from the bits above. 1 * 128 E stays below bit 10, and
 * 64 * -2^15 S above bit 15.
 */
enum { E2M1_LOWER_WEIGHT = 1024, E2M1_INDEX_SHIFT = 10, E2M1_LARGEST = 2 << 3 | 3 };

static const uint8_t e2m1_codes[64] = {
	0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 6, 7, 7, 0, 0, 0, 0, 0, 7, 7, 7, 0, 0, 0,
	8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 12, 13, 14, 0, 0, 0, 0, 0, 14, 15, 15, 0, 0, 0, 0, 0, 15, 15, 15, 0, 0, 0,
};

/* The indices of two blocks: bytes 2 v and 2 v + 1 of qword j are numbers 2 j and 2 j + 1 of vector v (of four). */
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

/* The codes of two blocks, as pairs in the lower bytes of words: word v of qword j has numbers 2 j and 2 j + 1 of
   vector v. */
ALWAYS_INLINE __m512i e2m1_pairs(const struct rounder *how, const struct mx_group *g, size_t block,
                                 const uint32_t *random, __m512i table, struct code_counts *counts)
{
	__m512i indices = e2m1_indices(how, g, block, random);
	__m512i codes = _mm512_permutexvar_epi8(indices, table);

	counts->zeros += (uint64_t)_mm_popcnt_u64(_mm512_testn_epi8_mask(codes, _mm512_set1_epi8(7)));
	if (how->stochastic || g->saturates) {
		__m512i positive = _mm512_and_si512(indices, _mm512_set1_epi8(31));
		__mmask64 saturated = _mm512_cmpgt_epi8_mask(positive, _mm512_set1_epi8(E2M1_LARGEST));

		counts->saturated += (uint64_t)_mm_popcnt_u64(saturated);
	}
	return _mm512_maddubs_epi16(codes, _mm512_set1_epi16(16 << 8 | 1));
}

/* Packs two vectors of such pairs to bytes in the order of the numbers. */
ALWAYS_INLINE __m512i e2m1_order(__m512i first, __m512i second)
{
	/* Packing turns qwords 2 i and 2 i + 1 of the first vector into dwords 4 i and 4 i + 1, those of the second into
	   4 i + 2 and 4 i + 3. The eight bytes of vector v are byte v of the dwords. */
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

static NOINLINE void encode_e2m1_group(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random)
{
	if (plan->job->rounding.mode == MXFP_ROUND_SR)
		encode_e2m1(plan, g, random, true);
	else
		encode_e2m1(plan, g, random, false);
}

/*
 * Every other element. The code of the magnitude is (E << M) + n. The sum of vpdpwssd holds the codes of two vectors,
 * the first from bit 7 - M on (where the exponent has the weight 1), the second 8 bits higher. Saturation is a minimum
 * of bytes.
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

/* The sums of vpdpwssd for a block; `shifts` extracts the codes of the first 16 magnitudes to bytes 3 of the dwords
   and the others to bytes 2, or to bytes 1 and 0. */
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

/* The signs of 64 numbers in bit 7 of the bytes, in the order of the magnitudes' codes. A load from the next address
   moves the upper byte of each number down by one. */
ALWAYS_INLINE __m512i signs_of(const float *x)
{
	__m512i v = _mm512_loadu_si512(x);

	v = _mm512_mask_loadu_epi8(v, 0x4444444444444444, (const uint8_t *)(x + LANES) + 1);
	v = _mm512_mask_loadu_epi8(v, 0x2222222222222222, (const uint8_t *)(x + 2 * LANES) + 2);
	return _mm512_mask_loadu_epi8(v, 0x1111111111111111, (const uint8_t *)(x + 3 * LANES) + 3);
}

/* The variants for which encode() is compiled. */
struct variant {
	unsigned bits;
	bool two_s_complement, stochastic;
};

/* Adds signs to magnitudes and puts the codes in the order of the numbers: bytes 3 of the dwords come first. */
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
		/* magnitudes | (signs & sign) */
		codes = _mm512_ternarylogic_epi32(magnitudes, signs, sign, 0xF8);
	}
	return _mm512_permutexvar_epi8(order, codes);
}

static const uint8_t six_bit_bytes[64] = {
	0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30,
	32, 33, 34, 36, 37, 38, 40, 41, 42, 44, 45, 46, 48, 49, 50, 52, 53, 54, 56, 57, 58, 60, 61, 62,
};

/* Packs 64 codes of 6 bits into 48 bytes: pairs to 12 bits, fours to 24 bits of each dword, and then the three lower
   bytes of each dword one after the other. */
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

static NOINLINE void encode_element_group(const struct mx_plan *plan, const struct mx_group *g, const uint32_t *random)
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

/* Rows in groups of 16 blocks: loading, exceptional blocks and scales. */

enum {
	UPSCALE = 96,
	PREFETCH = 6144, /* bytes from the beginning of a group to the numbers prefetched meanwhile */
	LEAST_FIELD = 56 /* of P under stochastic rounding, which divides 2^55 by it (round_to()) */
};

/* Loads the first n numbers at src, and zeros after them up to a multiple of four blocks. */
ALWAYS_INLINE void load_group(struct mx_group *g, const void *src, enum mxfp_format format, size_t n)
{
	const __m512i magnitude = _mm512_set1_epi32((int)~F32_SIGN);
	bool direct = format == MXFP_FORMAT_F32 && n == GROUP;
	__m512i least = magnitude, greatest[GROUP_BLOCKS];

	g->n_blocks = (n + BLOCK - 1) / BLOCK;
	if (n != GROUP)
		memset(greatest, 0, sizeof greatest);
	const size_t n_blocks = n == GROUP ? GROUP_BLOCKS : (g->n_blocks + 3) / 4 * 4;
	g->x = direct ? src : g->copy;
#pragma GCC unroll 4
	for (size_t block = 0; block < n_blocks; block++) {
		__m512i m[2];

#pragma GCC unroll 2
		for (size_t h = 0; h < 2; h++) {
			size_t i = block * BLOCK + h * LANES;
			__m512 x = load_numbers(src, format, i, n == GROUP ? 0xFFFF : lanes_left(i, n));

			if (!direct)
				_mm512_store_ps(g->copy + i, x);
			m[h] = _mm512_and_si512(_mm512_castps_si512(x), magnitude);
		}
		greatest[block] = _mm512_max_epu32(m[0], m[1]);
		least = _mm512_min_epu32(least, _mm512_min_epu32(m[0], m[1]));
	}
	g->zeros = _mm512_testn_epi32_mask(least, least) != 0;
	g->amax = reduce_each(greatest, LARGEST);
	g->upscale = _mm512_setzero_si512();
}

static NOINLINE void load_part(struct mx_group *g, const void *src, enum mxfp_format format, size_t n)
{
	switch (format) {
	case MXFP_FORMAT_BF16:
		load_group(g, src, MXFP_FORMAT_BF16, n);
		break;
	case MXFP_FORMAT_F16:
		load_group(g, src, MXFP_FORMAT_F16, n);
		break;
	default:
		load_group(g, src, MXFP_FORMAT_F32, n);
	}
}

/* Loads a whole group. Returns false if it has a zero or a NaN; then amax may be wrong, because vrangeps prefers a
   number to a NaN. vfixupimmps finds both: it turns a 1 into 0 there. */
ALWAYS_INLINE bool load_nonzeros(struct mx_group *g, const void *src, enum mxfp_format format)
{
	const __m512i classes = _mm512_set1_epi32(0x00000888); /* quiet NaN, signaling NaN and zero give +0; others: 1 */
	const __m512 one = _mm512_set1_ps(1);
	__m512 special[4] = {one, one, one, one}; /* four independent chains */
	__m512i greatest[GROUP_BLOCKS];

	g->x = format == MXFP_FORMAT_F32 ? src : g->copy;
#pragma GCC unroll 16
	for (size_t block = 0; block < GROUP_BLOCKS; block++) {
		__m512 x[2];

#pragma GCC unroll 2
		for (size_t h = 0; h < 2; h++) {
			size_t i = block * BLOCK + h * LANES;

			x[h] = load_numbers(src, format, i, 0xFFFF);
			special[i / LANES % 4] = _mm512_fixupimm_ps(special[i / LANES % 4], x[h], classes, 0);
			if (format != MXFP_FORMAT_F32)
				_mm512_store_ps(g->copy + i, x[h]);
		}
		/* The larger magnitude, without sign. */
		greatest[block] = _mm512_castps_si512(_mm512_range_ps(x[0], x[1], 0xB));
	}
	g->n_blocks = GROUP_BLOCKS;
	g->zeros = false;
	g->amax = reduce_each(greatest, LARGEST);
	g->upscale = _mm512_setzero_si512();
	__m512 ones = _mm512_and_ps(_mm512_and_ps(special[0], special[1]), _mm512_and_ps(special[2], special[3]));
	return _mm512_cmpneq_ps_mask(ones, one) == 0;
}

/* g->zeros is still that of the group before the last one: where there were zeros, there may be more. */
ALWAYS_INLINE void load_whole(struct mx_group *g, const void *src, enum mxfp_format format)
{
	if (g->zeros || !load_nonzeros(g, src, format))
		load_group(g, src, format, GROUP);
}

#define LOAD_WHOLE(name, format) \
	static NOINLINE void name(struct mx_group *g, const void *src) \
	{ \
		load_whole(g, src, format); \
	}
LOAD_WHOLE(load_f32, MXFP_FORMAT_F32)
LOAD_WHOLE(load_bf16, MXFP_FORMAT_BF16)
LOAD_WHOLE(load_f16, MXFP_FORMAT_F16)
#undef LOAD_WHOLE

static void load_any(struct mx_group *g, const void *src, enum mxfp_format format, size_t n)
{
	if (n != GROUP)
		load_part(g, src, format, n);
	else if (format == MXFP_FORMAT_F32)
		load_f32(g, src);
	else if (format == MXFP_FORMAT_BF16)
		load_bf16(g, src);
	else
		load_f16(g, src);
}

/* Replaces Inf in a block if the policy says so; if a NaN or Inf is left, all numbers become 0. Returns the amax. */
static uint32_t mend_non_finite(const struct mxfp_quantize_job *job, float *block)
{
	bool any_left = false;

	for (int i = 0; i < BLOCK; i += LANES) {
		__m512i x = _mm512_load_si512(block + i);

		any_left |= mend_numbers(job, &x);
		_mm512_store_si512(block + i, x);
	}
	if (!any_left)
		return F32_MAX;
	memset(block, 0, BLOCK * sizeof *block);
	return 0;
}

/* Copies the group so that no block has a NaN, an Inf or an amax close to underflow. Returns the mask of NaN blocks. */
static NOINLINE __mmask16 mend(const struct mx_plan *plan, struct mx_group *g)
{
	_Alignas(64) uint32_t amax[GROUP_BLOCKS], upscale[GROUP_BLOCKS] = {0};
	__mmask16 nan_blocks = 0;

	if (g->x != g->copy)
		memcpy(g->copy, g->x, sizeof g->copy);
	g->x = g->copy;
	g->zeros = true;
	_mm512_store_si512(amax, g->amax);
	for (int i = 0; i < GROUP_BLOCKS; i++) {
		float *block = g->copy + i * BLOCK;

		if (amax[i] >= F32_INF) {
			amax[i] = mend_non_finite(plan->job, block);
			nan_blocks |= (__mmask16)((amax[i] == 0) << i);
		} else if (amax[i] != 0 && amax[i] < plan->least_amax) {
			const __m512 factor = _mm512_set1_ps(0x1p96f);

			for (int j = 0; j < BLOCK; j += LANES)
				_mm512_store_ps(block + j, _mm512_mul_ps(_mm512_load_ps(block + j), factor));
			amax[i] = mxfp_f32_scale(amax[i], UPSCALE);
			upscale[i] = UPSCALE;
		}
	}
	g->amax = _mm512_load_si512(amax);
	g->upscale = _mm512_load_si512(upscale);
	return nan_blocks;
}

/* The blocks that mend() must change: those with a NaN or an Inf, or an amax that is small but not zero. */
ALWAYS_INLINE __mmask16 exceptional(const struct mx_plan *plan, const struct mx_group *g)
{
	__m512i least = _mm512_set1_epi32((int)plan->least_amax);
	__m512i range = _mm512_set1_epi32((int)(F32_INF - plan->least_amax));

	return _mm512_mask_cmpge_epu32_mask(_mm512_test_epi32_mask(g->amax, g->amax), _mm512_sub_epi32(g->amax, least),
	                                    range);
}

/* Chooses the scales, sets what encoding needs and returns the scale bytes. */
ALWAYS_INLINE __m512i choose_scales(const struct mx_plan *plan, struct mx_group *g)
{
	const __m512i max = _mm512_set1_epi32(MXFP_SCALE_MAX + MXFP_SCALE_BIAS), one = _mm512_set1_epi32(1);
	const __m512i emax = _mm512_set1_epi32(plan->element->emax);
	__mmask16 nonzero = _mm512_test_epi32_mask(g->amax, g->amax);
	__m512i carried = _mm512_add_epi32(g->amax, _mm512_set1_epi32((int)plan->scale_carry));
	__m512i free = _mm512_sub_epi32(_mm512_srli_epi32(carried, F32_SIGNIFICAND_BITS),
	                                _mm512_add_epi32(g->upscale, emax));
	__m512i byte = _mm512_maskz_min_epi32(nonzero, _mm512_max_epi32(free, _mm512_setzero_si512()), max);

	/* Blocks of zeros get a scale at which they are encoded like any number. */
	g->scale = _mm512_mask_add_epi32(_mm512_set1_epi32(MXFP_SCALE_BIAS), nonzero, byte, g->upscale);
	if (plan->job->rule == MXFP_RULE_MSE) {
		/* floor + 1 is a candidate if neither it nor floor is clamped to the other. */
		__mmask16 raisable = _mm512_mask_cmpge_epi32_mask(nonzero, free, _mm512_setzero_si512());

		raisable &= _mm512_cmplt_epi32_mask(byte, max) & mse_raises(plan, g);
		byte = _mm512_mask_add_epi32(byte, raisable, byte, one);
		g->scale = _mm512_mask_add_epi32(g->scale, raisable, g->scale, one);
	}
	__m512i field = _mm512_add_epi32(g->scale, _mm512_set1_epi32(plan->emin));
	_mm512_store_si512(g->smallest, _mm512_slli_epi32(field, F32_SIGNIFICAND_BITS));
	/* The exponent field begins at bit 7 of the upper half. */
	_mm512_store_si512(g->offset, _mm512_mullo_epi32(field, _mm512_set1_epi32(-plan->exponent_weight * 128)));
	carried = _mm512_add_epi32(g->amax, _mm512_set1_epi32((int)plan->past_carry));
	g->saturates = _mm512_cmpgt_epi32_mask(_mm512_srli_epi32(carried, F32_SIGNIFICAND_BITS),
	                                       _mm512_add_epi32(g->scale, emax)) != 0;
	return byte;
}

/* Loads the group at column k of a row, stores its scales and sets what encode_group() needs. */
static void prepare(const struct mx_plan *plan, struct mx_group *g, size_t row, size_t k)
{
	const struct mxfp_quantize_job *job = plan->job;
	const uint8_t *src = (const uint8_t *)job->src + (row * job->src_stride + k) * plan->number_bytes;
	__mmask16 nan_blocks = 0;

	load_any(g, src, job->src_format, plan->cols - k < GROUP ? plan->cols - k : GROUP);
	g->index = job->first_index + row * job->cols + k;
	g->ahead = src + PREFETCH;
	g->codes = job->codes + row * job->codes_stride + k / BLOCK * plan->block_bytes;
	if (exceptional(plan, g) != 0)
		nan_blocks = mend(plan, g);
	__m512i byte = choose_scales(plan, g);
	byte = _mm512_mask_mov_epi32(byte, nan_blocks, _mm512_set1_epi32(MXFP_SCALE_NAN));
	_mm_mask_storeu_epi8(job->scales + row * job->scales_stride + k / BLOCK, lanes_left(0, g->n_blocks),
	                     _mm512_cvtepi32_epi8(byte));
}

static void encode_group(const struct mx_plan *plan, const struct mx_group *g)
{
	const struct mxfp_rounding *rounding = &plan->job->rounding;
	_Alignas(64) uint32_t words[GROUP + PHILOX_SLACK];
	const uint32_t *random = words;

	if (rounding->mode == MXFP_ROUND_SR)
		random = philox_array(words, rounding->seed, rounding->stream, g->index, g->n_blocks * BLOCK);
	if (plan->job->format == MXFP_FORMAT_MXFP4)
		encode_e2m1_group(plan, g, random);
	else
		encode_element_group(plan, g, random);
}

static struct mx_plan make_plan(const struct mxfp_quantize_job *job)
{
	const struct mxfp_format_info *element = mxfp_format_get_info(mxfp_format_get_info(job->format)->element);
	int emin = element->kind == MXFP_KIND_FIXED ? element->emax : 1 - element->bias;
	int least_field = job->rounding.mode == MXFP_ROUND_SR ? LEAST_FIELD : 1;
	struct mx_plan plan = {
		.job = job,
		.rows = job->rows,
		.cols = job->cols,
		.number_bytes = mxfp_format_get_info(job->src_format)->storage_bytes,
		.element = element,
		.emin = emin,
		.scale_carry = mxfp_ref_scale_carry(job->rule, element),
		.past_carry = mxfp_ref_scale_carry(MXFP_RULE_FIT, element),
		.least_amax = (uint32_t)(least_field + 1 + element->emax - emin) << F32_SIGNIFICAND_BITS,
		.exponent_weight = job->format == MXFP_FORMAT_MXFP4 ? MX_E2M1_WEIGHT : MX_PAIR_WEIGHT,
		.block_bytes = BLOCK / 8 * element->bits,
	};

	/* Rows without gaps are one row. */
	if (job->cols % BLOCK == 0 && job->src_stride == job->cols && job->scales_stride == job->cols / BLOCK &&
	    job->codes_stride == job->cols / BLOCK * plan.block_bytes) {
		plan.cols *= plan.rows;
		plan.rows = 1;
	}
	return plan;
}

struct quantizer {
	struct mx_plan plan;
	struct mx_group groups[2];
};

static void prepare_group(void *context, unsigned which, size_t row, size_t k)
{
	struct quantizer *q = context;

	prepare(&q->plan, &q->groups[which], row, k);
}

static void finish_group(void *context, unsigned which)
{
	const struct quantizer *q = context;

	encode_group(&q->plan, &q->groups[which]);
}

static NOINLINE void quantize(const struct mxfp_quantize_job *job)
{
	struct quantizer q;

	q.plan = make_plan(job);
	q.groups[0].zeros = q.groups[1].zeros = false;
	run_groups(&q, q.plan.rows, q.plan.cols, GROUP, prepare_group, finish_group);
}

void TIER(quantize_mx_groups)(const struct mxfp_quantize_job *job)
{
	enum mxfp_round mode = job->rounding.mode;

	if ((mode != MXFP_ROUND_RNE && mode != MXFP_ROUND_SR) || job->via_bf16) {
		TIER(quantize_mx)(job);
		return;
	}
	struct fp_state state = fp_enter();
	quantize(job);
	fp_leave(state);
}
