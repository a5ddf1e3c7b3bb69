/* SPDX-License-Identifier: MIT */
/*
 * The block scales of NVFP4 in vectors: 16 blocks, one a lane. The recipes are those of ref/nvfp4.c, operation by
 * operation, so every one of them rounds as there; what a recipe makes of the tensor is made once.
 */
#ifndef MXFP_AVX512_NVFP4_SCALE_H
#define MXFP_AVX512_NVFP4_SCALE_H

#include "kernels.h"
#include "body/nvfp4_tensor.h"

#define SCALE_MIN 0x1p-9f
#define SCALE_MIN_NORMAL 0x1p-6f
#define SCALE_MAX 448.0f
#define FLOAT_MAX 0x1.fffffep127f

enum { SCALE_BIAS = 7, SCALE_SIGNIFICAND_BITS = 3 };

struct tensor {
	enum mxfp_recipe recipe;
	struct nvfp4_tensor of;
};

/* The scales of 16 blocks, and what their numbers are multiplied with, or divided by (mxfp_nvfp4_divides()). */
struct scales {
	__m512i byte;
	__m512 value, factor;
};

/* No 0 times or over a scale is NaN, but for a block scale of 0 in modelopt. */
static inline void tensor_init(struct tensor *t, const struct mxfp_quantize_job *job)
{
	const struct mxfp_nvfp4_tensor bits = mxfp_nvfp4_tensor_ref(job->recipe, job->tensor_amax);

	t->recipe = job->recipe;
	nvfp4_tensor_init(&t->of, &bits);
}

/* v >= 0 to nearest even; not NaN. With P the power of two below v, or that of the smallest normal scale, the sum of v
   and 2^20 P has the unit P / 8, and the code is a number of units counted from P = 2^-6, as in ref/minifloat.c. */
ALWAYS_INLINE struct scales round_scale(__m512 v)
{
	const int first = (F32_BIAS - SCALE_BIAS + 1) << SCALE_SIGNIFICAND_BITS;
	const unsigned up = F32_SIGNIFICAND_BITS - SCALE_SIGNIFICAND_BITS;
	struct scales s;

	v = _mm512_min_ps(v, _mm512_set1_ps(SCALE_MAX));
	__m512i p = _mm512_and_si512(_mm512_castps_si512(_mm512_max_ps(v, _mm512_set1_ps(SCALE_MIN_NORMAL))),
	                             _mm512_set1_epi32(F32_INF));
	__m512i large = _mm512_add_epi32(p, _mm512_set1_epi32(20 << F32_SIGNIFICAND_BITS));
	__m512 sum = _mm512_add_ps(v, _mm512_castsi512_ps(large));
	s.value = _mm512_sub_ps(sum, _mm512_castsi512_ps(large));
	s.byte = _mm512_sub_epi32(_mm512_castps_si512(sum), large);
	s.byte = _mm512_add_epi32(s.byte, _mm512_sub_epi32(_mm512_srli_epi32(p, up), _mm512_set1_epi32(first)));
	return s;
}

/* ggml's rounding: 448 from 248 on, half up, and below 2^-6 by a sum that is rounded before it is cut off. */
ALWAYS_INLINE struct scales round_scale_ggml(__m512 v)
{
	const unsigned up = F32_SIGNIFICAND_BITS - SCALE_SIGNIFICAND_BITS;
	const int rebias = (F32_BIAS - SCALE_BIAS) << SCALE_SIGNIFICAND_BITS;
	const __m512 subnormals = _mm512_set1_ps(512);
	const __m512i half = _mm512_set1_epi32(1 << (up - 1));
	struct scales s;

	v = _mm512_min_ps(v, _mm512_set1_ps(SCALE_MAX));
	s.byte = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(v), half), up);
	s.byte = _mm512_sub_epi32(s.byte, _mm512_set1_epi32(rebias));
	s.byte = _mm512_mask_mov_epi32(s.byte, _mm512_cmp_ps_mask(v, _mm512_set1_ps(248), _CMP_GE_OQ),
	                               _mm512_set1_epi32(0x7E));
	s.value = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(s.byte, _mm512_set1_epi32(rebias)), up));
	__mmask16 small = _mm512_cmp_ps_mask(v, _mm512_set1_ps(SCALE_MIN_NORMAL), _CMP_LT_OQ);
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

/* te and 4over6: the scale nearest to the unrounded one. */
ALWAYS_INLINE struct scales te_scales(const struct tensor *t, __m512 unrounded)
{
	const __m512 one = _mm512_set1_ps(1);
	struct scales s = round_scale(unrounded);

	s.factor = _mm512_div_ps(one, _mm512_mul_ps(s.value, _mm512_set1_ps(t->of.decode)));
	s.factor = _mm512_min_ps(s.factor, _mm512_set1_ps(FLOAT_MAX));
	return s;
}

ALWAYS_INLINE __m512 te_unrounded(const struct tensor *t, __m512 amax)
{
	return _mm512_mul_ps(amax, _mm512_set1_ps(t->of.encode_sixth));
}

/* torchao: not below 2^-6; round_scale() clamps at the other end. */
ALWAYS_INLINE struct scales torchao_scales(__m512 unrounded, __m512 reciprocal)
{
	struct scales s = round_scale(_mm512_max_ps(unrounded, _mm512_set1_ps(SCALE_MIN_NORMAL)));

	s.factor = _mm512_div_ps(reciprocal, s.value);
	return s;
}

/* compressed-tensors: 0.125 for a scale of 0. */
ALWAYS_INLINE struct scales ct_scales(const struct tensor *t, __m512 amax)
{
	const __m512 g = _mm512_set1_ps(t->of.scale);
	struct scales s = round_scale(_mm512_mul_ps(g, sixth(amax)));
	__mmask16 zero = _mm512_testn_epi32_mask(s.byte, s.byte);

	s.byte = _mm512_mask_mov_epi32(s.byte, zero, _mm512_set1_epi32(0x20));
	s.value = _mm512_mask_mov_ps(s.value, zero, _mm512_set1_ps(0.125f));
	s.factor = _mm512_div_ps(s.value, g);
	return s;
}

ALWAYS_INLINE struct scales modelopt_scales(const struct tensor *t, __m512 amax)
{
	const __m512 g = _mm512_set1_ps(t->of.scale);
	__m512 unrounded = _mm512_div_ps(amax, _mm512_set1_ps(t->of.six_scales));
	__mmask16 zero = _mm512_cmp_ps_mask(unrounded, _mm512_setzero_ps(), _CMP_EQ_OQ);
	const float least = t->recipe == MXFP_RECIPE_MODELOPT ? 0 : SCALE_MIN;

	unrounded = _mm512_max_ps(_mm512_mask_mov_ps(unrounded, zero, _mm512_set1_ps(1)), _mm512_set1_ps(least));
	struct scales s = round_scale(unrounded);
	s.factor = _mm512_mul_ps(s.value, g);
	return s;
}

/* The recipe's scales of blocks with these largest magnitudes, all finite; of 4over6 the one that puts them at 6. */
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
	case MXFP_RECIPE_CT:
		return ct_scales(t, amax);
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
		return modelopt_scales(t, amax);
	case MXFP_RECIPE_GGML:
		s = round_scale_ggml(sixth(amax));
		s.factor = s.value;
		return s;
	}
	return te_scales(t, te_unrounded(t, amax));
}

#endif
