/* SPDX-License-Identifier: MIT */
/*
 * The scales of NVFP4 against section 4 of doc/numerics.md in the processor's own binary32, which shares no code with ref/ and the
 * kernels.
 *
 * What a recipe computes of a tensor, which every tier takes from the reference, for every largest magnitude that a tensor can have: all
 * 2^31 - 2^23 finite ones. The bytes of four blocks of it, whose own largest magnitudes lie from the tensor's down to where their
 * scales vanish, by every tier for one tensor in SPREAD, others in each binade. The recipes 4over6 choose between two bytes by all
 * numbers of a block: every SAMPLE-th of these tensors must have the reference's, the others one of the two. Recipes without a tensor
 * scale know no tensor: there it is every largest magnitude that a block can have, many in one call.
 */
#include <float.h>
#include <string.h>

#include "bits.h"
#include "oracle/exhaustive.h"
#include "ref.h"

enum { BLOCK = 16, N_BLOCKS = 4, PIECE = EXHAUSTIVE_PIECE, SPREAD = 8, SAMPLE = 509,
       SIGNIFICAND_BITS = 23, MANY = 1 << 10 /* blocks of a call where blocks are alone */ };

struct sweep {
	const struct exhaustive_case *tiers;
	size_t n_tiers;
	enum mxfp_recipe recipe;
	size_t every;
	atomic_uint *n_wrong; /* by tier */
};

/* What the bytes of a tensor must be: one of two each, which are the same unless the recipe chooses. */
struct expected {
	uint8_t scales[N_BLOCKS], others[N_BLOCKS];
};

/* As in struct mxfp_nvfp4_tensor. */
struct tensor {
	float scale, reciprocal, six_scales, sixth, encode, decode, encode_sixth;
};

static float larger(float a, float b)
{
	return a > b ? a : b;
}

static float smaller(float a, float b)
{
	return a < b ? a : b;
}

/* g or gs, and S. */
static float scale_of(enum mxfp_recipe recipe, float amax)
{
	const float range = mxfp_nvfp4_chooses(recipe) ? 1536 : 2688, gs = range * (1 / amax);

	switch (recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return amax / range;
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		return gs <= FLT_MAX ? gs : 1;
	case MXFP_RECIPE_TORCHAO:
		return larger(amax / range, 0x1p-121F);
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
	case MXFP_RECIPE_MODELOPT_4OVER6:
		return larger(amax / range, 0x1p-140F);
	case MXFP_RECIPE_TORCHAO_1:
	case MXFP_RECIPE_GGML:
		break;
	}
	return 1;
}

static float encode_of(enum mxfp_recipe recipe, float amax)
{
	const float s = smaller((recipe == MXFP_RECIPE_TE ? 2688 : 1536) / amax, FLT_MAX);

	return (recipe == MXFP_RECIPE_TE || recipe == MXFP_RECIPE_4OVER6) && s > 0 ? s : 1;
}

static struct tensor tensor_of(enum mxfp_recipe recipe, float amax)
{
	const float scale = amax > 0 ? scale_of(recipe, amax) : 1, encode = amax > 0 ? encode_of(recipe, amax) : 1;

	return (struct tensor){scale, 1 / scale, 6 * scale, amax > 0 ? amax / 6 : 256, encode, 1 / encode, encode * (1.0F / 6)};
}

static bool is_tensor(const struct tensor *t, const struct mxfp_nvfp4_tensor *reference)
{
	return mxfp_f32_bits(t->scale) == reference->scale && mxfp_f32_bits(t->reciprocal) == reference->reciprocal &&
	       mxfp_f32_bits(t->six_scales) == reference->six_scales && mxfp_f32_bits(t->sixth) == reference->sixth &&
	       mxfp_f32_bits(t->encode) == reference->encode && mxfp_f32_bits(t->decode) == reference->decode &&
	       mxfp_f32_bits(t->encode_sixth) == reference->encode_sixth;
}

/* What a code has less than the top 12 bits of a normal number. */
enum { REBIAS = (127 - 7) << 3 };

/* The saturating code of x >= 0 by rne. */
static uint8_t e4m3(float x)
{
	uint32_t bits = mxfp_f32_bits(x);

	if (x < 0x1p-6F) /* units of 2^-9, rounded to an integer in the lowest bits */
		return (uint8_t)mxfp_f32_bits(x * 0x1p9F + 0x1p23F);
	bits = (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20;
	return bits < REBIAS + 0x7E ? (uint8_t)(bits - REBIAS) : 0x7E;
}

/* The same with ties up, and for subnormal codes as ggml has it. */
static uint8_t e4m3_of_ggml(float x)
{
	if (x < 0x1p-6F)
		return (uint8_t)smaller(7, (float)(int)(x * 512 + 0.5F));
	return x < 248 ? (uint8_t)(((mxfp_f32_bits(x) + 0x80000) >> 20) - REBIAS) : 0x7E;
}

static uint8_t e4m3_of_modelopt_4over6(const struct tensor *t, float amax)
{
	const float sixth = amax / 6;

	return e4m3(larger((sixth > 0 ? sixth : 1) * 256 / t->sixth, 0x1p-9F));
}

static uint8_t byte_of(enum mxfp_recipe recipe, const struct tensor *t, float amax)
{
	uint8_t byte;
	float u;

	switch (recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		return e4m3(amax * t->encode_sixth);
	case MXFP_RECIPE_TORCHAO:
		return e4m3(larger(smaller(amax / 6 / t->scale, 448), 0x1p-6F));
	case MXFP_RECIPE_TORCHAO_1:
		return e4m3(larger(smaller(amax / 6, 448), 0x1p-6F));
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		byte = e4m3(t->scale * (amax / 6));
		return byte != 0 ? byte : 0x20;
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
		u = amax / t->six_scales;
		u = u > 0 ? u : 1;
		return e4m3(recipe == MXFP_RECIPE_MODELOPT ? u : larger(u, 0x1p-9F));
	case MXFP_RECIPE_GGML:
		return e4m3_of_ggml(amax / 6);
	case MXFP_RECIPE_MODELOPT_4OVER6:
		return e4m3_of_modelopt_4over6(t, amax);
	}
	return 0;
}

/* The byte that puts a block's amax at 4, the other one of 4over6. The only one where the recipe does not choose. */
static uint8_t other_byte_of(enum mxfp_recipe recipe, const struct tensor *t, float amax)
{
	if (recipe == MXFP_RECIPE_4OVER6)
		return e4m3(1.5F * (amax * t->encode_sixth));
	return byte_of(recipe, t, recipe == MXFP_RECIPE_MODELOPT_4OVER6 ? 1.5F * amax : amax);
}

/* A block that begins with what is `below` an amax and goes on with less. */
static void fill_block(uint32_t x[BLOCK], uint32_t amax, uint32_t below)
{
	for (uint32_t i = 0; i < BLOCK; i++) {
		uint32_t less = below + i * (UINT32_C(1) << (SIGNIFICAND_BITS - 2));

		x[i] = (amax > less ? amax - less : 0) | i << 31;
	}
}

/* Numbers of a tensor with this largest magnitude: blocks begin with it, with what is 2.5 steps of ue4m3 below it, and with any
   significands 2^-8 and 2^-17 of it, or up to half of that. */
static void fill(uint32_t x[N_BLOCKS][BLOCK], uint32_t amax)
{
	const uint32_t any = amax * UINT32_C(2654435761) >> (32 - SIGNIFICAND_BITS);
	const uint32_t below[N_BLOCKS] = {0, 0x280000, (8 << SIGNIFICAND_BITS) + any, (17 << SIGNIFICAND_BITS) + any};

	for (uint32_t b = 0; b < N_BLOCKS; b++)
		fill_block(x[b], amax, below[b]);
}

/* Whether the reference chooses one of the two bytes of each block, which all tiers must then choose too. */
static bool is_chosen(const struct sweep *s, const struct mxfp_quantize_job *job)
{
	return mxfp_nvfp4_chooses(s->recipe) && job->tensor_amax % SAMPLE == 0;
}

static bool is_one(const struct expected *expected, int b, uint8_t scale)
{
	return scale == expected->scales[b] || scale == expected->others[b];
}

static bool is_wrong(const struct expected *expected, const uint8_t *scales)
{
	for (int b = 0; b < N_BLOCKS; b++)
		if (!is_one(expected, b, scales[b]))
			return true;
	return false;
}

/* A choice of the reference that is none of the two changes nothing here: its own case finds it. */
static void expect(const struct sweep *s, const struct tensor *t, const struct mxfp_quantize_job *job, uint32_t x[N_BLOCKS][BLOCK],
                   struct expected *expected)
{
	for (int b = 0; b < N_BLOCKS; b++) {
		const float amax = mxfp_f32_from_bits(x[b][0] & INT32_MAX);

		expected->scales[b] = byte_of(s->recipe, t, amax);
		expected->others[b] = other_byte_of(s->recipe, t, amax);
	}
	if (!is_chosen(s, job))
		return;
	mxfp_quantize_nvfp4_ref(job);
	for (int b = 0; b < N_BLOCKS; b++)
		if (is_one(expected, b, job->scales[b]))
			expected->scales[b] = expected->others[b] = job->scales[b];
}

/* The scale bytes of the job's blocks by a tier. Of the reference, which takes long, its function that makes them alone, but where
   it chooses. */
static void run_tier(const struct sweep *s, size_t tier, const struct mxfp_quantize_job *job)
{
	if (!exhaustive_is_reference(&s->tiers[tier]) || is_chosen(s, job)) {
		s->tiers[tier].table->quantize[MXFP_FORMAT_NVFP4](job);
		return;
	}
	const struct mxfp_nvfp4_tensor t = mxfp_nvfp4_tensor_ref(s->recipe, job->tensor_amax);
	for (size_t b = 0; b < job->cols / BLOCK; b++)
		job->scales[b] = mxfp_nvfp4_block_scale_ref(s->recipe, &t, ((const uint32_t *)job->src)[b * BLOCK] & INT32_MAX);
}

/* One row of n blocks. */
static struct mxfp_quantize_job job_of(const struct sweep *s, const void *x, size_t n, uint8_t *codes, uint8_t *scales,
                                       struct mxfp_counts *counts)
{
	return (struct mxfp_quantize_job){
		.format = MXFP_FORMAT_NVFP4,
		.src_format = MXFP_FORMAT_F32,
		.rows = 1,
		.cols = n * BLOCK,
		.src = x,
		.src_stride = n * BLOCK,
		.codes = codes,
		.scales = scales,
		.codes_stride = n * BLOCK / 2,
		.scales_stride = n,
		.recipe = s->recipe,
		.counts = counts,
	};
}

/* Whether the bytes of a tensor are looked at: over SPREAD binades, those of every significand. */
static bool is_spread(uint32_t amax)
{
	return (amax + (amax >> SIGNIFICAND_BITS)) % SPREAD == 0;
}

/* A tier is not run on after its first wrong tensor of a piece. */
static void run_piece(void *context, size_t piece)
{
	const struct sweep *s = context;
	uint32_t x[N_BLOCKS][BLOCK];
	uint8_t scales[N_BLOCKS], codes[N_BLOCKS * BLOCK / 2];
	bool wrong[EXHAUSTIVE_MAX_TIERS] = {false};
	struct expected expected;
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_quantize_job job = job_of(s, x, N_BLOCKS, codes, scales, &counts);

	for (uint32_t i = 0; i < PIECE; i++) {
		job.tensor_amax = (uint32_t)(piece * s->every) * PIECE + i;
		const struct tensor t = tensor_of(s->recipe, mxfp_f32_from_bits(job.tensor_amax));
		const bool spread = is_spread(job.tensor_amax);
		if (spread) {
			fill(x, job.tensor_amax);
			expect(s, &t, &job, x, &expected);
		}
		for (size_t tier = 0; tier < s->n_tiers; tier++) {
			if (wrong[tier])
				continue;
			if (exhaustive_is_reference(&s->tiers[tier])) {
				const struct mxfp_nvfp4_tensor reference = mxfp_nvfp4_tensor_ref(s->recipe, job.tensor_amax);
				wrong[tier] = !is_tensor(&t, &reference);
			}
			if (spread) {
				run_tier(s, tier, &job);
				wrong[tier] = wrong[tier] || is_wrong(&expected, scales);
			}
			if (wrong[tier])
				exhaustive_wrong(&s->tiers[tier], &s->n_wrong[tier], "scales of the tensor with amax", job.tensor_amax);
		}
	}
}

/* The same of blocks that are alone. */
static void run_blocks(void *context, size_t piece)
{
	static _Thread_local uint32_t x[MANY][BLOCK];
	static _Thread_local uint8_t scales[MANY], expected[MANY], codes[MANY * BLOCK / 2];
	const struct sweep *s = context;
	const struct tensor t = tensor_of(s->recipe, 0);
	bool wrong[EXHAUSTIVE_MAX_TIERS] = {false};
	struct mxfp_counts counts = {0};
	struct mxfp_quantize_job job = job_of(s, x, MANY, codes, scales, &counts);
	const uint32_t first = (uint32_t)(piece * s->every) * PIECE;

	for (uint32_t at = first; at < first + PIECE; at += MANY) {
		for (uint32_t i = 0; i < MANY; i++) {
			fill_block(x[i], at + i, 0);
			expected[i] = byte_of(s->recipe, &t, mxfp_f32_from_bits(at + i));
		}
		job.tensor_amax = at + MANY - 1;
		for (size_t tier = 0; tier < s->n_tiers; tier++) {
			size_t i = 0;

			run_tier(s, tier, &job);
			if (wrong[tier] || memcmp(scales, expected, sizeof scales) == 0)
				continue;
			while (scales[i] == expected[i])
				i++;
			wrong[tier] = true;
			exhaustive_wrong(&s->tiers[tier], &s->n_wrong[tier], "scale of the block with amax", at + (uint32_t)i);
		}
	}
}

void exhaustive_nvfp4(const struct exhaustive_case *tiers, size_t n, enum mxfp_recipe recipe, size_t every,
                      struct exhaustive_result *results)
{
	atomic_uint n_wrong[EXHAUSTIVE_MAX_TIERS] = {0};
	struct sweep s = {.tiers = tiers, .n_tiers = n, .recipe = recipe, .every = every, .n_wrong = n_wrong};
	size_t pieces = (F32_INF / PIECE + every - 1) / every;

	const bool alone = recipe == MXFP_RECIPE_TORCHAO_1 || recipe == MXFP_RECIPE_GGML;

	exhaustive_run(tiers, pieces, alone ? run_blocks : run_piece, &s);
	for (size_t tier = 0; tier < n; tier++)
		results[tier] = (struct exhaustive_result){
			(uint64_t)pieces * PIECE / (alone || exhaustive_is_reference(&tiers[tier]) ? 1 : SPREAD), n_wrong[tier]};
}
