/* SPDX-License-Identifier: MIT */
/* mxfp_fake_quantize(): numbers and clamped elements calculated by hand, rows and gaps, in place, policies. */
#include <math.h>
#include <string.h>

#include "bits.h"
#include "format.h"
#include "mxfp/philox.h"
#include "mxfp/quantize.h"
#include "suite.h"

static const struct mxfp_quantize_options floor_rule = {.size = sizeof floor_rule, .rule = MXFP_RULE_FLOOR};

static enum mxfp_status fake(enum mxfp_format format, float *dst, uint8_t *clamped, const float *src, size_t cols,
                             const struct mxfp_quantize_options *o, struct mxfp_counts *counts, uint64_t *first)
{
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, cols, src);
	struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, dst);

	result.clamped = clamped;
	result.counts = counts;
	result.first_non_finite = first;
	return mxfp_fake_quantize(&result, format, &numbers, o, NULL);
}

/* Rows of src_stride numbers. */
static enum mxfp_status fake_rows(const struct mxfp_result *result, enum mxfp_format format, const void *src,
                                  enum mxfp_format src_format, size_t src_stride, size_t rows, size_t cols,
                                  const struct mxfp_quantize_options *o)
{
	struct mxfp_matrix numbers = mxfp_numbers(src_format, rows, cols, src);

	numbers.stride = src_stride;
	return mxfp_fake_quantize(result, format, &numbers, o, NULL);
}

/* amax 7.5 = 1.875 * 2^2 and e2m1 has emax 2, so the scale is 1 and the largest element 6. 6.5 rounds to 6: it is clamped
   and does not count as saturated. 5 is the tie of 4 and 6, 0.25 that of 0 and 0.5. */
TEST(mxfp4)
{
	const float x[40] = {7.5F, -6.5F, 6, -6, 5, 0.25F, -0.75F, 0, [31] = -7, [32] = 24, 26, -2};
	const float want[40] = {6, -6, 6, -6, 4, 0, -1, 0, [31] = -6, [32] = 24, 24, -2};
	const uint8_t want_clamped[40] = {1, 1, [31] = 1, [33] = 1};
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_quantize_options o = floor_rule;
	float y[40];
	uint8_t clamped[40];

	memset(clamped, 9, sizeof clamped);
	assert_status(fake(MXFP_FORMAT_MXFP4, y, clamped, x, 40, &o, &counts, NULL), MXFP_OK);
	ck_assert_mem_eq(y, want, sizeof want);
	ck_assert_mem_eq(clamped, want_clamped, sizeof clamped);
	/* 7 is the tie of 6 and 8, which is even. */
	ck_assert(counts.saturated == 2 && counts.flushed == 1);
	o.round = MXFP_ROUND_RTZ; /* changes what elements become, not which are clamped */
	assert_status(fake(MXFP_FORMAT_MXFP4, y, clamped, x, 40, &o, &counts, NULL), MXFP_OK);
	ck_assert_mem_eq(clamped, want_clamped, sizeof clamped);
	ck_assert(y[6] == -0.5F);
	suite_compared(80);
}

/* Recipe torchao-1: amax / 6 = 1.05 is 1 in e4m3, whose neighbour is 1.125, so the largest number is 6. */
TEST(nvfp4)
{
	const float x[18] = {6.3F, 6, -6.1F, 3, -1.2F, [16] = 0.09375F, -0.099F};
	const float want[18] = {6, 6, -6, 3, -1, [16] = 0.09375F, -0.09375F};
	const uint8_t want_clamped[18] = {1, 0, 1, [17] = 1};
	const struct mxfp_quantize_options o = {.size = sizeof o, .recipe = MXFP_RECIPE_TORCHAO_1};
	float y[18];
	uint8_t clamped[18];

	/* The second block: 0.099 / 6 is 8.448 * 2^-9, which is 2^-6 in e4m3, and 6 * 2^-6 = 0.09375. */
	assert_status(fake(MXFP_FORMAT_NVFP4, y, clamped, x, 18, &o, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(y, want, sizeof want);
	ck_assert_mem_eq(clamped, want_clamped, sizeof clamped);
	suite_compared(36);
}

/* Recipe te, which has a tensor scale: amax_t = 2688 makes it 1, S = 1. A block with amax 6.2 has byte e4m3(6.2 / 6) = 1.
   With an amax_t of 5376, g = 2 and S = 1/2: byte e4m3(0.51666) = 0.5, and x * 1 as before. */
TEST(nvfp4_has_a_tensor_scale)
{
	const float amax[2] = {2688, 5376};
	const float x[16] = {6.2F, -6, 1}, want[16] = {6, -6, 1};
	const uint8_t want_clamped[16] = {1};
	float y[16];
	uint8_t clamped[16];

	for (int i = 0; i < 2; i++) {
		const struct mxfp_quantize_options o = {.size = sizeof o, .tensor_amax = {true, amax[i]}};

		assert_status(fake(MXFP_FORMAT_NVFP4, y, clamped, x, 16, &o, NULL, NULL), MXFP_OK);
		ck_assert_mem_eq(y, want, sizeof want);
		ck_assert_mem_eq(clamped, want_clamped, sizeof clamped);
	}
	suite_compared(64);
}

/* Two rows of 33, in place, by strides; then only numbers, then only which are clamped. */
TEST(rows_in_place)
{
	float x[2 * 40], before[2 * 40];
	uint8_t clamped[2 * 50];
	struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_F32, x);

	output.stride = 40;
	output.clamped = clamped;
	output.clamped_stride = 50;
	for (int i = 0; i < 80; i++)
		x[i] = i % 40 < 32 ? 6.5F : 1.75F;
	memcpy(before, x, sizeof x);
	memset(clamped, 9, sizeof clamped);
	assert_status(fake_rows(&output, MXFP_FORMAT_MXFP4, x, MXFP_FORMAT_F32, 40, 2, 33, &floor_rule), MXFP_OK);
	for (int i = 0; i < 80; i++)
		ck_assert(x[i] == (i % 40 < 32 ? 6 : i % 40 == 32 ? 1.5F : 1.75F)); /* 1.75 at scale 2^-2 is 7, clamped to 6 */
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(clamped[i], i % 50 <= 32 ? 1 : 9);
	memcpy(x, before, sizeof x);
	output.clamped = NULL;
	assert_status(fake_rows(&output, MXFP_FORMAT_MXFP4, x, MXFP_FORMAT_F32, 40, 2, 33, &floor_rule), MXFP_OK);
	ck_assert(x[0] == 6 && x[72] == 1.5F && x[73] == 1.75F);
	memcpy(x, before, sizeof x);
	memset(clamped, 9, sizeof clamped);
	output.clamped = clamped;
	output.data = NULL;
	assert_status(fake_rows(&output, MXFP_FORMAT_MXFP4, x, MXFP_FORMAT_F32, 40, 2, 33, &floor_rule), MXFP_OK);
	ck_assert_mem_eq(x, before, sizeof x);
	ck_assert(clamped[0] == 1 && clamped[82] == 1 && clamped[83] == 9);
	suite_compared(4 * 66);
}

/* bf16 in and out, and f16 from bf16: 6.5 is 40D0, 6 is 40C0 and, in binary16, 4600. */
TEST(bf16_and_f16)
{
	uint16_t x[32] = {0x40D0, 0xC0C0, 0x4000}, y[32];
	uint8_t clamped[32];
	struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_F16, y);

	output.clamped = clamped;
	assert_status(fake_rows(&output, MXFP_FORMAT_MXFP4, x, MXFP_FORMAT_BF16, 0, 1, 32, &floor_rule), MXFP_OK);
	ck_assert(y[0] == 0x4600 && y[1] == 0xC600 && y[2] == 0x4000 && y[3] == 0);
	output.format = MXFP_FORMAT_BF16;
	output.data = x;
	assert_status(fake_rows(&output, MXFP_FORMAT_MXFP4, x, MXFP_FORMAT_BF16, 0, 1, 32, &floor_rule), MXFP_OK);
	ck_assert(x[0] == 0x40C0 && x[1] == 0xC0C0 && x[2] == 0x4000);
	ck_assert(clamped[0] == 1 && clamped[1] == 0 && clamped[2] == 0);
	suite_compared(96);
}

/* Via bf16, whose places are 2^-5 here, an element is what it is rounded to: 6 + 2^-6 is a tie and becomes 6, 40C0. */
TEST(via_bf16)
{
	static const uint32_t bits[32] = {0x40C00000, 0x40C00001, 0x40C08000, 0x40C08001, 0xC0C08000, 0xC0C08001};
	const uint8_t want[2][6] = {{0, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 0, 1}};
	struct mxfp_quantize_options o = floor_rule;
	float x[32], y[32];
	uint8_t clamped[32];

	memcpy(x, bits, sizeof x);
	for (int via = 0; via < 2; via++) {
		o.via_bf16 = via == 1;
		assert_status(fake(MXFP_FORMAT_MXFP4, y, clamped, x, 32, &o, NULL, NULL), MXFP_OK);
		ck_assert_mem_eq(clamped, want[via], 6);
	}
	/* int8's largest, 127/64, is 3FFE, and the tie above it goes there. */
	const uint32_t of_int8[32] = {0x3FFE0000, 0x3FFE8000, 0x3FFE8001, 0x3FFF0000};
	const uint8_t want_int8[4] = {0, 0, 1, 1};
	memcpy(x, of_int8, sizeof x);
	assert_status(fake(MXFP_FORMAT_MXINT8, y, clamped, x, 32, &o, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(clamped, want_int8, 4);
	suite_compared(16);
}

static uint32_t bits_at(const float *y, size_t i)
{
	return mxfp_f32_bits(y[i]);
}

/* e4m3 at the scale of FLT_MAX: floor has 2^(127 - 8), where 448 is 1.75 * 2^127, 7F600000; rceil has 2^120, where
   FLT_MAX is rounded to 256, whose product is Inf. */
TEST(non_finite_policies)
{
	float x[64] = {[1] = mxfp_f32_from_bits(0xFF800000), [40] = 3}, y[64];
	uint8_t clamped[64];
	uint64_t first = 77;
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_FLOOR, .first_index = 1000};

	assert_status(fake(MXFP_FORMAT_MXFP8_E4M3, y, clamped, x, 64, &o, &counts, &first), MXFP_OK);
	for (size_t i = 0; i < 64; i++)
		ck_assert(bits_at(y, i) == (i < 32 ? 0x7FC00000 : i == 40 ? 0x40400000 : 0) && clamped[i] == 0);
	ck_assert(first == 1001 && counts.inf == 1 && counts.nan == 0);
	o.non_finite = MXFP_NON_FINITE_SATURATE;
	assert_status(fake(MXFP_FORMAT_MXFP8_E4M3, y, clamped, x, 64, &o, &counts, &first), MXFP_OK);
	ck_assert(bits_at(y, 1) == 0xFF600000 && clamped[1] == 1 && clamped[0] == 0 && y[40] == 3);
	o.rule = MXFP_RULE_RCEIL;
	assert_status(fake(MXFP_FORMAT_MXFP8_E4M3, y, clamped, x, 64, &o, &counts, &first), MXFP_OK);
	ck_assert(bits_at(y, 1) == 0xFF800000 && clamped[1] == 0);
	o.non_finite = MXFP_NON_FINITE_ERROR;
	first = 77;
	memset(y, 9, sizeof y);
	memset(clamped, 9, sizeof clamped);
	assert_status(fake(MXFP_FORMAT_MXFP8_E4M3, y, clamped, x, 64, &o, &counts, &first), MXFP_ERR_NON_FINITE);
	ck_assert(first == 1001 && bits_at(y, 5) == 0x09090909 && clamped[5] == 9);
	x[1] = 0;
	first = 77;
	assert_status(fake(MXFP_FORMAT_MXFP8_E4M3, y, clamped, x, 64, &o, &counts, &first), MXFP_OK);
	ck_assert(first == 77 && y[40] == 3);
	/* In place the source is gone before the call ends; via bf16 the number is 7F7FFFFF, which becomes Inf. */
	o.non_finite = MXFP_NON_FINITE_PROPAGATE;
	o.via_bf16 = true;
	x[50] = mxfp_f32_from_bits(0x7F7FFFFF);
	assert_status(fake(MXFP_FORMAT_MXFP8_E4M3, x, NULL, x, 64, &o, &counts, &first), MXFP_OK);
	ck_assert(first == 1050 && bits_at(x, 40) == 0x7FC00000);
	suite_compared(6 * 64);
}

/* mxfp_quantize() gives blocks, and beside them what mxfp_fake_quantize() gives: in every format, of rows with gaps, with squares
   where there are any. Each part alone is the same. */
TEST_LOOP(beside_blocks, 2 * MXFP_N_FORMATS)
{
	enum { ROWS = 70, COLS = 1101, GAP = 3, STRIDE = COLS + GAP, BLOCK_COLS = 1120 };
	static float x[ROWS * STRIDE], numbers_of_both[ROWS * STRIDE], numbers_alone[ROWS * STRIDE];
	static uint8_t clamped[ROWS * STRIDE], clamped_alone[ROWS * STRIDE];
	static uint8_t codes[2][ROWS * BLOCK_COLS], scales[2][ROWS * BLOCK_COLS / 16];
	const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)(_i / 2));
	const struct mxfp_quantize_options o = {
		.size = sizeof o, .rule = MXFP_RULE_FLOOR, .round = MXFP_ROUND_SR, .seed = 5, .first_index = 100,
		.block_rows = _i % 2 == 0 ? 1 : 32,
	};
	struct mxfp_blocks both = mxfp_blocks_at(info->format, ROWS, COLS, codes[0], scales[0]);
	struct mxfp_blocks alone = mxfp_blocks_at(info->format, ROWS, COLS, codes[1], scales[1]);
	struct mxfp_counts counts[3] = {{.size = sizeof counts[0]}, {.size = sizeof counts[0]}, {.size = sizeof counts[0]}};
	uint64_t first[3] = {7, 7, 7};
	struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, x);
	struct mxfp_result to_both = mxfp_to_blocks(&both), to_blocks = mxfp_to_blocks(&alone);
	struct mxfp_result to_numbers = mxfp_to_numbers(MXFP_FORMAT_F32, numbers_alone);

	suite_compared(1);
	if (info->kind != MXFP_KIND_BLOCK || (info->tensor_scale && o.block_rows != 1))
		return;
	for (size_t i = 0; i < ROWS * STRIDE; i++)
		x[i] = (float)((int)(i * 37 % 1009) - 500) * (i / 64 % 3 == 0 ? 1e-3F : 2.01F); /* up to 1021, past 127/64 * 2^9 */
	x[40 * STRIDE + 77] = mxfp_f32_from_bits(0x7F800000);
	src.stride = STRIDE;
	to_both.data = numbers_of_both;
	to_both.stride = to_numbers.stride = STRIDE;
	to_both.clamped = clamped;
	to_numbers.clamped = clamped_alone;
	to_both.clamped_stride = to_numbers.clamped_stride = STRIDE;
	to_both.counts = &counts[0];
	to_blocks.counts = &counts[1];
	to_numbers.counts = &counts[2];
	to_both.first_non_finite = &first[0];
	to_blocks.first_non_finite = &first[1];
	to_numbers.first_non_finite = &first[2];
	assert_status(mxfp_quantize(&to_both, &src, &o, NULL), MXFP_OK);
	assert_status(mxfp_quantize(&to_blocks, &src, &o, NULL), MXFP_OK);
	assert_status(mxfp_fake_quantize(&to_numbers, info->format, &src, &o, NULL), MXFP_OK);
	ck_assert_mem_eq(codes[0], codes[1], sizeof codes[0]);
	ck_assert_mem_eq(scales[0], scales[1], sizeof scales[0]);
	ck_assert(both.tensor_scale == alone.tensor_scale && both.tensor_scale_divides == alone.tensor_scale_divides);
	ck_assert_mem_eq(numbers_of_both, numbers_alone, sizeof numbers_alone);
	ck_assert_mem_eq(clamped, clamped_alone, sizeof clamped);
	ck_assert_ptr_nonnull(memchr(clamped, 1, sizeof clamped));
	for (int k = 0; k < 3; k++) {
		ck_assert_mem_eq(&counts[k], &counts[0], sizeof counts[0]);
		ck_assert_uint_eq(first[k], 100 + 40 * COLS + 77);
	}
	/* The numbers are those of the blocks. */
	const struct mxfp_matrix blocks = mxfp_blocks_matrix(&both);
	to_numbers = mxfp_to_numbers(MXFP_FORMAT_F32, numbers_alone);
	to_numbers.stride = STRIDE;
	assert_status(mxfp_dequantize(&to_numbers, &blocks, NULL), MXFP_OK);
	ck_assert_mem_eq(numbers_of_both, numbers_alone, sizeof numbers_alone);
	suite_compared(4 * ROWS * COLS);
}

enum { WEIGHTS = 1024 };

static double squared_error(const float *y, const float *wanted)
{
	double sum = 0;

	for (size_t i = 0; i < WEIGHTS; i++)
		sum += (double)(y[i] - wanted[i]) * (double)(y[i] - wanted[i]);
	return sum / WEIGHTS;
}

/* Trains small weights by a straight-through gradient, which in a linear regression on orthonormal inputs is what blocks hold of
   them less what is wanted. With `stopped` it is 0 of what was clamped. Returns the least loss on the way. */
static double trained(enum mxfp_format format, const struct mxfp_quantize_options *o, const float *wanted, bool stopped)
{
	double least = (double)INFINITY;
	float weights[WEIGHTS], y[WEIGHTS];
	uint8_t clamped[WEIGHTS];

	for (size_t i = 0; i < WEIGHTS; i++)
		weights[i] = wanted[(i + 7) % WEIGHTS] / 64;
	for (int step = 0; step < 200; step++) {
		assert_status(fake(format, y, clamped, weights, WEIGHTS, o, NULL, NULL), MXFP_OK);
		const double loss = squared_error(y, wanted);

		least = loss < least ? loss : least;
		for (size_t i = 0; i < WEIGHTS; i++)
			weights[i] -= stopped && clamped[i] != 0 ? 0 : 0.05F * (y[i] - wanted[i]);
	}
	return least;
}

/* Training from small weights comes near the loss of quantizing what is wanted: a block's scale follows its largest number, which
   most rules clamp. A gradient that stops there leaves number and scale small for good; rceil clamps nothing. */
TEST(training_from_small_weights)
{
	static const struct {
		enum mxfp_format format;
		enum mxfp_rule rule;
		bool clamps;
	} rows[] = {
		{MXFP_FORMAT_MXFP4, MXFP_RULE_MSE, true}, {MXFP_FORMAT_MXFP4, MXFP_RULE_FLOOR, true},
		{MXFP_FORMAT_MXFP4, MXFP_RULE_EVEN, true}, {MXFP_FORMAT_MXFP4, MXFP_RULE_RCEIL, false},
		{MXFP_FORMAT_MXFP6_E2M3, MXFP_RULE_FLOOR, true}, {MXFP_FORMAT_NVFP4, MXFP_RULE_MSE, true},
	};
	float wanted[WEIGHTS], y[WEIGHTS];

	for (size_t i = 0; i < WEIGHTS; i++)
		wanted[i] = (float)(int32_t)mxfp_philox_word(1, 0, i) * 0x1p-29F; /* from -4 to 4 */
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const struct mxfp_quantize_options o = {.size = sizeof o, .rule = rows[k].rule};

		assert_status(fake(rows[k].format, y, NULL, wanted, WEIGHTS, &o, NULL, NULL), MXFP_OK);
		const double twice = 2 * squared_error(y, wanted);

		ck_assert(trained(rows[k].format, &o, wanted, false) < twice);
		ck_assert((trained(rows[k].format, &o, wanted, true) > twice) == rows[k].clamps);
	}
	suite_compared(2 * sizeof rows / sizeof rows[0]);
}

TEST(nothing_to_quantize)
{
	const struct mxfp_result nowhere = mxfp_to_numbers(MXFP_FORMAT_F32, NULL);

	assert_status(fake_rows(&nowhere, MXFP_FORMAT_MXFP4, NULL, MXFP_FORMAT_F32, 0, 0, 32, NULL), MXFP_OK);
	assert_status(fake_rows(&nowhere, MXFP_FORMAT_MXFP4, NULL, MXFP_FORMAT_F32, 0, 3, 0, NULL), MXFP_OK);
	suite_compared(2);
}
