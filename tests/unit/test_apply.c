/* SPDX-License-Identifier: MIT */
/* mxfp_function_apply(): where results go: numbers, bf16, blocks, strides, in place. */
#include <string.h>

#include "mxfp/rows.h"
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
	return mxfp_blocks_at(MXFP_FORMAT_MXFP8_E4M3, ROWS, COLS, codes, scales);
}

static struct mxfp_matrix matrix(const void *data, enum mxfp_format format, size_t stride)
{
	struct mxfp_matrix m = mxfp_numbers(format, ROWS, COLS, data);

	m.stride = stride;
	return m;
}

/* relu, by hand. */
static float positive(float x)
{
	return x > 0 ? x : 0.0F;
}

TEST(numbers_and_blocks_in_one_pass)
{
	struct mxfp_blocks b = blocks(), alone = blocks();
	struct mxfp_counts counts = {.size = sizeof counts}, counts_alone = {.size = sizeof counts_alone};
	const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .rule = MXFP_RULE_FLOOR};
	const struct mxfp_function_options options = {.size = sizeof options, .quantize = &quantize};
	const struct mxfp_matrix from = matrix(src, f32, STRIDE - 1), again = matrix(out, f32, STRIDE);
	struct mxfp_result output = mxfp_to_blocks(&b), output_alone = mxfp_to_blocks(&alone);

	set_up();
	src[0] = 1e-30F; /* flushed in a block of larger numbers */
	output.data = out;
	output.stride = STRIDE;
	output.counts = &counts;
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_RELU, &from, &options, NULL), MXFP_OK);
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
	output_alone.counts = &counts_alone;
	assert_status(mxfp_quantize(&output_alone, &again, &quantize, NULL), MXFP_OK);
	ck_assert_mem_eq(codes, codes_alone, sizeof codes);
	ck_assert_mem_eq(scales, scales_alone, sizeof scales);
	ck_assert_uint_eq(counts.flushed, 1);
	ck_assert_uint_eq(counts_alone.flushed, 1);
	suite_compared(ROWS * COLS);
}

/* With recipe te, NVFP4 takes the tensor's amax from the caller; 5.5 is that of these numbers. */
TEST(blocks_with_a_tensor_scale)
{
	struct mxfp_blocks b = blocks(), alone = blocks();
	const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .tensor_amax = {true, 5.5F}};
	const struct mxfp_function_options options = {.size = sizeof options, .quantize = &quantize};
	const struct mxfp_result output = mxfp_to_blocks(&b), output_alone = mxfp_to_blocks(&alone);
	const struct mxfp_matrix from = matrix(src, f32, 0);

	set_up();
	b.format = alone.format = MXFP_FORMAT_NVFP4;
	b.scales = out;
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_IDENTITY, &from, &options, NULL), MXFP_OK);
	alone.codes = codes_alone;
	alone.scales = out_bf16;
	memset(codes_alone, CANARY, sizeof codes_alone);
	assert_status(mxfp_quantize(&output_alone, &from, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(codes, codes_alone, sizeof codes);
	ck_assert_mem_eq(out, out_bf16, sizeof out_bf16);
	ck_assert(b.tensor_scale == alone.tensor_scale);
	ck_assert(b.tensor_scale > 0.002F && b.tensor_scale < 0.0021F); /* 5.5 / 2688 */
	suite_compared(ROWS * COLS);
}

/* 1 + 2^-9 and 1 + 3 * 2^-9 in bf16, whose numbers are 2^-7 apart there: 1 and 1 + 2^-7. Read again, they are exact. */
TEST(bf16_in_and_out)
{
	const struct mxfp_result output = mxfp_to_numbers(bf16, out_bf16), back = mxfp_to_numbers(f32, out);
	const struct mxfp_matrix from = matrix(src, f32, 0), again = matrix(out_bf16, bf16, 0);

	set_up();
	src[0] = 1.001953125F;
	src[1] = 1.005859375F;
	src[2] = -1.0F;
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_RELU, &from, NULL, NULL), MXFP_OK);
	ck_assert_uint_eq(out_bf16[0], 0x3F80);
	ck_assert_uint_eq(out_bf16[1], 0x3F81);
	ck_assert_uint_eq(out_bf16[2], 0);
	assert_status(mxfp_function_apply(&back, MXFP_FUNCTION_IDENTITY, &again, NULL, NULL), MXFP_OK);
	ck_assert(out[0] == 1.0F);
	ck_assert(out[1] == 1.0078125F);
	for (int i = 3; i < ROWS * COLS; i++)
		ck_assert(out[i] == positive(src[i]));
	suite_compared(ROWS * COLS);
}

TEST(in_place_and_empty)
{
	const struct mxfp_function_options options = {.size = sizeof options, .parameter = {true, -2}};
	const struct mxfp_matrix from = matrix(src, f32, STRIDE);
	const struct mxfp_matrix no_rows = mxfp_numbers(f32, 0, COLS, NULL), no_cols = mxfp_numbers(f32, ROWS, 0, NULL);
	struct mxfp_result output = mxfp_to_numbers(f32, src);

	set_up();
	memcpy(out, src, sizeof src);
	output.stride = STRIDE;
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_LEAKY_RELU, &from, &options, NULL), MXFP_OK);
	for (int i = 0; i < ROWS * STRIDE; i++)
		ck_assert(src[i] == (i % STRIDE < COLS && out[i] < 0 ? out[i] * -2 : out[i]));
	output.data = NULL;
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_EXP, &no_rows, NULL, NULL), MXFP_OK);
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_EXP, &no_cols, NULL, NULL), MXFP_OK);
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
	const uint32_t one = 0x3F800000, zero = 0;
	const struct mxfp_result output = mxfp_to_numbers(f32, out);
	const struct mxfp_matrix from = mxfp_numbers(f32, 1, 4, x), from_one = mxfp_numbers(f32, 1, 1, &one);

	for (int i = 0; i < 8; i++) {
		struct mxfp_function_options options = {.size = sizeof options, .parameter = {.given = true}};

		memcpy(&options.parameter.value, &parameters[i], sizeof parameters[i]);
		assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_SILU, &from, &options, NULL), MXFP_OK);
		ck_assert_mem_eq(out, want[i / 3], sizeof x);
	}
	for (int i = 0; i < 2; i++) {
		assert_status(mxfp_function_apply(&output, gelus[i], &from, NULL, NULL), MXFP_OK);
		ck_assert_mem_eq(out, want[0], sizeof x);
	}
	assert_status(mxfp_function_apply(&output, MXFP_FUNCTION_LOG, &from_one, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(out, &zero, sizeof zero);
	suite_compared(10 * 4 + 1);
}
