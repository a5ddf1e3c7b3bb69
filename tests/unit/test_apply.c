/* SPDX-License-Identifier: MIT */
/* mxfp_apply(): each status with every output untouched, and where results go: numbers, bf16, blocks, strides, in place. */
#include <string.h>

#include "format.h"
#include "kernels.h"
#include "mxfp/convert.h"
#include "mxfp/vector.h"
#include "suite.h"

enum { ROWS = 3, COLS = 1100, STRIDE = 1120, CANARY = 0xA5 };

static float src[ROWS * STRIDE], out[ROWS * STRIDE];
static uint16_t out_bf16[ROWS * STRIDE];
static uint8_t codes[ROWS * STRIDE], scales[ROWS * STRIDE / 32 + ROWS], codes_alone[sizeof codes], scales_alone[sizeof scales];
static const enum mxfp_format f32 = MXFP_FORMAT_F32, bf16 = MXFP_FORMAT_BF16;

/* Numbers between -5.5 and 5.5, which no function here maps to themselves; negative ones become 0 under relu. */
static void set_up(void)
{
	memset(out, CANARY, sizeof out);
	memset(out_bf16, CANARY, sizeof out_bf16);
	memset(codes, CANARY, sizeof codes);
	memset(scales, CANARY, sizeof scales);
	for (int i = 0; i < ROWS * STRIDE; i++)
		src[i] = (float)(i % 23 - 11) / 2;
}

static struct mxfp_blocks blocks(void)
{
	return (struct mxfp_blocks){
		.format = MXFP_FORMAT_MXFP8_E4M3, .rows = ROWS, .cols = COLS, .codes = codes, .scales = scales,
	};
}

/* The call is refused with the status, and nothing is written. */
static void refused(enum mxfp_function function, const struct mxfp_row_output *output, const void *from,
                    enum mxfp_format format, size_t stride, const struct mxfp_apply_options *options,
                    enum mxfp_status want)
{
	uint8_t canaries[sizeof out];

	memset(canaries, CANARY, sizeof canaries);
	assert_status(mxfp_apply(function, output, from, format, stride, ROWS, COLS, options), want);
	ck_assert_mem_eq(out, canaries, sizeof out);
	ck_assert_mem_eq(codes, canaries, sizeof codes);
	ck_assert_mem_eq(scales, canaries, sizeof scales);
	suite_compared(1);
}

TEST(what_is_wrong)
{
	const enum mxfp_function relu = MXFP_FUNCTION_RELU;
	const uint32_t words[] = {0x7F800000, 0x7FC00000};
	float parameters[2];
	struct mxfp_row_output output = {.data = out};
	struct mxfp_apply_options options = {0};
	const struct mxfp_exec exec = {.isa = "none"};

	set_up();
	memcpy(parameters, words, sizeof words);
	refused((enum mxfp_function)MXFP_N_FUNCTIONS, &output, src, f32, 0, NULL, MXFP_ERR_OPTION);
	for (int i = 0; i < 2; i++) {
		options.parameter = &parameters[i];
		refused(relu, &output, src, f32, 0, &options, MXFP_ERR_OPTION);
	}
	options = (struct mxfp_apply_options){.exec = &exec};
	refused(relu, &output, src, f32, 0, &options, MXFP_ERR_OPTION);
	refused(relu, NULL, src, f32, 0, NULL, MXFP_ERR_NULL);
	refused(relu, &output, NULL, f32, 0, NULL, MXFP_ERR_NULL);
	refused(relu, &output, src, MXFP_FORMAT_F16, 0, NULL, MXFP_ERR_FORMAT);
	refused(relu, &output, src, f32, COLS - 1, NULL, MXFP_ERR_SIZE);
	refused(relu, &output, src, f32, SIZE_MAX / 2, NULL, MXFP_ERR_SIZE);
	refused(relu, &output, out + 1, f32, 0, NULL, MXFP_ERR_OVERLAP);
	refused(relu, &output, out, f32, STRIDE, NULL, MXFP_ERR_OVERLAP);
	refused(relu, &output, out, bf16, 0, NULL, MXFP_ERR_OVERLAP);
	output.data = NULL;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_NULL);
	output = (struct mxfp_row_output){.data = out, .format = MXFP_FORMAT_E4M3};
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_FORMAT);
	output = (struct mxfp_row_output){.data = out, .stride = COLS - 1};
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_SIZE);
}

TEST(what_is_wrong_in_the_blocks)
{
	const enum mxfp_function relu = MXFP_FUNCTION_RELU;
	struct mxfp_blocks b = blocks();
	struct mxfp_quantize_options quantize = {0};
	struct mxfp_row_output output = {.data = out, .blocks = &b, .quantize = &quantize};
	uint64_t first;

	set_up();
	b.rows++;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_SIZE);
	b = blocks();
	b.cols--;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_SIZE);
	b = blocks();
	b.format = f32;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_FORMAT);
	b = blocks();
	b.scales = NULL;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_NULL);
	b = blocks();
	b.scales = codes + 1;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_OVERLAP);
	b = blocks();
	b.codes = out;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_OVERLAP);
	b.codes = src;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_OVERLAP);
	b = blocks();
	quantize.non_finite = MXFP_NON_FINITE_ERROR;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_OPTION);
	quantize = (struct mxfp_quantize_options){.first_non_finite = &first};
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_OPTION);
	quantize = (struct mxfp_quantize_options){.recipe = MXFP_RECIPE_TE};
	b.format = MXFP_FORMAT_NVFP4;
	refused(relu, &output, src, f32, 0, NULL, MXFP_ERR_OPTION);
}

/* relu, by hand. */
static float positive(float x)
{
	return x > 0 ? x : 0.0F;
}

TEST(numbers_and_blocks_in_one_pass)
{
	struct mxfp_blocks b = blocks(), alone = blocks();
	struct mxfp_counts counts = {0}, counts_alone = {0};
	struct mxfp_quantize_options quantize = {.rule = MXFP_RULE_FLOOR, .counts = &counts};
	const struct mxfp_row_output output = {.data = out, .stride = STRIDE, .blocks = &b, .quantize = &quantize};

	set_up();
	src[0] = 1e-30F; /* flushed in a block of larger numbers */
	assert_status(mxfp_apply(MXFP_FUNCTION_RELU, &output, src, f32, STRIDE - 1, ROWS, COLS, NULL), MXFP_OK);
	for (int row = 0; row < ROWS; row++)
		for (int col = 0; col < COLS; col++)
			ck_assert(out[row * STRIDE + col] == positive(src[row * (STRIDE - 1) + col]));
	for (int row = 0; row < ROWS; row++)
		for (size_t i = (size_t)(row * STRIDE + COLS) * 4; i < (size_t)(row + 1) * STRIDE * 4; i++)
			ck_assert_uint_eq(((const uint8_t *)out)[i], CANARY);
	memset(codes_alone, CANARY, sizeof codes_alone);
	memset(scales_alone, CANARY, sizeof scales_alone);
	alone.codes = codes_alone;
	alone.scales = scales_alone;
	quantize.counts = &counts_alone;
	assert_status(mxfp_quantize(&alone, out, f32, STRIDE, &quantize), MXFP_OK);
	ck_assert_mem_eq(codes, codes_alone, sizeof codes);
	ck_assert_mem_eq(scales, scales_alone, sizeof scales);
	ck_assert_uint_eq(counts.flushed, 1);
	ck_assert_uint_eq(counts_alone.flushed, 1);
	suite_compared(ROWS * COLS);
}

/* With recipe te, NVFP4 takes the tensor's amax from the caller; 5.5 is that of these numbers. */
TEST(blocks_with_a_tensor_scale)
{
	const float amax = 5.5F;
	struct mxfp_blocks b = blocks(), alone = blocks();
	const struct mxfp_quantize_options quantize = {.tensor_amax = &amax};
	const struct mxfp_row_output output = {.blocks = &b, .quantize = &quantize};

	set_up();
	b.format = alone.format = MXFP_FORMAT_NVFP4;
	b.scales = out;
	assert_status(mxfp_apply(MXFP_FUNCTION_IDENTITY, &output, src, f32, 0, ROWS, COLS, NULL), MXFP_OK);
	alone.codes = codes_alone;
	alone.scales = out_bf16;
	memset(codes_alone, CANARY, sizeof codes_alone);
	assert_status(mxfp_quantize(&alone, src, f32, 0, NULL), MXFP_OK);
	ck_assert_mem_eq(codes, codes_alone, sizeof codes);
	ck_assert_mem_eq(out, out_bf16, sizeof out_bf16);
	ck_assert(b.tensor_scale == alone.tensor_scale);
	ck_assert(b.tensor_scale > 0.002F && b.tensor_scale < 0.0021F); /* 5.5 / 2688 */
	suite_compared(ROWS * COLS);
}

/* 1 + 2^-9 and 1 + 3 * 2^-9 in bf16, whose numbers are 2^-7 apart there: 1 and 1 + 2^-7. Read again, they are exact. */
TEST(bf16_in_and_out)
{
	const struct mxfp_row_output output = {.data = out_bf16, .format = bf16}, back = {.data = out};

	set_up();
	src[0] = 1.001953125F;
	src[1] = 1.005859375F;
	src[2] = -1.0F;
	assert_status(mxfp_apply(MXFP_FUNCTION_RELU, &output, src, f32, 0, ROWS, COLS, NULL), MXFP_OK);
	ck_assert_uint_eq(out_bf16[0], 0x3F80);
	ck_assert_uint_eq(out_bf16[1], 0x3F81);
	ck_assert_uint_eq(out_bf16[2], 0);
	assert_status(mxfp_apply(MXFP_FUNCTION_IDENTITY, &back, out_bf16, bf16, 0, ROWS, COLS, NULL), MXFP_OK);
	ck_assert(out[0] == 1.0F);
	ck_assert(out[1] == 1.0078125F);
	for (int i = 3; i < ROWS * COLS; i++)
		ck_assert(out[i] == positive(src[i]));
	suite_compared(ROWS * COLS);
}

TEST(in_place_and_empty)
{
	const float slope = -2;
	const struct mxfp_apply_options options = {.parameter = &slope};
	struct mxfp_row_output output = {.data = src, .stride = STRIDE};

	set_up();
	memcpy(out, src, sizeof src);
	assert_status(mxfp_apply(MXFP_FUNCTION_LEAKY_RELU, &output, src, f32, STRIDE, ROWS, COLS, &options), MXFP_OK);
	for (int i = 0; i < ROWS * STRIDE; i++)
		ck_assert(src[i] == (i % STRIDE < COLS && out[i] < 0 ? out[i] * -2 : out[i]));
	output.data = NULL;
	assert_status(mxfp_apply(MXFP_FUNCTION_EXP, &output, NULL, f32, 0, 0, COLS, NULL), MXFP_OK);
	assert_status(mxfp_apply(MXFP_FUNCTION_EXP, &output, NULL, f32, 0, ROWS, 0, NULL), MXFP_OK);
	suite_compared(ROWS * STRIDE);
}

/* Of the least subnormal and three of it: a gelu or silu is x/2 times a bit more than 1 where p x > 0, a bit less where p x < 0, and
   so no tie; of p = 0 it is x/2, a tie. And log 1 is the positive zero. */
TEST(half_of_the_least_subnormal)
{
	static const uint32_t parameters[] = {0x3F800000, 1, 0x7F7FFFFF, 0xBF800000, 0x80000001, 0xFF7FFFFF, 0, 0x80000000};
	static const uint32_t x[4] = {1, 0x80000001, 3, 0x80000003};
	static const uint32_t want[3][4] = {
		{1, 0x80000000, 2, 0x80000001}, {0, 0x80000001, 1, 0x80000002}, {0, 0x80000000, 2, 0x80000002}};
	static const enum mxfp_function gelus[] = {MXFP_FUNCTION_GELU, MXFP_FUNCTION_GELU_TANH};
	const struct mxfp_row_output output = {.data = out};
	const uint32_t one = 0x3F800000, zero = 0;

	for (int i = 0; i < 8; i++) {
		float parameter;
		const struct mxfp_apply_options options = {.parameter = &parameter};

		memcpy(&parameter, &parameters[i], sizeof parameter);
		assert_status(mxfp_apply(MXFP_FUNCTION_SILU, &output, x, f32, 0, 1, 4, &options), MXFP_OK);
		ck_assert_mem_eq(out, want[i / 3], sizeof x);
	}
	for (int i = 0; i < 2; i++) {
		assert_status(mxfp_apply(gelus[i], &output, x, f32, 0, 1, 4, NULL), MXFP_OK);
		ck_assert_mem_eq(out, want[0], sizeof x);
	}
	assert_status(mxfp_apply(MXFP_FUNCTION_LOG, &output, &one, f32, 0, 1, 1, NULL), MXFP_OK);
	ck_assert_mem_eq(out, &zero, sizeof zero);
	suite_compared(10 * 4 + 1);
}
