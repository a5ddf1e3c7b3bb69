/* SPDX-License-Identifier: MIT */
/*
 * NVFP4 quantization, 16 blocks at a time, beginning with their scales, one block per lane. The recipes are those of
 * ref/nvfp4.c, operation by operation, so each rounds as there. Other rounding modes than rne and sr: body/nvfp4.c.
 */
#include "tier.h"

#include "avx512/groups.h"
#include "avx512/philox.h"
#include "body/nvfp4_tensor.h"
#include "body/slots.h"

struct tensor {
	enum mxfp_recipe recipe;
	struct nvfp4_tensor of;
};

/* The scales of 16 blocks, and the factors by which their numbers are multiplied, or divided (mxfp_nvfp4_divides()). */
struct scales {
	__m512i byte;
	__m512 value, factor;
};

/* The tensor scale has limits such that 0 times or over a factor is NaN only for a block scale of 0 in modelopt. */
static inline void tensor_init(struct tensor *t, const struct mxfp_quantize_job *job)
{
	const struct mxfp_nvfp4_tensor bits = mxfp_nvfp4_tensor_ref(job->recipe, job->tensor_amax);

	t->recipe = job->recipe;
	nvfp4_tensor_init(&t->of, &bits);
}

/* Rounds v >= 0, not NaN, to nearest even. With P the power of two at or below v, but at least the smallest normal
   scale, v + 2^20 P has the unit P / 8, and the code is a number of units counted from P = 2^-6. */
ALWAYS_INLINE struct scales round_scale(__m512 v)
{
	const int first = (F32_BIAS - MXFP_UE4M3_BIAS + 1) << MXFP_UE4M3_SIGNIFICAND_BITS;
	const unsigned up = F32_SIGNIFICAND_BITS - MXFP_UE4M3_SIGNIFICAND_BITS;
	struct scales s;

	v = _mm512_min_ps(v, _mm512_set1_ps(MXFP_UE4M3_MAX));
	__m512i p = _mm512_and_si512(_mm512_castps_si512(_mm512_max_ps(v, _mm512_set1_ps(MXFP_UE4M3_MIN_NORMAL))),
	                             _mm512_set1_epi32(F32_INF));
	__m512i large = _mm512_add_epi32(p, _mm512_set1_epi32(20 << F32_SIGNIFICAND_BITS));
	__m512 sum = _mm512_add_ps(v, _mm512_castsi512_ps(large));
	s.value = _mm512_sub_ps(sum, _mm512_castsi512_ps(large));
	s.byte = _mm512_sub_epi32(_mm512_castps_si512(sum), large);
	s.byte = _mm512_add_epi32(s.byte, _mm512_sub_epi32(_mm512_srli_epi32(p, up), _mm512_set1_epi32(first)));
	return s;
}

/* ggml's rounding: 448 from 248 on, half up, and below 2^-6 by a rounded sum that is truncated. */
ALWAYS_INLINE struct scales round_scale_ggml(__m512 v)
{
	const unsigned up = F32_SIGNIFICAND_BITS - MXFP_UE4M3_SIGNIFICAND_BITS;
	const int rebias = (F32_BIAS - MXFP_UE4M3_BIAS) << MXFP_UE4M3_SIGNIFICAND_BITS;
	const __m512 subnormals = _mm512_set1_ps(512);
	const __m512i half = _mm512_set1_epi32(1 << (up - 1));
	struct scales s;

	v = _mm512_min_ps(v, _mm512_set1_ps(MXFP_UE4M3_MAX));
	s.byte = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(v), half), up);
	s.byte = _mm512_sub_epi32(s.byte, _mm512_set1_epi32(rebias));
	s.byte = _mm512_mask_mov_epi32(s.byte, _mm512_cmp_ps_mask(v, _mm512_set1_ps(248), _CMP_GE_OQ),
	                               _mm512_set1_epi32(MXFP_UE4M3_NAN - 1));
	s.value = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(s.byte, _mm512_set1_epi32(rebias)), up));
	__mmask16 small = _mm512_cmp_ps_mask(v, _mm512_set1_ps(MXFP_UE4M3_MIN_NORMAL), _CMP_LT_OQ);
	__m512i n = _mm512_cvttps_epi32(_mm512_add_ps(_mm512_mul_ps(v, subnormals), _mm512_set1_ps(0.5f)));
	n = _mm512_min_epi32(n, _mm512_set1_epi32(7));
	s.byte = _mm512_mask_mov_epi32(s.byte, small, n);
	s.value = _mm512_mask_div_ps(s.value, small, _mm512_cvtepi32_ps(n), subnormals);
	return s;
}

ALWAYS_INLINE __m512 sixth(__m512 amax)
{
	return _mm512_div_ps(amax, _mm512_set1_ps(6));
}

/* te and 4over6. */
ALWAYS_INLINE struct scales te_scales(const struct tensor *t, __m512 unrounded)
{
	const __m512 one = _mm512_set1_ps(1);
	struct scales s = round_scale(unrounded);

	s.factor = _mm512_div_ps(one, _mm512_mul_ps(s.value, _mm512_set1_ps(t->of.decode)));
	s.factor = _mm512_min_ps(s.factor, _mm512_set1_ps(float_of(F32_MAX)));
	return s;
}

ALWAYS_INLINE __m512 te_unrounded(const struct tensor *t, __m512 amax)
{
	return _mm512_mul_ps(amax, _mm512_set1_ps(t->of.encode_sixth));
}

/* torchao: at least 2^-6; round_scale() applies the upper limit. */
ALWAYS_INLINE struct scales torchao_scales(__m512 unrounded, __m512 reciprocal)
{
	struct scales s = round_scale(_mm512_max_ps(unrounded, _mm512_set1_ps(MXFP_UE4M3_MIN_NORMAL)));

	s.factor = _mm512_div_ps(reciprocal, s.value);
	return s;
}

/* compressed-tensors: a scale of 0 becomes 0.125. */
ALWAYS_INLINE struct scales ct_scales(const struct tensor *t, __m512 amax)
{
	const __m512 g = _mm512_set1_ps(t->of.scale);
	struct scales s = round_scale(_mm512_mul_ps(g, sixth(amax)));
	__mmask16 zero = _mm512_testn_epi32_mask(s.byte, s.byte);

	s.byte = _mm512_mask_mov_epi32(s.byte, zero, _mm512_set1_epi32(MXFP_UE4M3_EIGHTH));
	s.value = _mm512_mask_mov_ps(s.value, zero, _mm512_set1_ps(0.125f));
	s.factor = _mm512_div_ps(s.value, g);
	return s;
}

ALWAYS_INLINE struct scales modelopt_scales(const struct tensor *t, __m512 amax)
{
	const __m512 g = _mm512_set1_ps(t->of.scale);
	__m512 unrounded = _mm512_div_ps(amax, _mm512_set1_ps(t->of.six_scales));
	__mmask16 zero = _mm512_cmp_ps_mask(unrounded, _mm512_setzero_ps(), _CMP_EQ_OQ);
	const float least = t->recipe == MXFP_RECIPE_MODELOPT ? 0 : MXFP_UE4M3_MIN;

	unrounded = _mm512_max_ps(_mm512_mask_mov_ps(unrounded, zero, _mm512_set1_ps(1)), _mm512_set1_ps(least));
	struct scales s = round_scale(unrounded);
	s.factor = _mm512_mul_ps(s.value, g);
	return s;
}

/* modelopt-4over6, for an amax as it is or times 1.5; round_scale() applies the upper limit, also to Inf. */
ALWAYS_INLINE struct scales modelopt_4over6_scales(const struct tensor *t, __m512 amax)
{
	__m512 unrounded = sixth(amax);
	__mmask16 zero = _mm512_cmp_ps_mask(unrounded, _mm512_setzero_ps(), _CMP_EQ_OQ);

	unrounded = _mm512_mask_mov_ps(unrounded, zero, _mm512_set1_ps(1));
	unrounded = _mm512_div_ps(_mm512_mul_ps(unrounded, _mm512_set1_ps(256)), _mm512_set1_ps(t->of.sixth));
	struct scales s = round_scale(_mm512_max_ps(unrounded, _mm512_set1_ps(MXFP_UE4M3_MIN)));
	s.factor = _mm512_mul_ps(s.value, _mm512_set1_ps(t->of.scale));
	return s;
}

/* The recipe's scales for blocks with these largest magnitudes, all finite. A recipe that chooses has those that scale a
   magnitude to 6. */
ALWAYS_INLINE struct scales block_scales(const struct tensor *t, __m512 amax)
{
	struct scales s;

	switch (t->recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		break;
	case MXFP_RECIPE_TORCHAO:
		return torchao_scales(_mm512_div_ps(sixth(amax), _mm512_set1_ps(t->of.scale)),
		                      _mm512_set1_ps(t->of.reciprocal));
	case MXFP_RECIPE_TORCHAO_1:
		return torchao_scales(sixth(amax), _mm512_set1_ps(1));
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		return ct_scales(t, amax);
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
		return modelopt_scales(t, amax);
	case MXFP_RECIPE_GGML:
		s = round_scale_ggml(sixth(amax));
		s.factor = s.value;
		return s;
	case MXFP_RECIPE_MODELOPT_4OVER6:
		return modelopt_4over6_scales(t, amax);
	}
	return te_scales(t, te_unrounded(t, amax));
}

/*
 * Encoding to e2m1, a vector per block of 16, and 8 blocks to 64 bytes of codes.
 *
 * With P the power of two at or below |q|, but at least 1, fma(|q|, 2^-22, P) has e2m1's unit P / 2 in its last bit: it
 * rounds once and leaves n in the low bits and P in the exponent, and the code is n + 2 log2 P. vpdpwssd computes that
 * sum from the two halves of a lane, times a power of two that shifts it to the block's place in a word of 8 codes.
 */

/* A group is 16 blocks, one lane each for their scales; a word holds the codes of one lane in 8 blocks. */
enum { BLOCK = MXFP_NVFP4_BLOCK, GROUP = GROUP_BLOCKS * BLOCK, WORD_BLOCKS = 8 };

/* What is rounded: number times factor, number over factor, or by NEAREST, ggml's search of its table. */
enum quotient { PRODUCT, QUOTIENT, NEAREST };

/* QUICK: to nearest even, nothing saturates; CAREFUL: to nearest even, something may. */
enum rounding { QUICK, CAREFUL, STOCHASTIC };

struct group {
	const float *x;          /* GROUP numbers; those past the end of the row are 0 */
	size_t n;                /* numbers in the row */
	enum rounding rounding;
	float factor[GROUP_BLOCKS];
	uint64_t first_index;    /* of x[0] in the tensor */
	const uint32_t *random;  /* STOCHASTIC: a word per number */
	uint8_t *codes;
	const char *ahead;       /* the source some groups later, to prefetch */
	size_t ahead_step;       /* bytes of a block of the source */
	__m512i zero_signs;      /* all ones if a code of zero keeps its sign, else 0 */
	uint64_t saturated, flushed;
	float copy[GROUP];       /* used unless x is in the source */
};

#define ONE_BITS 0x3F800000           /* P = 1, n = 0: code 0 */
#define SIX_BITS (0x40800000 | 3)     /* P = 4, n = 3: code 7 */

ALWAYS_INLINE __m512 absolute(__m512 x)
{
	return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)));
}

/* P for a magnitude. */
ALWAYS_INLINE __m512i binade(__m512 a)
{
	__m512i exponent = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(F32_INF));

	return _mm512_max_epu32(exponent, _mm512_set1_epi32(ONE_BITS));
}

ALWAYS_INLINE __m512i round_even(__m512 a, __m512i p)
{
	return _mm512_castps_si512(_mm512_fmadd_ps(a, _mm512_set1_ps(0x1p-22f), _mm512_castsi512_ps(p)));
}

/* Rounds away from zero if the random word is below the fraction of the unit times 2^32, as in ref/minifloat.c. The
   fraction is exact, and a word is below it if it is below the fraction rounded up. */
ALWAYS_INLINE __m512i round_stochastic(__m512 a, __m512i p, __m512i random)
{
	__m512 down = _mm512_fmadd_round_ps(a, _mm512_set1_ps(0x1p-22f), _mm512_castsi512_ps(p),
	                                    _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
	__m512i n = _mm512_sub_epi32(_mm512_castps_si512(down), p);
	/* 2 / P: the exponents add up to that of 2^1. */
	__m512 units = _mm512_mul_ps(a, _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(F32_INF), p)));
	__m512 fraction = _mm512_mul_ps(_mm512_sub_ps(units, _mm512_cvtepi32_ps(n)), _mm512_set1_ps(0x1p32f));
	__m512i limit = _mm512_cvt_roundps_epu32(fraction, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
	__mmask16 up = _mm512_cmplt_epu32_mask(random, limit);

	return _mm512_mask_add_epi32(_mm512_castps_si512(down), up, _mm512_castps_si512(down), _mm512_set1_epi32(1));
}

/* ggml: the first code whose product with the scale is nearest. The sign is that of x, because codes of the other sign
   are at least as far as zero, which comes first. Products are exact, so each distance rounds once. */
ALWAYS_INLINE __m512i nearest(__m512 x, __m512 scale)
{
	static const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	__m512 a = absolute(x), least = a;
	__m512i code = _mm512_setzero_si512();

#pragma GCC unroll 8
	for (int c = 1; c < 8; c++) {
		__m512 distance = absolute(_mm512_fmsub_ps(scale, _mm512_set1_ps(values[c]), a));
		__mmask16 less = _mm512_cmp_ps_mask(distance, least, _CMP_LT_OQ);
		least = _mm512_mask_mov_ps(least, less, distance);
		code = _mm512_mask_mov_epi32(code, less, _mm512_set1_epi32(c));
	}
	return _mm512_add_epi32(code, _mm512_set1_epi32(ONE_BITS));
}

/* The number that is rounded to the code of x. A zero quotient loses its sign, and 0 / 0 gives code 7, not counted as
   saturated. */
ALWAYS_INLINE __m512 quotient_of(enum quotient kind, __m512 x, __m512 factor)
{
	if (kind == PRODUCT)
		return _mm512_mul_ps(x, factor);
	if (kind == NEAREST)
		return x;
	__m512 q = _mm512_div_ps(x, factor);
	q = _mm512_mask_mov_ps(q, _mm512_cmp_ps_mask(q, q, _CMP_UNORD_Q), _mm512_set1_ps(6));
	return _mm512_add_ps(q, _mm512_setzero_ps());
}

/* The rounded magnitudes of block b, n and P in each lane; the top bits of *sign are their signs. */
ALWAYS_INLINE __m512i round_block(enum quotient kind, enum rounding rounding, struct group *g, int b, __m512 *sign)
{
	__m512 x = _mm512_loadu_ps(g->x + b * BLOCK), factor = _mm512_set1_ps(g->factor[b]);
	_mm_prefetch(g->ahead + (size_t)b * g->ahead_step, _MM_HINT_T0);
	__m512 a = absolute(*sign = quotient_of(kind, x, factor));

	if (kind == NEAREST)
		return nearest(x, factor);
	if (rounding == QUICK)
		return round_even(a, binade(a));
	/* 8 is past the largest number however it is rounded. */
	a = _mm512_min_ps(a, _mm512_set1_ps(8));
	__m512i r = rounding == CAREFUL ? round_even(a, binade(a))
	                                : round_stochastic(a, binade(a), _mm512_loadu_si512(g->random + b * BLOCK));
	__mmask16 past = _mm512_cmpgt_epu32_mask(r, _mm512_set1_epi32(SIX_BITS));
	__mmask16 zero = _mm512_cmpeq_epu32_mask(r, _mm512_set1_epi32(ONE_BITS));
	g->saturated += (unsigned)_mm_popcnt_u32(past);
	g->flushed += (unsigned)_mm_popcnt_u32(
		_mm512_mask_test_epi32_mask(zero, _mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)));
	return _mm512_min_epu32(r, _mm512_set1_epi32(SIX_BITS));
}

/* Packs eight 4-bit codes per lane, that of block k at bit 4 k, to 8 bytes per block. */
ALWAYS_INLINE __m512i pack_words(__m512i words)
{
	/* In each pair of lanes, the lower one gets the bytes of the even blocks and the upper one those of the odd. */
	const __m512i turns = _mm512_set1_epi64(INT64_C(28) << 32 | 4);
	const __m512i own = _mm512_set1_epi64((int64_t)UINT64_C(0xF0F0F0F00F0F0F0F));
	/* Byte i of block k, at 8 k + i, comes from lanes 2 i and 2 i + 1, which are bytes 8 i to 8 i + 7. */
	const __m512i place = _mm512_set_epi8(63, 55, 47, 39, 31, 23, 15, 7, 59, 51, 43, 35, 27, 19, 11, 3, 62, 54, 46, 38,
	                                      30, 22, 14, 6, 58, 50, 42, 34, 26, 18, 10, 2, 61, 53, 45, 37, 29, 21, 13, 5,
	                                      57, 49, 41, 33, 25, 17, 9, 1, 60, 52, 44, 36, 28, 20, 12, 4, 56, 48, 40, 32,
	                                      24, 16, 8, 0);
	__m512i others = _mm512_rolv_epi32(_mm512_shuffle_epi32(words, _MM_PERM_CDAB), turns);

	return _mm512_permutexvar_epi8(place, _mm512_ternarylogic_epi32(own, words, others, 0xCA));
}

/* The codes of blocks first to first + 7 of the group. QUICK rounding, also of NEAREST, counts every zero as flushed;
   prepare() has subtracted the zeros of the source. */
ALWAYS_INLINE __m512i encode_word(enum quotient kind, enum rounding rounding, struct group *g, int first)
{
	/* Blocks 3 i to 3 i + 2 share a sum, at bits 6, 10 and 14; for P = 1, vpdpwssd adds (127 << 7) << 0, 4 or 8. */
	enum { SUMS = 3, AT = 6, ONE_HIGH = ONE_BITS >> 16 };
	__m512i sum[SUMS] = {_mm512_set1_epi32(-ONE_HIGH * 0x111), _mm512_set1_epi32(-ONE_HIGH * 0x111),
	                     _mm512_set1_epi32(-ONE_HIGH * 0x11)};
	__m512i signs = _mm512_setzero_si512();
	const __m512i top = _mm512_set1_epi32((int32_t)0x88888888);

#pragma GCC unroll 8
	for (int k = WORD_BLOCKS - 1; k >= 0; k--) {
		const int up = 4 * (k % SUMS);
		__m512 sign;
		__m512i r = round_block(kind, rounding, g, first + k, &sign);
		sum[k / SUMS] = _mm512_dpwssd_epi32(sum[k / SUMS], r, _mm512_set1_epi32(1 << (16 + up) | 1 << (AT + up)));
		signs = _mm512_shldi_epi32(signs, _mm512_castps_si512(sign), 4);
	}
	__m512i words = _mm512_ternarylogic_epi32(_mm512_srli_epi32(sum[0], AT), _mm512_slli_epi32(sum[1], 12 - AT),
	                                          _mm512_slli_epi32(sum[2], 24 - AT), 0xFE);
	if (rounding == QUICK) {
		g->flushed += (unsigned)_mm_popcnt_u64(_mm512_testn_epi8_mask(words, _mm512_set1_epi8(0x0F)));
		g->flushed += (unsigned)_mm_popcnt_u64(_mm512_testn_epi8_mask(words, _mm512_set1_epi8((int8_t)0xF0)));
	}
	/* Magnitudes are at most 7: adding 7 sets the top bit of those that are not zero. */
	__m512i nonzero = _mm512_add_epi32(words, _mm512_set1_epi32(0x77777777));
	nonzero = _mm512_or_si512(nonzero, g->zero_signs);
	signs = _mm512_ternarylogic_epi32(signs, nonzero, top, 0x80);
	return pack_words(_mm512_or_si512(words, signs));
}

/*
 * The two steps for a group: prepare() loads it and chooses its scales, finish() encodes it.
 */

enum { AHEAD = 8192, PAGE = 4096 };

/* Two groups, so that one is prepared while the other is encoded: see run_groups(). */
struct quantizer {
	const struct mxfp_quantize_job *job;
	struct tensor tensor;
	struct group groups[2];
	uint32_t random[GROUP + PHILOX_SLACK];
};

ALWAYS_INLINE void copy_numbers(float *x, enum mxfp_format from, const void *src, size_t i, size_t n)
{
	for (size_t k = 0; k < GROUP; k += LANES)
		_mm512_storeu_ps(x + k, load_numbers(src, from, i + k, lanes_left(k, n)));
}

/* n numbers of a row from column k on, as binary32: in the source if possible, else a copy. */
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

/* The largest magnitude of each block; a lane of *least becomes 0 if there is a zero. */
ALWAYS_INLINE __m512i largest_magnitudes(const float *x, __m512i *least)
{
	__m512i v[GROUP_BLOCKS];

	*least = _mm512_set1_epi32(INT32_MAX);
#pragma GCC unroll 16
	for (int b = 0; b < GROUP_BLOCKS; b++) {
		v[b] = _mm512_and_si512(_mm512_loadu_si512(x + b * BLOCK), _mm512_set1_epi32(INT32_MAX));
		*least = _mm512_min_epu32(*least, v[b]);
	}
	return reduce_each(v, LARGEST);
}

/* Copies a group with a NaN or Inf and applies the policy. A block that becomes NaN as a whole becomes zeros, whose
   codes it gets. Returns the mask of such blocks; *amax and *least are those of the copy. */
static NOINLINE __mmask16 remove_non_finite(const struct mxfp_quantize_job *job, float *copy, const float *x, __m512i *amax, __m512i *least)
{
	unsigned all_nan = 0;

	for (int b = 0; b < GROUP_BLOCKS; b++) {
		__m512i bits = _mm512_loadu_si512(x + b * BLOCK);
		const bool bad = mend_numbers(job, &bits);

		all_nan |= (unsigned)bad << b;
		_mm512_storeu_si512(copy + b * BLOCK, bad ? _mm512_setzero_si512() : bits);
	}
	*amax = largest_magnitudes(copy, least);
	return (__mmask16)all_nan;
}

/* The squared errors of two blocks at a candidate scale of 4over6, or of modelopt-4over6, which divides; the squares of
   lanes j and j + 8 of a block are already added, by one fma. */
ALWAYS_INLINE __m512i squares(const struct tensor *t, const float *x, const float *factor, const float *value, int b,
                              bool divide)
{
	__m512 d[2];

#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		const int block = b + (b < 4 ? 0 : 4) + 4 * i;
		__m512 number = absolute(_mm512_loadu_ps(x + block * BLOCK));
		const __m512 by = _mm512_set1_ps(factor[block]);
		__m512 a = _mm512_min_ps(divide ? _mm512_div_ps(number, by) : _mm512_mul_ps(number, by), _mm512_set1_ps(6));
		__m512i p = binade(a);
		/* n P / 2^23, the code's number times 2^-22; its product with `value`, the scale times 2^22, is exact. */
		__m512 code = _mm512_sub_ps(_mm512_castsi512_ps(round_even(a, p)), _mm512_castsi512_ps(p));
		if (divide)
			d[i] = _mm512_sub_ps(number, _mm512_mul_ps(_mm512_mul_ps(code, _mm512_set1_ps(0x1p22f)), by));
		else
			d[i] = _mm512_fnmadd_ps(code, _mm512_set1_ps(value[block]),
			                        _mm512_mul_ps(number, _mm512_set1_ps(t->of.encode)));
	}
	__m512 low = _mm512_shuffle_f32x4(d[0], d[1], 0x44), high = _mm512_shuffle_f32x4(d[0], d[1], 0xEE);
	return _mm512_castps_si512(_mm512_fmadd_ps(high, high, _mm512_mul_ps(low, low)));
}

/* The squared errors of all blocks, in the order of mxfp_ref_squared_error(). */
ALWAYS_INLINE __m512 squared_errors(const struct tensor *t, const float *x, const struct scales *s, bool divide)
{
	float factor[GROUP_BLOCKS], value[GROUP_BLOCKS];
	__m512i v[WORD_BLOCKS];

	_mm512_storeu_ps(factor, s->factor);
	_mm512_storeu_ps(value, _mm512_mul_ps(s->value, _mm512_set1_ps(0x1p22f)));
#pragma GCC unroll 8
	for (int b = 0; b < WORD_BLOCKS; b++)
		v[b] = squares(t, x, factor, value, b, divide);
	return _mm512_castsi512_ps(reduce_halves(v, SUM));
}

/* Takes the scale that scales the largest magnitude to 4 if its error is smaller. No error is NaN, because no difference
   exceeds Inf. */
ALWAYS_INLINE void choose(const struct tensor *t, const float *x, const struct scales *four, struct scales *s, bool divide)
{
	__mmask16 less = _mm512_cmp_ps_mask(squared_errors(t, x, four, divide), squared_errors(t, x, s, divide), _CMP_LT_OQ);

	s->byte = _mm512_mask_mov_epi32(s->byte, less, four->byte);
	s->factor = _mm512_mask_mov_ps(s->factor, less, four->factor);
}

static NOINLINE void choose_te(const struct tensor *t, const float *x, __m512 amax, struct scales *s)
{
	__m512 unrounded = _mm512_mul_ps(_mm512_set1_ps(1.5f), te_unrounded(t, amax));
	struct scales four = te_scales(t, unrounded);

	choose(t, x, &four, s, false);
}

static NOINLINE void choose_modelopt(const struct tensor *t, const float *x, __m512 amax, struct scales *s)
{
	struct scales four = modelopt_4over6_scales(t, _mm512_mul_ps(_mm512_set1_ps(1.5f), amax));

	choose(t, x, &four, s, true);
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

/* How the group is rounded: nothing saturates if the largest magnitudes do not. */
ALWAYS_INLINE enum rounding rounding_of(const struct quantizer *q, enum quotient kind, __m512 amax, __m512 factor)
{
	if (kind == NEAREST)
		return QUICK;
	if (q->job->rounding.mode == MXFP_ROUND_SR)
		return STOCHASTIC;
	__m512 largest = kind == QUOTIENT ? _mm512_div_ps(amax, factor) : _mm512_mul_ps(amax, factor);
	return _mm512_cmp_ps_mask(largest, _mm512_set1_ps(7), _CMP_NLT_UQ) == 0 ? QUICK : CAREFUL;
}

/* The mask of the blocks that hold n numbers. */
ALWAYS_INLINE __mmask16 blocks_present(size_t n)
{
	return lanes_left(0, (n + BLOCK - 1) / BLOCK);
}

/* Clears the codes of padding, which are not 0 if the quotients were 0 / 0. */
static inline void clear_padding(uint8_t *codes, size_t n)
{
	size_t end = (n + BLOCK - 1) / BLOCK * BLOCK;

	if (n % 2 != 0)
		codes[n++ / 2] &= 0x0F;
	memset(codes + n / 2, 0, (end - n) / 2);
}

/* Loads the group at column k of a row, stores its scales and sets what encoding needs. */
ALWAYS_INLINE void prepare(struct quantizer *q, enum quotient kind, struct group *g, size_t row, size_t k)
{
	const struct mxfp_quantize_job *job = q->job;
	const size_t width = job->src_format == MXFP_FORMAT_F32 ? sizeof(float) : sizeof(uint16_t);
	g->n = job->cols - k < GROUP ? job->cols - k : GROUP;
	const float *x = group_numbers(job, g->copy, row, k, g->n);
	__mmask16 all_nan = 0;
	__m512i least, amax = largest_magnitudes(x, &least);

	if (__builtin_expect(_mm512_cmpge_epu32_mask(amax, _mm512_set1_epi32(F32_INF)) != 0, 0)) {
		__m512i found[2]; /* amax and least have no address, so they stay in registers */

		all_nan = remove_non_finite(job, g->copy, x, &found[0], &found[1]);
		x = g->copy;
		amax = found[0];
		least = found[1];
	}
	struct scales s = block_scales(&q->tensor, _mm512_castsi512_ps(amax));
	if (job->recipe == MXFP_RECIPE_4OVER6)
		choose_te(&q->tensor, x, _mm512_castsi512_ps(amax), &s);
	else if (job->recipe == MXFP_RECIPE_MODELOPT_4OVER6)
		choose_modelopt(&q->tensor, x, _mm512_castsi512_ps(amax), &s);
	g->x = x;
	g->ahead = (const char *)job->src + (row * job->src_stride + k) * width + AHEAD;
	g->ahead_step = BLOCK * width;
	g->first_index = job->first_index + row * job->cols + k;
	g->codes = job->codes + row * job->codes_stride + k / 2;
	g->rounding = rounding_of(q, kind, _mm512_castsi512_ps(amax), s.factor);
	_mm512_storeu_ps(g->factor, s.factor);
	if (g->rounding == QUICK && _mm512_testn_epi32_mask(least, least) != 0)
		g->flushed -= count_zeros(x, GROUP);
	s.byte = _mm512_mask_mov_epi32(s.byte, all_nan, _mm512_set1_epi32(MXFP_UE4M3_NAN));
	_mm_mask_storeu_epi8(job->scales + row * job->scales_stride + k / BLOCK, blocks_present(g->n),
	                     _mm512_cvtepi32_epi8(s.byte));
}

/* Out of line, so that it takes no registers from rounding to nearest. */
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
	/* One more line, a page later, so that its address is translated in time. */
	_mm_prefetch(g->ahead + PAGE, _MM_HINT_T1);
	for (int i = 0; i < 2; i++)
		_mm512_mask_storeu_epi64(g->codes + i * VECTOR_BYTES, (__mmask8)(present >> i * WORD_BLOCKS),
		                         encode(kind, g, i * WORD_BLOCKS));
	if (g->n % BLOCK != 0)
		clear_padding(g->codes, g->n);
}

#define GROUPS_OF(kind, prepare_kind, finish_kind) \
	ALWAYS_INLINE void prepare_kind(void *context, unsigned which, size_t row, size_t k) \
	{ \
		struct quantizer *q = context; \
		prepare(q, kind, &q->groups[which], row, k); \
	} \
	ALWAYS_INLINE void finish_kind(void *context, unsigned which) \
	{ \
		struct quantizer *q = context; \
		finish(q, kind, &q->groups[which]); \
	}
GROUPS_OF(NEAREST, prepare_nearest, finish_nearest)
GROUPS_OF(QUOTIENT, prepare_quotient, finish_quotient)
GROUPS_OF(PRODUCT, prepare_product, finish_product)
#undef GROUPS_OF

/* Returns false if body/nvfp4.c must do it. */
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
		run_groups(&q, job->rows, job->cols, GROUP, prepare_nearest, finish_nearest);
	else if (mxfp_nvfp4_divides(job->recipe))
		run_groups(&q, job->rows, job->cols, GROUP, prepare_quotient, finish_quotient);
	else
		run_groups(&q, job->rows, job->cols, GROUP, prepare_product, finish_product);
	for (int i = 0; i < 2; i++) {
		job->counts->saturated += q.groups[i].saturated;
		job->counts->flushed += q.groups[i].flushed;
	}
	return true;
}

void TIER(quantize_nvfp4_groups)(const struct mxfp_quantize_job *job)
{
	struct fp_state state = fp_enter();
	bool done = quantize(job);

	fp_leave(state);
	if (!done)
		TIER(quantize_nvfp4)(job);
}
