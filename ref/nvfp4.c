/* SPDX-License-Identifier: MIT */
/*
 * NVFP4: doc/numerics.md, section 4. 16 e2m1 elements share a ue4m3 scale, and most recipes add a binary32 scale for
 * the tensor. The recipes differ in the order of a few binary32 operations, so each is written out; every mxfp_f32_
 * call rounds once.
 */
#include <string.h>

#include "f32.h"
#include "minifloat.h"
#include "pack.h"
#include "ref.h"
#include "scale.h"

/* SCALE_EPS: 0.125, which compressed-tensors uses for a scale of 0. */
enum { BLOCK = MXFP_NVFP4_BLOCK, SCALE_NAN = MXFP_UE4M3_NAN, SCALE_EPS = MXFP_UE4M3_EIGHTH };

/* binary32 constants. */
#define F32_HALF UINT32_C(0x3F000000)
#define F32_ONE UINT32_C(0x3F800000)
#define F32_ONE_AND_HALF UINT32_C(0x3FC00000)
#define F32_SIX UINT32_C(0x40C00000)
#define F32_SIXTH UINT32_C(0x3E2AAAAB)           /* fl32(1/6) */
#define F32_248 UINT32_C(0x43780000)
#define F32_256 UINT32_C(0x43800000)
#define F32_1536 UINT32_C(0x44C00000)             /* 6 * 256 */
#define F32_2688 UINT32_C(0x45280000)             /* 6 * 448 */
#define F32_TORCHAO_LEAST UINT32_C(0x03000000)    /* 2^-121: the least power of two g with (1/g) / 2^-6 finite */
#define F32_MODELOPT_LEAST UINT32_C(0x00000200)   /* 2^-140: the least power of two g with 2^-9 * g not 0 */

static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE}, rna = {.mode = MXFP_ROUND_RNA};

static uint32_t e2m1(uint32_t x)
{
	return mxfp_minifloat_decode(mxfp_format_get_info(MXFP_FORMAT_E2M1), x);
}

static uint32_t scale_value(uint8_t scale)
{
	return mxfp_minifloat_decode(mxfp_format_get_info(MXFP_FORMAT_UE4M3), scale);
}

static uint8_t round_scale(uint32_t x, const struct mxfp_rounding *rounding)
{
	struct mxfp_counts counts = {0};

	return (uint8_t)mxfp_minifloat_encode(mxfp_format_get_info(MXFP_FORMAT_UE4M3), x, 0, rounding, 0, &counts);
}

/* S_enc = fl32(full_range / amax), at most FLT_MAX, or 1 if that is 0. */
static uint32_t te_encode_scale(uint32_t full_range, uint32_t amax)
{
	uint32_t s = mxfp_f32_min(mxfp_f32_div(full_range, amax), MXFP_F32_MAX);

	return mxfp_f32_is_zero(s) ? F32_ONE : s;
}

/* max(x, limit) of magnitudes. */
static uint32_t at_least(uint32_t x, uint32_t limit)
{
	return x > limit ? x : limit;
}

/* The stored scale of a tensor whose amax is not 0. Those of torchao and modelopt have a lower limit that the sources
   lack: below it a factor is Inf or a divisor 0, and a zero becomes NaN. */
static uint32_t stored_scale(enum mxfp_recipe recipe, uint32_t full_range, uint32_t amax)
{
	uint32_t scale;

	switch (recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return mxfp_f32_div(amax, full_range);
	case MXFP_RECIPE_TORCHAO:
		return at_least(mxfp_f32_div(amax, full_range), F32_TORCHAO_LEAST);
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
	case MXFP_RECIPE_MODELOPT_4OVER6:
		return at_least(mxfp_f32_div(amax, full_range), F32_MODELOPT_LEAST);
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		scale = mxfp_f32_mul(full_range, mxfp_f32_div(F32_ONE, amax));
		return mxfp_f32_is_finite(scale) ? scale : F32_ONE;
	case MXFP_RECIPE_TORCHAO_1:
	case MXFP_RECIPE_GGML:
		break;
	}
	return F32_ONE;
}

struct mxfp_nvfp4_tensor mxfp_nvfp4_tensor_ref(enum mxfp_recipe recipe, uint32_t amax)
{
	uint32_t full_range = mxfp_nvfp4_chooses(recipe) ? F32_1536 : F32_2688;
	struct mxfp_nvfp4_tensor t = {
		.scale = F32_ONE, .divides = recipe == MXFP_RECIPE_COMPRESSED_TENSORS, .encode = F32_ONE};

	if (!mxfp_f32_is_zero(amax)) {
		t.scale = stored_scale(recipe, full_range, amax);
		if (recipe == MXFP_RECIPE_TE || recipe == MXFP_RECIPE_4OVER6)
			t.encode = te_encode_scale(full_range, amax);
	}
	t.reciprocal = mxfp_f32_div(F32_ONE, t.scale);
	t.six_scales = mxfp_f32_mul(F32_SIX, t.scale);
	t.sixth = mxfp_f32_is_zero(amax) ? F32_256 : mxfp_f32_div(amax, F32_SIX);
	t.decode = mxfp_f32_div(F32_ONE, t.encode);
	t.encode_sixth = mxfp_f32_mul(t.encode, F32_SIXTH);
	return t;
}

/* x clamped to [2^-6, 448]; NaN is unchanged. */
static uint32_t torchao_clamp(uint32_t x)
{
	if (!mxfp_f32_is_finite(x) && x != MXFP_F32_INF)
		return x;
	if (mxfp_f32_compare(x, scale_value(1 << MXFP_UE4M3_SIGNIFICAND_BITS)) < 0)
		return scale_value(1 << MXFP_UE4M3_SIGNIFICAND_BITS);
	return mxfp_f32_min(x, scale_value(MXFP_UE4M3_NAN - 1));
}

/* ggml's ue4m3 of v >= 0: 448 if v >= 248, its own rounding for subnormals, ties away from zero between. */
static uint8_t ggml_scale(uint32_t v)
{
	if (!mxfp_f32_is_finite(v) || mxfp_f32_compare(v, F32_248) >= 0)
		return v > MXFP_F32_INF ? 0 : MXFP_UE4M3_NAN - 1;
	if (mxfp_f32_compare(v, scale_value(1 << MXFP_UE4M3_SIGNIFICAND_BITS)) < 0) {
		/* min(7, trunc(512 v + 0.5)); the sum is below 16. */
		uint32_t sum = mxfp_f32_add(mxfp_f32_scale(v, 9), F32_HALF);
		struct mxfp_exact e = mxfp_f32_unpack(sum);
		uint64_t n = e.exponent <= -24 ? 0 : e.significand >> -e.exponent;

		return (uint8_t)(n < 7 ? n : 7);
	}
	return round_scale(v, &rna);
}

/* The unrounded block scale of te and 4over6. */
static uint32_t te_block_scale(const struct mxfp_nvfp4_tensor *t, uint32_t amax)
{
	return mxfp_f32_mul(amax, t->encode_sixth);
}

uint8_t mxfp_nvfp4_block_scale_ref(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint32_t amax)
{
	uint32_t sixth = mxfp_f32_div(amax, F32_SIX), u;
	uint8_t byte;

	switch (recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return round_scale(te_block_scale(t, amax), &rne);
	case MXFP_RECIPE_TORCHAO:
		return round_scale(torchao_clamp(mxfp_f32_div(sixth, t->scale)), &rne);
	case MXFP_RECIPE_TORCHAO_1:
		return round_scale(torchao_clamp(sixth), &rne);
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		byte = round_scale(mxfp_f32_mul(t->scale, sixth), &rne);
		return byte != 0 ? byte : SCALE_EPS;
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
		u = mxfp_f32_div(amax, t->six_scales);
		u = mxfp_f32_is_zero(u) ? F32_ONE : u;
		return round_scale(recipe == MXFP_RECIPE_MODELOPT ? u : at_least(u, scale_value(1)), &rne);
	case MXFP_RECIPE_GGML:
		return ggml_scale(sixth);
	case MXFP_RECIPE_MODELOPT_4OVER6:
		u = mxfp_f32_is_zero(sixth) ? F32_ONE : sixth;
		u = mxfp_f32_div(mxfp_f32_mul(u, F32_256), t->sixth);
		return round_scale(at_least(u, scale_value(1)), &rne);
	}
	return 0;
}

/* The scale byte that maps a block's amax to 4. */
static uint8_t scale_to_four(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint32_t amax)
{
	if (recipe == MXFP_RECIPE_4OVER6)
		return round_scale(mxfp_f32_mul(F32_ONE_AND_HALF, te_block_scale(t, amax)), &rne);
	return mxfp_nvfp4_block_scale_ref(recipe, t, mxfp_f32_mul(F32_ONE_AND_HALF, amax));
}

/* What the recipe multiplies elements by, or divides them by if mxfp_nvfp4_divides(). */
static uint32_t factor(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint8_t scale)
{
	uint32_t sf = scale_value(scale);

	switch (recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return mxfp_f32_min(mxfp_f32_div(F32_ONE, mxfp_f32_mul(sf, t->decode)), MXFP_F32_MAX);
	case MXFP_RECIPE_TORCHAO:
		return mxfp_f32_div(t->reciprocal, sf);
	case MXFP_RECIPE_TORCHAO_1:
		return mxfp_f32_div(F32_ONE, sf);
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		return mxfp_f32_div(sf, t->scale);
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
	case MXFP_RECIPE_MODELOPT_4OVER6:
		return mxfp_f32_mul(sf, t->scale);
	case MXFP_RECIPE_GGML:
		break;
	}
	return F32_ONE;
}

/* The quotient of x and its scales, as the recipe computes it; it is then rounded to e2m1. */
static uint32_t scaled(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint8_t scale, uint32_t x)
{
	uint32_t f = factor(recipe, t, scale);

	return mxfp_nvfp4_divides(recipe) ? mxfp_f32_div(x, f) : mxfp_f32_mul(x, f);
}

/* Whether the magnitude's quotient is past 6; that of 0 may be NaN. */
static bool is_past(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint8_t scale, uint32_t magnitude)
{
	uint32_t quotient = scaled(recipe, t, scale, magnitude);

	return quotient > F32_SIX && quotient <= MXFP_F32_INF;
}

/* Quotients never fall as magnitudes rise, and 6 times the divisor is within a few places of the last one up to 6. */
uint32_t mxfp_nvfp4_limit_ref(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint8_t scale)
{
	uint32_t x;

	if (scale == SCALE_NAN)
		return MXFP_LIMIT_NONE;
	if (recipe == MXFP_RECIPE_GGML)
		return mxfp_f32_mul(F32_SIX, scale_value(scale));
	if (mxfp_nvfp4_divides(recipe))
		x = mxfp_f32_mul(F32_SIX, factor(recipe, t, scale));
	else
		x = mxfp_f32_div(F32_SIX, factor(recipe, t, scale));
	if (x > MXFP_F32_MAX)
		x = MXFP_F32_MAX;
	while (x != 0 && is_past(recipe, t, scale, x))
		x--;
	while (x < MXFP_F32_MAX && !is_past(recipe, t, scale, x + 1))
		x++;
	return x < MXFP_F32_MAX ? x : MXFP_F32_INF;
}

/* ggml's code: the first in its table, positive half first, whose product with the scale is nearest to x. */
static uint8_t ggml_code(uint32_t x, uint8_t scale)
{
	uint32_t sf = scale_value(scale), best_distance = 0;
	uint8_t best = 0;

	for (uint8_t code = 0; code < 16; code++) {
		uint32_t distance = mxfp_f32_sub(mxfp_f32_mul(e2m1(code), sf), x) & ~MXFP_F32_SIGN;

		if (code == 0 || mxfp_f32_compare(distance, best_distance) < 0) {
			best = code;
			best_distance = distance;
		}
	}
	return best;
}

/* Encodes one element; *saturated tells whether it was clamped. */
static uint8_t encode(const struct mxfp_quantize_job *job, const struct mxfp_nvfp4_tensor *t, uint8_t scale, uint32_t x,
                      const struct mxfp_rounding *rounding, uint32_t random, bool *saturated)
{
	struct mxfp_counts counts = {0};

	if (job->recipe == MXFP_RECIPE_GGML) {
		*saturated = false;
		return ggml_code(x, scale);
	}
	uint32_t quotient = scaled(job->recipe, t, scale, x);
	if (mxfp_nvfp4_divides(job->recipe) && mxfp_f32_is_zero(quotient))
		quotient = 0;
	uint8_t code = (uint8_t)mxfp_minifloat_encode(mxfp_format_get_info(MXFP_FORMAT_E2M1), quotient, 0, rounding, random,
	                                              &counts);
	*saturated = counts.saturated != 0;
	return code;
}

/* The squared error of a candidate: of 4over6 in units of 1/S_enc, of modelopt-4over6 as it is. */
static uint32_t candidate_error(const struct mxfp_quantize_job *job, const struct mxfp_nvfp4_tensor *t,
                                const struct mxfp_ref_block *b, uint8_t scale)
{
	const bool te = job->recipe == MXFP_RECIPE_4OVER6;
	uint32_t d[BLOCK], decode = te ? scale_value(scale) : factor(job->recipe, t, scale);
	bool saturated;

	for (size_t i = 0; i < BLOCK; i++) {
		uint8_t code = encode(job, t, scale, b->x[i], &rne, 0, &saturated);

		d[i] = mxfp_f32_sub(mxfp_f32_mul(b->x[i], t->encode), mxfp_f32_mul(e2m1(code), decode));
	}
	return mxfp_ref_squared_error(d, BLOCK);
}

static uint8_t choose_scale(const struct mxfp_quantize_job *job, const struct mxfp_nvfp4_tensor *t,
                            const struct mxfp_ref_block *b)
{
	uint8_t six = mxfp_nvfp4_block_scale_ref(job->recipe, t, b->amax);

	if (!mxfp_nvfp4_chooses(job->recipe))
		return six;
	uint8_t four = scale_to_four(job->recipe, t, b->amax);
	return mxfp_f32_compare(candidate_error(job, t, b, four), candidate_error(job, t, b, six)) < 0 ? four : six;
}

static uint8_t quantize_block(const struct mxfp_quantize_job *job, const struct mxfp_nvfp4_tensor *t, size_t row,
                              size_t block, uint8_t *codes)
{
	struct mxfp_ref_block b;
	bool saturated;

	mxfp_ref_load_block(job, row, block, &b);
	memset(codes, 0, BLOCK);
	if (b.all_nan)
		return SCALE_NAN;
	uint8_t scale = choose_scale(job, t, &b);
	for (size_t i = 0; i < b.n; i++) {
		codes[i] = encode(job, t, scale, b.x[i], &job->rounding, mxfp_ref_random(job, row, block, i), &saturated);
		job->counts->saturated += saturated;
		job->counts->flushed += !mxfp_f32_is_zero(b.x[i]) && mxfp_f32_is_zero(e2m1(codes[i]));
	}
	return scale;
}

void mxfp_quantize_nvfp4_ref(const struct mxfp_quantize_job *job)
{
	const struct mxfp_nvfp4_tensor t = mxfp_nvfp4_tensor_ref(job->recipe, job->tensor_amax);
	size_t blocks = (job->cols + BLOCK - 1) / BLOCK;
	uint8_t codes[BLOCK];

	for (size_t row = 0; row < job->rows; row++)
		for (size_t block = 0; block < blocks; block++) {
			job->scales[row * job->scales_stride + block] = quantize_block(job, &t, row, block, codes);
			mxfp_ref_pack(job->codes + row * job->codes_stride + block * BLOCK / 2, codes, BLOCK, 4);
		}
}

/* (code * scale) * tensor_scale, or (code * scale) / tensor_scale. */
static uint32_t dequantize_element(const struct mxfp_dequantize_job *job, uint8_t code, uint8_t scale)
{
	uint32_t sf = scale_value(scale);

	if (!mxfp_f32_is_finite(sf))
		return MXFP_F32_NAN;
	uint32_t x = mxfp_f32_mul(e2m1(code), sf);
	return job->tensor_scale_divides ? mxfp_f32_div(x, job->tensor_scale) : mxfp_f32_mul(x, job->tensor_scale);
}

void mxfp_dequantize_nvfp4_ref(const struct mxfp_dequantize_job *job)
{
	const struct mxfp_format_info *to = mxfp_format_get_info(job->dst_format);
	struct mxfp_counts counts = {0};
	uint8_t codes[BLOCK];

	for (size_t row = 0; row < job->rows; row++)
		for (size_t k = 0; k < job->cols; k++) {
			if (k % BLOCK == 0)
				mxfp_ref_unpack(codes, job->codes + row * job->codes_stride + k / 2, BLOCK, 4);
			uint32_t x = dequantize_element(job, codes[k % BLOCK], job->scales[row * job->scales_stride + k / BLOCK]);
			mxfp_ref_store(to, job->dst, row * job->dst_stride + k,
			               mxfp_minifloat_encode(to, x, 0, &rne, 0, &counts));
		}
}
