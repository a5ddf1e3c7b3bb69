/* SPDX-License-Identifier: MIT */
/*
 * The scale bytes of NVFP4 for every largest magnitude that a tensor can have: all 2^31 - 2^23 finite ones, four blocks
 * each, whose own largest magnitudes lie from the tensor's down to where their scales vanish. The recipes 4over6 choose
 * between two bytes by all numbers of a block: every SAMPLE-th tensor must have the reference's, the others one of the two.
 * Recipes without a tensor scale know no tensor: there it is every largest magnitude that a block can have, many in one call.
 */
#include <string.h>

#include "oracle/exhaustive.h"
#include "f32.h"
#include "ref.h"

enum { BLOCK = 16, N_BLOCKS = 4, PIECE = EXHAUSTIVE_PIECE, SAMPLE = 509, SIGNIFICAND_BITS = 23,
       MANY = 1 << 10 /* blocks of a call where blocks are alone */ };

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

/* A block that begins with what is `below` an amax and goes on with less. */
static void fill_block(uint32_t x[BLOCK], uint32_t amax, uint32_t below)
{
	for (uint32_t i = 0; i < BLOCK; i++) {
		uint32_t less = below + i * (UINT32_C(1) << (SIGNIFICAND_BITS - 2));

		x[i] = (amax > less ? amax - less : 0) | i << 31;
	}
}

/* Numbers of a tensor with this largest magnitude: blocks begin with it, with what is 2.5 steps of ue4m3 below it, with
   2^-8 of it and with 2^-17 of it. */
static void fill(uint32_t x[N_BLOCKS][BLOCK], uint32_t amax)
{
	static const uint32_t below[N_BLOCKS] = {0, 0x280000, 8 << SIGNIFICAND_BITS, 17 << SIGNIFICAND_BITS};

	for (uint32_t b = 0; b < N_BLOCKS; b++)
		fill_block(x[b], amax, below[b]);
}

/* The byte that puts a block's amax at 4, the other one of 4over6. */
static uint8_t byte_at_four(enum mxfp_recipe recipe, const struct mxfp_nvfp4_tensor *t, uint32_t amax)
{
	const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE};
	const uint32_t one_and_half = UINT32_C(0x3FC00000);
	struct mxfp_counts counts = {.size = sizeof counts};

	if (recipe == MXFP_RECIPE_MODELOPT_4OVER6)
		return mxfp_nvfp4_block_scale_ref(recipe, t, mxfp_f32_mul(one_and_half, amax));
	return (uint8_t)mxfp_minifloat_encode(mxfp_format_get_info(MXFP_FORMAT_UE4M3),
	                                      mxfp_f32_mul(one_and_half, mxfp_f32_mul(amax, t->encode_sixth)), 0, &rne, 0,
	                                      &counts);
}

static void expect(const struct sweep *s, const struct mxfp_quantize_job *job, uint32_t x[N_BLOCKS][BLOCK],
                   struct expected *expected)
{
	const struct mxfp_nvfp4_tensor t = mxfp_nvfp4_tensor_ref(s->recipe, job->tensor_amax);
	uint8_t codes[N_BLOCKS * BLOCK / 2];
	struct mxfp_quantize_job whole = *job;

	if (mxfp_nvfp4_chooses(s->recipe) && job->tensor_amax % SAMPLE == 0) {
		whole.scales = expected->scales;
		whole.codes = codes;
		mxfp_quantize_nvfp4_ref(&whole);
		memcpy(expected->others, expected->scales, sizeof expected->others);
		return;
	}
	for (int b = 0; b < N_BLOCKS; b++) {
		uint32_t amax = x[b][0] & INT32_MAX;

		expected->scales[b] = expected->others[b] = mxfp_nvfp4_block_scale_ref(s->recipe, &t, amax);
		if (mxfp_nvfp4_chooses(s->recipe))
			expected->others[b] = byte_at_four(s->recipe, &t, amax);
	}
}

static bool is_wrong(const struct expected *expected, const uint8_t *scales)
{
	for (int b = 0; b < N_BLOCKS; b++)
		if (scales[b] != expected->scales[b] && scales[b] != expected->others[b])
			return true;
	return false;
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
		fill(x, job.tensor_amax);
		expect(s, &job, x, &expected);
		for (size_t tier = 0; tier < s->n_tiers; tier++) {
			if (wrong[tier])
				continue;
			s->tiers[tier].table->quantize[MXFP_FORMAT_NVFP4](&job);
			wrong[tier] = is_wrong(&expected, scales);
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
	const struct mxfp_nvfp4_tensor t = mxfp_nvfp4_tensor_ref(s->recipe, 0);
	bool wrong[EXHAUSTIVE_MAX_TIERS] = {false};
	struct mxfp_counts counts = {0};
	struct mxfp_quantize_job job = job_of(s, x, MANY, codes, scales, &counts);
	const uint32_t first = (uint32_t)(piece * s->every) * PIECE;

	for (uint32_t at = first; at < first + PIECE; at += MANY) {
		for (uint32_t i = 0; i < MANY; i++) {
			fill_block(x[i], at + i, 0);
			expected[i] = mxfp_nvfp4_block_scale_ref(s->recipe, &t, at + i);
		}
		job.tensor_amax = at + MANY - 1;
		for (size_t tier = 0; tier < s->n_tiers; tier++) {
			size_t i = 0;

			s->tiers[tier].table->quantize[MXFP_FORMAT_NVFP4](&job);
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

	exhaustive_run(tiers, pieces, recipe == MXFP_RECIPE_TORCHAO_1 || recipe == MXFP_RECIPE_GGML ? run_blocks : run_piece, &s);
	for (size_t tier = 0; tier < n; tier++)
		results[tier] = (struct exhaustive_result){(uint64_t)pieces * PIECE, n_wrong[tier]};
}
