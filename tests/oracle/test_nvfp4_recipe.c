/* SPDX-License-Identifier: MIT */
/* The recipes of NVFP4 on blocks worked by hand. */
#include "mxfp/quantize.h"

#include <string.h>

#include "suite.h"

enum { BLOCK = 16, N_RECIPES = MXFP_RECIPE_MODELOPT_4OVER6 + 1 };

/* With a tensor amax of 6 * 448 (4over6: 6 * 256) the tensor scale is 1, and 6 in a block makes its
   scale 1 too; so the elements are rounded as they are. */
static const float elements[BLOCK] = {6, -6,     0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f,
                                      5, -0.25f, 0.26f, -0.0f, 0,     -1,    4,    -3};
static const float sixes[BLOCK] = {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, -6};
static const float fours[BLOCK] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, -4};

/* Tensors next to nothing. torchao's g is 2^-121 and the byte 2^-6, so 2^-127 is 1, 0.75 and 0.25 are ties; modelopt's
   is 2^-140, the byte of 2^-140 that of 1/6, 0.171875, and 2^-141 / (0.171875 * 2^-140) is 2.9. */
static const float torchao_tiny[BLOCK] = {0x1p-127F, -0x1p-127F, 0,           -0.0F,
                                          0x1p-128F, -0x1p-128F, 0x1.8p-128F, 0x1p-129F};
static const float modelopt_tiny[BLOCK] = {0x1p-140F, -0x1p-140F, 0, -0.0F, 0x1p-141F, -0x1p-141F, 0x1p-149F};
static const uint8_t torchao_tiny_codes[BLOCK] = {2, 10, 0, 8, 1, 9, 2, 0};
static const uint8_t modelopt_tiny_codes[BLOCK] = {7, 15, 0, 0, 5, 13, 0};

/* In a tensor of g = 1 the block scale for 2^-9, a sixth of that, rounds to 0, and all quotients are Inf or NaN;
   modelopt-0.45 makes it 2^-9. */
static const float underflowing[BLOCK] = {0x1p-9F, -0x1p-9F, 0, -0.0F, 0x1p-10F};
static const uint8_t underflown_codes[BLOCK] = {7, 15, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
static const uint8_t clamped_codes[BLOCK] = {2, 10, 0, 0, 1};

/* An amax of 0 makes every scale of the tensor 1, whatever its elements are: 3 has the byte of 1/2. */
static const float threes[BLOCK] = {3, -3, 0, -0.0F, 0.25F, 1.5F};
static const uint8_t three_codes[BLOCK] = {7, 15, 0, 8, 1, 5};
static const uint8_t three_codes_ct[BLOCK] = {7, 15, 0, 0, 1, 5};
static const uint8_t three_codes_ggml[BLOCK] = {7, 15, 0, 0, 1, 5};

static const uint8_t rne_codes[] = {7, 15, 0, 2, 2, 4, 4, 6, 6, 8, 1, 8, 0, 10, 6, 13};
/* Two recipes ask for the sign of the quotient, which -0 has not; -0.25 has. */
static const uint8_t no_zero_sign_codes[] = {7, 15, 0, 2, 2, 4, 4, 6, 6, 8, 1, 0, 0, 10, 6, 13};
/* ggml: ties to the smaller magnitude, and no negative zero. */
static const uint8_t ggml_codes[] = {7, 15, 0, 1, 2, 3, 4, 5, 6, 0, 1, 0, 0, 10, 6, 13};
/* modelopt-4over6 at 1.5: .75, 1.5, 2.25, 3, 4.5 and 6 have the codes 1 to 6. The squared errors are 1.193 there, 1.870 at 1. */
static const uint8_t codes_at_four[] = {6, 14, 0, 1, 2, 2, 3, 4, 5, 8, 0, 0, 0, 9, 5, 12};
static const uint8_t modelopt_zeros[BLOCK] = {0, 8, 0, 0, 0, 8, 0};
static const float ones[BLOCK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1};
static const float least[BLOCK] = {0x1p-149F, -0x1p-149F}, four_leasts[BLOCK] = {0x1p-147F, -0x1p-147F};
static const uint8_t least_codes[BLOCK] = {0, 8};
static const uint8_t sevens[] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 15};
static const uint8_t code_sixes[] = {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 14};

static const struct {
	enum mxfp_recipe recipe;
	float tensor_amax;
	const float *x;
	uint32_t tensor_scale;
	uint8_t scale;
	const uint8_t *codes;
} by_hand[] = {
	{MXFP_RECIPE_TE, 2688, elements, 0x3F800000, 0x38, rne_codes},
	{MXFP_RECIPE_TORCHAO, 2688, elements, 0x3F800000, 0x38, rne_codes},
	{MXFP_RECIPE_TORCHAO_1, 2688, elements, 0x3F800000, 0x38, rne_codes},
	{MXFP_RECIPE_COMPRESSED_TENSORS, 2688, elements, 0x3F800000, 0x38, no_zero_sign_codes},
	{MXFP_RECIPE_MODELOPT, 2688, elements, 0x3F800000, 0x38, no_zero_sign_codes},
	{MXFP_RECIPE_MODELOPT_0_45, 2688, elements, 0x3F800000, 0x38, no_zero_sign_codes},
	{MXFP_RECIPE_GGML, 2688, elements, 0x3F800000, 0x38, ggml_codes},
	/* 6/2688 = 1/448: the block scale is 448. */
	{MXFP_RECIPE_TE, 6, sixes, 0x3B124925, 0x7E, sevens},
	{MXFP_RECIPE_MODELOPT, 6, sixes, 0x3B124925, 0x7E, sevens},
	/* 6 fits both 6 * 1 and 4 * 1.5: a tie keeps 6. */
	{MXFP_RECIPE_4OVER6, 1536, sixes, 0x3F800000, 0x38, sevens},
	/* 4 as 6 * 0.6875 errs by 0.125, as 4 * 1 not at all. */
	{MXFP_RECIPE_4OVER6, 1536, fours, 0x3F800000, 0x38, code_sixes},
	{MXFP_RECIPE_MODELOPT_4OVER6, 1536, sixes, 0x3F800000, 0x38, sevens},
	{MXFP_RECIPE_MODELOPT_4OVER6, 1536, fours, 0x3F800000, 0x38, code_sixes},
	{MXFP_RECIPE_MODELOPT_4OVER6, 1536, elements, 0x3F800000, 0x3C, codes_at_four},
	/* 6/1536 = 2^-8: the block scale is 256, and at 4 384. */
	{MXFP_RECIPE_MODELOPT_4OVER6, 6, sixes, 0x3B800000, 0x78, sevens},
	/* 2^-140 / 6 is 85 * 2^-149, and 256 that of it; g is 2^-140, so no number is as large as half of 256 g. */
	{MXFP_RECIPE_MODELOPT_4OVER6, 0x1p-140F, modelopt_tiny, 0x00000200, 0x78, modelopt_zeros},
	{MXFP_RECIPE_MODELOPT_4OVER6, 1536, underflowing, 0x3F800000, 0x01, clamped_codes},
	/* With an amax of 0 the tensor scale is 1, as with 1536. 1 at 4 is 4 / 4 = 1, at 6 6 * 0.171875. */
	{MXFP_RECIPE_MODELOPT_4OVER6, 0, threes, 0x3F800000, 0x30, three_codes_ct},
	{MXFP_RECIPE_MODELOPT_4OVER6, -0.0F, ones, 0x3F800000, 0x28, code_sixes},
	/* A sixth of 2^-149, also of 1.5 times that, rounds to 0, for which 1 stands; that of 2^-147 is 2^-149, and byte 00 is none. */
	{MXFP_RECIPE_MODELOPT_4OVER6, 1536, least, 0x3F800000, 0x38, least_codes},
	{MXFP_RECIPE_MODELOPT_4OVER6, 1536, four_leasts, 0x3F800000, 0x01, least_codes},
	{MXFP_RECIPE_TORCHAO, 0x1p-127F, torchao_tiny, 0x03000000, 0x08, torchao_tiny_codes},
	{MXFP_RECIPE_MODELOPT, 0x1p-140F, modelopt_tiny, 0x00000200, 0x23, modelopt_tiny_codes},
	{MXFP_RECIPE_MODELOPT_0_45, 0x1p-140F, modelopt_tiny, 0x00000200, 0x23, modelopt_tiny_codes},
	{MXFP_RECIPE_MODELOPT, 2688, underflowing, 0x3F800000, 0x00, underflown_codes},
	{MXFP_RECIPE_MODELOPT_0_45, 2688, underflowing, 0x3F800000, 0x01, clamped_codes},
	{MXFP_RECIPE_TE, -0.0F, threes, 0x3F800000, 0x30, three_codes},
	{MXFP_RECIPE_4OVER6, 0, threes, 0x3F800000, 0x30, three_codes},
	{MXFP_RECIPE_TORCHAO, 0, threes, 0x3F800000, 0x30, three_codes},
	{MXFP_RECIPE_TORCHAO_1, 0, threes, 0x3F800000, 0x30, three_codes},
	{MXFP_RECIPE_COMPRESSED_TENSORS, -0.0F, threes, 0x3F800000, 0x30, three_codes_ct},
	{MXFP_RECIPE_MODELOPT, 0, threes, 0x3F800000, 0x30, three_codes_ct},
	{MXFP_RECIPE_GGML, 0, threes, 0x3F800000, 0x30, three_codes_ggml},
	/* te has no choice: 4/0.6875 = 5.8 becomes 6. */
	{MXFP_RECIPE_TE, 2688, fours, 0x3F800000, 0x33, sevens},
	{MXFP_RECIPE_GGML, 2688, fours, 0x3F800000, 0x33, sevens},
};

static uint8_t code_of(const uint8_t *packed, size_t i)
{
	return packed[i / 2] >> i % 2 * 4 & 15;
}

TEST_LOOP(blocks_worked_by_hand, sizeof by_hand / sizeof by_hand[0])
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .recipe = by_hand[_i].recipe,
	                                              .tensor_amax = {true, by_hand[_i].tensor_amax}};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, BLOCK, by_hand[_i].x);
	uint8_t codes[BLOCK / 2], scale;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 1, BLOCK, codes, &scale);
	const struct mxfp_result result = mxfp_to_blocks(&b);

	assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
	ck_assert_mem_eq(&b.tensor_scale, &by_hand[_i].tensor_scale, sizeof b.tensor_scale);
	ck_assert_uint_eq(scale, by_hand[_i].scale);
	for (size_t i = 0; i < BLOCK; i++)
		ck_assert_uint_eq(code_of(codes, i), by_hand[_i].codes[i]);
	suite_compared(BLOCK);
}

/* The byte of a block of zeros, in a tensor of zeros and in another; signs as the recipe keeps them. */
static const struct {
	uint8_t scale[2], negative_zero;
} zero_block[N_RECIPES] = {
	[MXFP_RECIPE_TE] = {{0x00, 0x00}, 8},
	[MXFP_RECIPE_TORCHAO] = {{0x08, 0x08}, 8},
	[MXFP_RECIPE_TORCHAO_1] = {{0x08, 0x08}, 8},
	[MXFP_RECIPE_GGML] = {{0x00, 0x00}, 0},
	[MXFP_RECIPE_4OVER6] = {{0x00, 0x00}, 8},
	[MXFP_RECIPE_COMPRESSED_TENSORS] = {{0x20, 0x20}, 0},
	[MXFP_RECIPE_MODELOPT] = {{0x38, 0x38}, 0},
	[MXFP_RECIPE_MODELOPT_0_45] = {{0x38, 0x38}, 0},
	[MXFP_RECIPE_MODELOPT_4OVER6] = {{0x38, 0x7E}, 0}, /* in a tensor of amax 1, 256 * 6 is past 448 */
};

TEST_LOOP(zero_blocks_have_the_byte_of_the_recipe, 2 * N_RECIPES)
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .recipe = (enum mxfp_recipe)(_i / 2)};
	const bool zero_tensor = _i % 2 == 0;
	const float x[2 * BLOCK] = {[1] = -0.0f, [BLOCK] = zero_tensor ? 0 : 1};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, 2 * BLOCK, x);
	uint8_t codes[BLOCK], scales[2];
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 1, 2 * BLOCK, codes, scales);
	const struct mxfp_result result = mxfp_to_blocks(&b);

	assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
	ck_assert_uint_eq(scales[0], zero_block[_i / 2].scale[_i % 2]);
	for (size_t i = 0; i < BLOCK; i++)
		ck_assert_uint_eq(code_of(codes, i), i == 1 ? zero_block[_i / 2].negative_zero : 0);
	if (zero_tensor)
		ck_assert(b.tensor_scale >= 1 && b.tensor_scale <= 1);
	suite_compared(BLOCK);
}
