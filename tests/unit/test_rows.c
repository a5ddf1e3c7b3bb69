/* SPDX-License-Identifier: MIT */
/* Row operations: nothing to compute, numbers and options at their ends; frequencies of rotary positions of some models. */
#include <string.h>

#include "bits.h"
#include "mxfp.h"
#include "suite.h"

enum { ROWS = 3, COLS = 40, CANARY = 0xA5 };

static float x[ROWS * 2 * COLS], y[ROWS * COLS], out[ROWS * COLS], more[ROWS * COLS];
static uint8_t codes[ROWS * 64], scales[ROWS * 2];
static struct mxfp_matrix in, other;

static void set_up(void)
{
	memset(out, CANARY, sizeof out);
	memset(more, CANARY, sizeof more);
	memset(codes, CANARY, sizeof codes);
	in = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, x);
	other = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, y);
}

/* The result that `data` gets as numbers in f32. */
static struct mxfp_result to_f32(void *data)
{
	return mxfp_to_numbers(MXFP_FORMAT_F32, data);
}

/* By mpmath, each step of transformers' modeling_rope_utils rounded to 24 or 53 bits. */
static const struct {
	const char *model;
	struct mxfp_frequency_options options;
	uint32_t attention_factor, frequency[32];
} rotary[] = {
	{"Llama 3.2 1B",
	 {.size = sizeof(struct mxfp_frequency_options), .base = 500000, .scaling = MXFP_ROTARY_LLAMA3, .factor = 32,
	  .original_positions = 8192, .low_freq_factor = 1, .high_freq_factor = 4},
	 0x3F800000, {
		0x3F800000, 0x3F29E1C6, 0x3EE177BC, 0x3E959EE3, 0x3E4693B0, 0x3E03C6A0, 0x3DAEE4AD, 0x3D681E67,
		0x3D1A08C8, 0x3CCC6F49, 0x3C87A9C3, 0x3C340D6D, 0x3BEEF74F, 0x3B9E9402, 0x3B527720, 0x3AA9279B,
		0x39E13620, 0x38CB98F7, 0x37A3418D, 0x3758AC81, 0x370FC8F8, 0x36BED4F4, 0x367D45C3, 0x3628126B,
		0x35DF10C4, 0x359406CB, 0x35447610, 0x35025F34, 0x34AD07A7, 0x3465A54D, 0x341864A7, 0x33CA41B0,
	}},
	{"gpt-oss",
	 {.size = sizeof(struct mxfp_frequency_options), .base = 150000, .scaling = MXFP_ROTARY_YARN, .factor = 32,
	  .original_positions = 4096, .no_truncate = true},
	 0x3FAC5C86, {
		0x3F800000, 0x3F306535, 0x3EF316A2, 0x3EA77FAA, 0x3E66D3FA, 0x3E1F0CFD, 0x3DDB2F9E, 0x3D970764,
		0x3D502194, 0x3D01DDD5, 0x3C9E6470, 0x3C3DEC94, 0x3BDEA840, 0x3B7CFE14, 0x3B093803, 0x3A89F778,
		0x39EF543C, 0x390799B9, 0x3820ADC6, 0x37DD6DFC, 0x37989328, 0x375242FA, 0x3710E12C, 0x36C7A82B,
		0x3689928C, 0x363D9647, 0x3602A245, 0x35B40668, 0x35781728, 0x352AF200, 0x34EB93EB, 0x34A252D3,
	}},
	{"DeepSeek-V2",
	 {.size = sizeof(struct mxfp_frequency_options), .base = 10000, .scaling = MXFP_ROTARY_YARN, .factor = 40,
	  .original_positions = 4096, .beta_fast = 32, .beta_slow = 1, .mscale = 0.707, .mscale_all_dim = 1},
	 0x3F6BC96F, {
		0x3F800000, 0x3F3FF911, 0x3F0FF59A, 0x3ED7E89B, 0x3EA1E89B, 0x3E72D423, 0x3E361887, 0x3E088D77,
		0x3DCCCCCD, 0x3D99940D, 0x3D6655C2, 0x3D1FC5BA, 0x3CDC321B, 0x3C968DC3, 0x3C4BF283, 0x3C088D77,
		0x3BB43959, 0x3B697066, 0x3B136A16, 0x3AB3A2CD, 0x3A4F3E37, 0x39D99312, 0x393A7753, 0x380BD471,
		0x37D1B717, 0x379D43A3, 0x376BDCF0, 0x3730DF51, 0x3704A2B3, 0x36C6ECDD, 0x36952C42, 0x365FBA4F,
	}},
};

TEST_LOOP(frequencies_of_models, sizeof rotary / sizeof rotary[0])
{
	float frequencies[33], factor;

	memset(frequencies, CANARY, sizeof frequencies);
	assert_status(mxfp_rotary_frequencies(frequencies, &factor, 64, &rotary[_i].options), MXFP_OK);
	ck_assert_mem_eq(frequencies, rotary[_i].frequency, sizeof rotary[_i].frequency);
	ck_assert_uint_eq(mxfp_f32_bits(factor), rotary[_i].attention_factor);
	ck_assert_uint_eq(mxfp_f32_bits(frequencies[32]), UINT32_C(0xA5A5A5A5));
	suite_compared(33);
}

TEST(frequencies_without_scaling)
{
	float frequencies[32];
	struct mxfp_frequency_options o = {.size = sizeof o, .base = 10000};

	assert_status(mxfp_rotary_frequencies(frequencies, NULL, 64, &o), MXFP_OK);
	ck_assert_uint_eq(mxfp_f32_bits(frequencies[0]), UINT32_C(0x3F800000));
	ck_assert_uint_eq(mxfp_f32_bits(frequencies[16]), UINT32_C(0x3C23D70A)); /* 1 / 10000^(1/2) = 0.01 */
	o = rotary[1].options;
	o.mscale = o.mscale_all_dim = -0.0;
	assert_status(mxfp_rotary_frequencies(frequencies, NULL, 64, &o), MXFP_OK);
	suite_compared(3);
}

/* Rows without numbers cost nothing, however many; sums of none are +0. Without rows or numbers, blocks have a tensor
   scale even so: 40 / 2688 for recipe te. */
TEST(nothing_to_compute)
{
	const size_t many = (size_t)1 << (sizeof(size_t) * 8 - 24);
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 0, COLS, codes, scales);
	const struct mxfp_quantize_options quantize = {.size = sizeof quantize, .tensor_amax = {true, 40}};
	const struct mxfp_result to = to_f32(out), blocks = mxfp_to_blocks(&b);
	const struct mxfp_matrix empty = mxfp_numbers(MXFP_FORMAT_F32, many, 0, x), no_rows = mxfp_numbers(MXFP_FORMAT_F32, 0, COLS, x);
	const struct mxfp_matrix two_empty = mxfp_numbers(MXFP_FORMAT_F32, 2, 0, x), row = mxfp_numbers(MXFP_FORMAT_F32, 1, COLS, x);
	const struct mxfp_matrix up = mxfp_numbers(MXFP_FORMAT_F32, 1, COLS, y);
	const struct mxfp_glu_options glu = {.size = sizeof glu, .limit = {true, -0.0F}};
	const struct mxfp_rotary_options rotate = {.size = sizeof rotate, .quantize = &quantize};

	set_up();
	assert_status(mxfp_rms_norm(&to, &empty, NULL, NULL), MXFP_OK);
	assert_status(mxfp_layer_norm(&to, &empty, NULL, NULL), MXFP_OK);
	assert_status(mxfp_softmax(&to, &empty, NULL, NULL), MXFP_OK);
	assert_status(mxfp_rotary(&blocks, &no_rows, x, &rotate, NULL), MXFP_OK);
	ck_assert(b.tensor_scale > 0.0148F && b.tensor_scale < 0.0149F);
	assert_status(mxfp_rows_reduce(out, MXFP_REDUCTION_SUM, &no_rows, NULL), MXFP_OK);
	assert_status(mxfp_rows_reduce(out, MXFP_REDUCTION_SUM, &two_empty, NULL), MXFP_OK);
	ck_assert(out[0] == 0 && out[1] == 0);
	assert_status(mxfp_glu(&to, MXFP_FUNCTION_RELU, &row, &up, &glu, NULL), MXFP_OK);
	suite_compared(8);
}

static void put(void *to, const uint32_t *words, size_t n)
{
	memcpy(to, words, n * sizeof *words);
}

/* Numbers behind those that rotate are converted, a signalling NaN becoming quiet; from f32 to f32 they are copied. */
TEST(numbers_that_do_not_rotate)
{
	static const uint32_t words[] = {0, 0, 0xFFA00001, 0x7F800001, 0x3F80FFFF, 0xFF800000};
	static const uint16_t halves[] = {0, 0, 0xFFA1, 0x7F81, 0x3F80, 0xFF80};
	static const uint16_t want_halves[] = {0xFFE0, 0x7FC0, 0x3F81, 0xFF80}, want_of_halves[] = {0xFFE1, 0x7FC1, 0x3F80, 0xFF80};
	static const uint32_t want_words[] = {0xFFE10000, 0x7FC10000, 0x3F800000, 0xFF800000};
	const struct mxfp_matrix wide = mxfp_numbers(MXFP_FORMAT_F32, 1, 6, words);
	const struct mxfp_matrix narrow = mxfp_numbers(MXFP_FORMAT_BF16, 1, 6, halves);
	const struct mxfp_result to_wide = to_f32(out), to_narrow = mxfp_to_numbers(MXFP_FORMAT_BF16, out);
	const struct mxfp_rotary_options o = {.size = sizeof o, .rotary_cols = 2};
	const float frequency = 1;

	assert_status(mxfp_rotary(&to_wide, &wide, &frequency, &o, NULL), MXFP_OK);
	ck_assert_mem_eq(out + 2, words + 2, 4 * sizeof *out);
	assert_status(mxfp_rotary(&to_narrow, &wide, &frequency, &o, NULL), MXFP_OK);
	ck_assert_mem_eq((uint16_t *)(void *)out + 2, want_halves, sizeof want_halves);
	assert_status(mxfp_rotary(&to_wide, &narrow, &frequency, &o, NULL), MXFP_OK);
	ck_assert_mem_eq(out + 2, want_words, sizeof want_words);
	assert_status(mxfp_rotary(&to_narrow, &narrow, &frequency, &o, NULL), MXFP_OK);
	ck_assert_mem_eq((uint16_t *)(void *)out + 2, want_of_halves, sizeof want_of_halves);
	suite_compared(16);
}

/* A limit of -0 is +0: gates above it become +0, ups of either sign a zero of theirs. An epsilon of -0 is +0, and 1 + no weight is none. */
TEST(negative_zeros_of_options)
{
	static const uint32_t gates[] = {0x3F800000, 0xC0000000, 0x3F800000, 0xC0000000};
	static const uint32_t ups[] = {0xC0A00000, 0xC0A00000, 0x40A00000, 0x40A00000};
	static const uint32_t want[] = {0x80000000, 0, 0, 0x80000000}, ones[] = {0x3F800000, 0xBF800000, 0xBF800000, 0x3F800000};
	static const uint32_t twos[] = {0x40000000, 0xC0000000, 0xC0000000, 0x40000000};
	const struct mxfp_glu_options glu = {.size = sizeof glu, .limit = {true, -0.0F}};
	const struct mxfp_norm_options norm = {.size = sizeof norm, .epsilon = -0.0, .weight_plus_one = true};
	const struct mxfp_matrix g = mxfp_numbers(MXFP_FORMAT_F32, 1, 4, gates), u = mxfp_numbers(MXFP_FORMAT_F32, 1, 4, ups);
	const struct mxfp_matrix t = mxfp_numbers(MXFP_FORMAT_F32, 1, 4, twos);
	const struct mxfp_result to = to_f32(out);

	assert_status(mxfp_glu(&to, MXFP_FUNCTION_IDENTITY, &g, &u, &glu, NULL), MXFP_OK);
	ck_assert_mem_eq(out, want, sizeof want);
	assert_status(mxfp_rms_norm(&to, &t, &norm, NULL), MXFP_OK);
	ck_assert_mem_eq(out, ones, sizeof ones);
	suite_compared(8);
}

/* Scales, sinks, factors and frequencies are numbers like others: NaN where one takes part, and what Inf gives. */
TEST(numbers_of_options_that_are_not_finite)
{
	static const uint32_t not_finite[] = {0x7FC00000, 0x7F800000}, two[] = {0x40000000, 0x3F800000};
	static const uint32_t nans[] = {0x7FC00000, 0x7FC00000};
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, 2, two);
	const struct mxfp_matrix number = mxfp_numbers(MXFP_FORMAT_F32, 1, 1, two);
	const struct mxfp_result to = to_f32(out);
	struct mxfp_softmax_options softmax = {.size = sizeof softmax};
	struct mxfp_rotary_options rotate = {.size = sizeof rotate, .first_position = 1};
	float x_nan, x_inf, minus_inf, one = 1;

	put(&x_nan, &not_finite[0], 1);
	put(&x_inf, &not_finite[1], 1);
	put(&minus_inf, &(uint32_t){0xFF800000}, 1);
	for (int i = 0; i < 2; i++) { /* Inf - Inf is NaN, too */
		softmax.scale = mxfp_some(i == 0 ? x_nan : x_inf);
		assert_status(mxfp_softmax(&to, &numbers, &softmax, NULL), MXFP_OK);
		ck_assert_mem_eq(out, nans, sizeof nans);
	}
	softmax = (struct mxfp_softmax_options){.size = sizeof softmax, .sinks = &x_nan};
	assert_status(mxfp_softmax(&to, &numbers, &softmax, NULL), MXFP_OK);
	ck_assert_mem_eq(out, nans, sizeof nans);
	/* Of a sink of -Inf, which takes part with weight 0, nothing shows. */
	softmax.sinks = &minus_inf;
	assert_status(mxfp_softmax(&to, &number, &softmax, NULL), MXFP_OK);
	ck_assert_mem_eq(out, &two[1], 4);
	assert_status(mxfp_rotary(&to, &numbers, &x_nan, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(out, nans, sizeof nans);
	assert_status(mxfp_rotary(&to, &numbers, &x_inf, &rotate, NULL), MXFP_OK);
	ck_assert_mem_eq(out, nans, sizeof nans);
	rotate = (struct mxfp_rotary_options){.size = sizeof rotate, .attention_factor = mxfp_some(x_nan)};
	assert_status(mxfp_rotary(&to, &numbers, &one, &rotate, NULL), MXFP_OK);
	ck_assert_mem_eq(out, nans, sizeof nans);
	suite_compared(13);
}

/* Numbers of a scaling at the ends of what is taken, for which everything is finite, and beside them. */
TEST(ends_of_scalings)
{
	static const double least = 0x1p-100, most = 0x1p100, below = 0x1.fffffffffffffp-101, above = 0x1.0000000000001p100;
	static const double bases[] = {0x1.000002p0, 3.4028234e38}, no_bases[] = {1, 1 + 1e-12, 0x1.000001p0, 3.5e38, -10000, 0};
	float frequencies[32], factor;

	for (int scaling = 0; scaling < 3; scaling++) {
		struct mxfp_frequency_options o = {
			.size = sizeof o, .scaling = (enum mxfp_rotary_scaling)scaling, .original_positions = UINT32_MAX,
		};

		for (int i = 0; i < 64; i++) {
			o.base = bases[i & 1];
			o.factor = i & 2 ? least : most;
			o.low_freq_factor = i & 4 ? least : 1;
			o.high_freq_factor = i & 8 ? 2 * o.low_freq_factor : most;
			o.beta_fast = o.low_freq_factor;
			o.beta_slow = o.high_freq_factor;
			o.mscale = i & 16 ? least : most;
			o.mscale_all_dim = i & 32 ? least : most;
			o.no_truncate = i & 1;
			assert_status(mxfp_rotary_frequencies(frequencies, &factor, 64, &o), MXFP_OK);
			for (int k = 0; k < 32; k++)
				ck_assert((mxfp_f32_bits(frequencies[k]) & 0x7FFFFFFF) < 0x7F800000);
			ck_assert((mxfp_f32_bits(factor) & 0x7FFFFFFF) < 0x7F800000);
			suite_compared(33);
		}
		for (unsigned i = 0; i < sizeof no_bases / sizeof no_bases[0]; i++) {
			o.base = no_bases[i];
			assert_status(mxfp_rotary_frequencies(frequencies, NULL, 64, &o), MXFP_ERR_OPTION);
		}
		o.base = 10000;
		for (int i = 0; i < 3; i++) {
			const struct mxfp_frequency_options good = o;
			const enum mxfp_status want = scaling == 0 ? MXFP_OK : MXFP_ERR_OPTION;

			o.factor = i == 0 ? below : i == 1 ? above : -1;
			assert_status(mxfp_rotary_frequencies(frequencies, NULL, 64, &o), want);
			o = good;
			o.high_freq_factor = i == 0 ? above : i == 1 ? o.low_freq_factor : o.low_freq_factor + 0x1.8p-101;
			o.beta_slow = i == 0 ? above : i == 1 ? below : -1;
			assert_status(mxfp_rotary_frequencies(frequencies, NULL, 64, &o), want);
			o = good;
			o.low_freq_factor = o.mscale = i == 0 ? below : i == 1 ? above : -1;
			assert_status(mxfp_rotary_frequencies(frequencies, NULL, 64, &o), want);
			o = good;
		}
	}
	suite_compared(3 * (6 + 9));
}

/* A size that no version has, the stride of one row, means and argmax without columns. */
TEST(sizes_and_strides)
{
	const struct mxfp_result to = to_f32(out);
	const struct mxfp_matrix nothing = mxfp_numbers(MXFP_FORMAT_F32, 0, 0, x);

	set_up();
	struct mxfp_matrix src = in, row = other;
	for (src.size = 0; src.size < sizeof src; src.size++)
		assert_status(mxfp_rows_add(&to, &src, &other, NULL, NULL), MXFP_ERR_VERSION);
	src.stride = SIZE_MAX;
	for (size_t rows = 0; rows < 2; rows++) {
		src.rows = row.rows = rows;
		assert_status(mxfp_rows_add(&to, &src, &row, NULL, NULL), MXFP_ERR_SIZE);
	}
	assert_status(mxfp_rows_reduce(out, MXFP_REDUCTION_MEAN, &nothing, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_rows_reduce(out, MXFP_REDUCTION_MAX, &nothing, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_rows_argmax((size_t *)(void *)out, &nothing, NULL), MXFP_ERR_SIZE);
	src.stride = SIZE_MAX / 4;
	assert_status(mxfp_rows_add(&to, &src, &row, NULL, NULL), MXFP_OK);
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 1, COLS, codes, scales);
	const struct mxfp_result blocks = mxfp_to_blocks(&b);
	b.codes_stride = b.scales_stride = SIZE_MAX;
	src.stride = 0;
	assert_status(mxfp_quantize(&blocks, &src, NULL, NULL), MXFP_OK);
	suite_compared(sizeof src + 7);
}
