/* SPDX-License-Identifier: MIT */
/*
 * The recipes of NVFP4, one block per lane: the binary32 operations of ref/nvfp4.c in the same order, where every
 * operator rounds once. A NaN may have another sign than in the reference; its code in the output has no sign.
 */
#ifndef MXFP_BODY_NVFP4_RECIPE_H
#define MXFP_BODY_NVFP4_RECIPE_H

#include "body/decode.h"
#include "body/encode.h"
#include "body/nearest.h"
#include "body/nvfp4_tensor.h"

struct recipe {
	enum mxfp_recipe recipe;
	struct nvfp4_tensor tensor;
	struct nearest nearest; /* these three are for the format of scales */
	struct encoder ties_up;
	struct decoder values;
};

/* Computes what all blocks of a tensor share from its amax. */
static void recipe_init(struct recipe *r, const struct mxfp_quantize_job *job)
{
	const struct mxfp_format_info *scale = mxfp_format_get_info(mxfp_format_get_info(job->format)->scale);
	const struct mxfp_nvfp4_tensor tensor = mxfp_nvfp4_tensor_ref(job->recipe, job->tensor_amax);

	r->recipe = job->recipe;
	nearest_init(&r->nearest, scale, MXFP_OVERFLOW_SAT);
	encoder_init(&r->ties_up, scale, &(struct mxfp_rounding){.mode = MXFP_ROUND_RNA});
	decoder_init(&r->values, scale);
	nvfp4_tensor_init(&r->tensor, &tensor);
}

/* min(x, limit); NaN stays. */
ALWAYS_INLINE vf32 at_most(vf32 x, float limit)
{
	return (vf32)blend(x > limit, (vu32)splat_f32(limit), (vu32)x);
}

ALWAYS_INLINE vf32 at_least(vf32 x, float limit)
{
	return (vf32)blend(x < limit, (vu32)splat_f32(limit), (vu32)x);
}

ALWAYS_INLINE vf32 torchao_clamp(vf32 x)
{
	return at_most(at_least(x, MXFP_UE4M3_MIN_NORMAL), MXFP_UE4M3_MAX);
}

/* The scales of blocks before rounding, for an amax that grows by this factor, which is 1 unless the recipe chooses. */
static inline vf32 unrounded_scales(const struct recipe *r, vf32 amax, float grow)
{
	vf32 u;

	switch (r->recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return grow * (amax * r->tensor.encode_sixth);
	case MXFP_RECIPE_TORCHAO:
		return torchao_clamp(amax / 6.0F / r->tensor.scale);
	case MXFP_RECIPE_TORCHAO_1:
		return torchao_clamp(amax / 6.0F);
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		return r->tensor.scale * (amax / 6.0F);
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
		u = amax / r->tensor.six_scales;
		u = (vf32)blend(u == 0.0F, (vu32)splat_f32(1.0F), (vu32)u);
		return r->recipe == MXFP_RECIPE_MODELOPT ? u : at_least(u, MXFP_UE4M3_MIN);
	case MXFP_RECIPE_GGML:
		return amax / 6.0F;
	case MXFP_RECIPE_MODELOPT_4OVER6:
		u = grow * amax / 6.0F;
		u = (vf32)blend(u == 0.0F, (vu32)splat_f32(1.0F), (vu32)u);
		return at_least(u * 256.0F / r->tensor.sixth, MXFP_UE4M3_MIN);
	}
	return amax;
}

/* ggml's ue4m3: 448 from 248 on, its own rounding for subnormals, ties away from zero between. */
static inline vu32 ggml_scales(const struct recipe *r, vf32 v)
{
	struct lane_counts unused = {0};
	vu32 subnormal = (vu32)__builtin_convertvector(at_most(v * 512.0F + 0.5F, 7.0F), vs32);
	vu32 normal = encode_lanes(&r->ties_up, false, MXFP_ROUND_RNA, (vu32)v, splat(r->ties_up.normal_field), splat(0),
	                           &unused);

	return blend(v >= 248.0F, splat(r->ties_up.max_code), blend(v < MXFP_UE4M3_MIN_NORMAL, subnormal, normal));
}

static inline vu32 round_scales(const struct recipe *r, vf32 u)
{
	const struct nearest *e = &r->nearest;
	vu32 code;

	if (r->recipe == MXFP_RECIPE_GGML)
		return ggml_scales(r, u);
	code = blend(u == u, nearest_codes(e, min_u32((vu32)u, splat(e->max)), e->normal_field), splat(MXFP_UE4M3_NAN));
	return r->recipe == MXFP_RECIPE_COMPRESSED_TENSORS ? blend(code == 0, splat(MXFP_UE4M3_EIGHTH), code) : code;
}

static inline vf32 scale_factors(const struct recipe *r, vf32 scale)
{
	switch (r->recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return at_most(1.0F / (scale * r->tensor.decode), float_of(F32_MAX));
	case MXFP_RECIPE_TORCHAO:
		return r->tensor.reciprocal / scale;
	case MXFP_RECIPE_TORCHAO_1:
		return 1.0F / scale;
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		return scale / r->tensor.scale;
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
	case MXFP_RECIPE_MODELOPT_4OVER6:
		return scale * r->tensor.scale;
	case MXFP_RECIPE_GGML:
		break;
	}
	return scale;
}

#endif
