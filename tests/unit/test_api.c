/* SPDX-License-Identifier: MIT */
/* The public functions' argument checks: each status of each function, with every output untouched; what may be NULL or
   empty; sizes; amax. */
#include "mxfp.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/inputs.h"
#include "oracle/oracle.h"
#include "suite.h"

enum { CANARY = 0xA5, N = 64 };

static uint8_t dst[4 * N], codes[4 * N], scales[N];
static float src[N];

static bool untouched(const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)bytes)[i] != CANARY)
			return false;
	return true;
}

static void set_up(void)
{
	memset(dst, CANARY, sizeof dst);
	memset(codes, CANARY, sizeof codes);
	memset(scales, CANARY, sizeof scales);
	for (int i = 0; i < N; i++)
		src[i] = (float)(i - 20);
}

static void check_untouched(void)
{
	ck_assert(untouched(dst, sizeof dst) && untouched(codes, sizeof codes) && untouched(scales, sizeof scales));
}

static const enum mxfp_format e4m3 = MXFP_FORMAT_E4M3, f32 = MXFP_FORMAT_F32, none = (enum mxfp_format)MXFP_N_FORMATS;

TEST(convert_refuses_formats)
{
	assert_status(mxfp_convert(dst, none, src, f32, N, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_convert(dst, e4m3, src, (enum mxfp_format)-1, N, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_convert(dst, MXFP_FORMAT_MXFP4, src, f32, N, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_convert(dst, e4m3, src, MXFP_FORMAT_NVFP4, N, NULL), MXFP_ERR_FORMAT);
}

TEST(convert_refuses_options)
{
	struct mxfp_convert_options bad_round = {.round = (enum mxfp_round)7}, negative = {.round = (enum mxfp_round)-1};
	struct mxfp_convert_options bad_overflow = {.overflow = (enum mxfp_overflow)2};

	assert_status(mxfp_convert(dst, e4m3, src, f32, N, &bad_round), MXFP_ERR_OPTION);
	assert_status(mxfp_convert(dst, e4m3, src, f32, N, &negative), MXFP_ERR_OPTION);
	assert_status(mxfp_convert(dst, e4m3, src, f32, N, &bad_overflow), MXFP_ERR_OPTION);
}

TEST(convert_refuses_pointers_and_sizes)
{
	struct mxfp_counts counts = {0, 1, 2, 3, 4, 5}, before = counts;
	struct mxfp_convert_options late = {.first_index = UINT64_MAX - N + 1, .counts = &counts};

	assert_status(mxfp_convert(NULL, e4m3, src, f32, N, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_convert(dst, e4m3, NULL, f32, N, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_convert(dst, e4m3, src, f32, SIZE_MAX, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_convert(dst, e4m3, src, f32, SIZE_MAX / 4 + 1, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_convert(dst, e4m3, src, f32, N, &late), MXFP_ERR_SIZE);
	assert_status(mxfp_convert(src, f32, src, f32, N, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_convert((uint8_t *)src + 4 * N - 1, e4m3, src, f32, N, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_convert(src, f32, (uint8_t *)src + 1, e4m3, N, NULL), MXFP_ERR_OVERLAP);
	ck_assert(src[0] == -20);
	ck_assert_mem_eq(&counts, &before, sizeof counts);
}

TEST(convert_takes_nothing_and_neighbours)
{
	uint8_t both[5 * N];
	struct mxfp_convert_options last = {.first_index = UINT64_MAX - N};

	assert_status(mxfp_convert(NULL, e4m3, NULL, f32, 0, NULL), MXFP_OK);
	check_untouched();
	memcpy(both, src, sizeof src);
	assert_status(mxfp_convert(both + 4 * N, e4m3, both, f32, N, NULL), MXFP_OK);
	assert_status(mxfp_convert(dst, e4m3, src, f32, N, &last), MXFP_OK);
	ck_assert_mem_eq(dst, both + 4 * N, N);
	set_up(); /* it was to be written */
}

/* Two rows of 32 in MXFP4: 16 bytes of codes and one scale a row. */
static struct mxfp_blocks blocks_of(enum mxfp_format format)
{
	return (struct mxfp_blocks){.format = format, .rows = 2, .cols = 32, .codes = codes, .scales = scales,
	                            .tensor_scale = 3};
}

/* Fails unless the call with one field of the matrix changed gives `want` and changes nothing, *b included. */
static void refuse(const struct mxfp_blocks *b, enum mxfp_format format, size_t stride,
                   const struct mxfp_quantize_options *options, enum mxfp_status want)
{
	struct mxfp_blocks copy = *b;

	assert_status(mxfp_quantize(&copy, src, format, stride, options), want);
	ck_assert_mem_eq(&copy, b, sizeof copy);
	check_untouched();
	if (options == NULL) {
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&copy);
		assert_status(mxfp_dequantize(&matrix, dst, format, stride, NULL), want);
		check_untouched();
	}
}

TEST(blocks_are_refused)
{
	static const size_t huge = SIZE_MAX / 2;
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);

	refuse(&b, e4m3, 0, NULL, MXFP_ERR_FORMAT);
	refuse(&b, MXFP_FORMAT_TF32, 0, NULL, MXFP_ERR_FORMAT);
	refuse(&b, none, 0, NULL, MXFP_ERR_FORMAT);
	b.format = e4m3;
	refuse(&b, f32, 0, NULL, MXFP_ERR_FORMAT);
	b.format = none;
	refuse(&b, f32, 0, NULL, MXFP_ERR_FORMAT);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.codes = NULL;
	refuse(&b, f32, 0, NULL, MXFP_ERR_NULL);
	b = blocks_of(MXFP_FORMAT_NVFP4);
	b.scales = NULL;
	refuse(&b, f32, 0, NULL, MXFP_ERR_NULL);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	refuse(&b, f32, 31, NULL, MXFP_ERR_SIZE);
	refuse(&b, f32, huge, NULL, MXFP_ERR_SIZE);
	b.codes_stride = 15;
	refuse(&b, f32, 0, NULL, MXFP_ERR_SIZE);
	b.codes_stride = SIZE_MAX;
	refuse(&b, f32, 0, NULL, MXFP_ERR_SIZE);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.cols = 33;
	b.scales_stride = 1;
	refuse(&b, f32, 0, NULL, MXFP_ERR_SIZE);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.rows = huge;
	refuse(&b, f32, 0, NULL, MXFP_ERR_SIZE);
}

/* Rows without elements touch nothing, so their strides reach into nothing. */
TEST(empty_rows_overlap_nothing)
{
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);

	b.rows = 3;
	b.cols = 0;
	b.codes = src;
	b.codes_stride = b.scales_stride = 16;
	assert_status(mxfp_quantize(&b, src, f32, 16, NULL), MXFP_OK);
}

TEST(blocks_that_overlap_are_refused)
{
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);

	b.codes = (uint8_t *)src + sizeof src - 1;
	refuse(&b, f32, 0, &(struct mxfp_quantize_options){0}, MXFP_ERR_OVERLAP);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.scales = src;
	refuse(&b, f32, 0, &(struct mxfp_quantize_options){0}, MXFP_ERR_OVERLAP);
	b.scales = codes + 31;
	refuse(&b, f32, 0, &(struct mxfp_quantize_options){0}, MXFP_ERR_OVERLAP);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	struct mxfp_matrix matrix = mxfp_blocks_matrix(&b);
	assert_status(mxfp_dequantize(&matrix, codes, f32, 0, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_dequantize(&matrix, scales + 1, MXFP_FORMAT_BF16, 0, NULL), MXFP_ERR_OVERLAP);
	check_untouched();
	ck_assert(src[0] == -20);
}

TEST(quantize_refuses_options)
{
	static const float bad_amax[] = {-1, INFINITY, -INFINITY, NAN};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP4), nv = blocks_of(MXFP_FORMAT_NVFP4);
	const struct mxfp_quantize_options bad[] = {
		{.rule = (enum mxfp_rule)10},
		{.recipe = (enum mxfp_recipe)9},
		{.round = (enum mxfp_round)7},
		{.non_finite = (enum mxfp_non_finite)3},
		{.non_finite = (enum mxfp_non_finite)-1},
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		refuse(&mx, f32, 0, &bad[i], MXFP_ERR_OPTION);
	refuse(&nv, f32, 0, &(struct mxfp_quantize_options){.recipe = MXFP_RECIPE_GGML, .round = MXFP_ROUND_RTZ},
	       MXFP_ERR_OPTION);
	refuse(&nv, f32, 0, &(struct mxfp_quantize_options){.via_bf16 = true}, MXFP_ERR_OPTION);
	for (size_t i = 0; i < sizeof bad_amax / sizeof bad_amax[0]; i++)
		refuse(&nv, f32, 0, &(struct mxfp_quantize_options){.tensor_amax = &bad_amax[i]}, MXFP_ERR_OPTION);
	refuse(&mx, f32, 0, &(struct mxfp_quantize_options){.first_index = UINT64_MAX - 63}, MXFP_ERR_SIZE);
	const struct mxfp_quantize_options last = {.first_index = UINT64_MAX - 64};
	assert_status(mxfp_quantize(&mx, src, f32, 0, &last), MXFP_OK);
	set_up();
}

TEST(quantize_refuses_non_finite)
{
	uint64_t index = 5;
	const struct mxfp_quantize_options policy = {.non_finite = MXFP_NON_FINITE_ERROR, .first_non_finite = &index};
	const struct mxfp_quantize_options unasked = {.non_finite = MXFP_NON_FINITE_ERROR};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP8_E4M3), nv = blocks_of(MXFP_FORMAT_NVFP4);

	src[40] = NAN;
	refuse(&mx, f32, 0, &unasked, MXFP_ERR_NON_FINITE);
	refuse(&mx, f32, 0, &policy, MXFP_ERR_NON_FINITE);
	ck_assert_uint_eq(index, 40);
	src[3] = -INFINITY;
	refuse(&nv, f32, 0, &policy, MXFP_ERR_NON_FINITE);
	ck_assert_uint_eq(index, 3);
}

/* What is reported where nothing is refused: in every format, mode, rule and recipe, of all kinds of numbers. */
static void check_report(enum mxfp_format format, const struct mxfp_quantize_options *of)
{
	static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	enum { ROWS = 3, COLS = 1100, ALL = ROWS * COLS };
	static uint8_t elements[ROWS * 1120], block_scales[ROWS * 70];
	static uint32_t x[ALL], converted[ALL];
	const size_t at[] = {SIZE_MAX, 0, 511, COLS - 1, COLS + 40, ALL - 1};
	const uint32_t kinds[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345};
	struct mxfp_blocks b = {
		.format = format, .rows = ROWS, .cols = COLS, .codes = elements, .scales = block_scales,
	};
	struct mxfp_quantize_options options = *of;
	uint64_t index;

	options.first_index = 1000;
	options.first_non_finite = &index;
	for (size_t i = 0; i < 3 * sizeof at / sizeof at[0]; i++) {
		const size_t first = at[i / 3];

		for (size_t k = 0; k < ALL; k++)
			x[k] = 0x3F800000 + (uint32_t)(k % 7 << 20);
		for (size_t k = first; k < ALL; k += 700)
			x[k] = kinds[(i + k) % 4];
		assert_status(mxfp_convert(converted, sources[i % 3], x, f32, ALL, NULL), MXFP_OK);
		index = 5;
		assert_status(mxfp_quantize(&b, converted, sources[i % 3], 0, &options), MXFP_OK);
		ck_assert_uint_eq(index, first == SIZE_MAX ? 5 : 1000 + first);
	}
}

static void check_reports(enum mxfp_format format, struct mxfp_quantize_options o)
{
	for (int round = 0; mxfp_option_name(MXFP_OPTION_ROUND, round) != NULL; round++) {
		if (o.recipe == MXFP_RECIPE_GGML && round != MXFP_ROUND_RNE)
			continue;
		o.round = (enum mxfp_round)round;
		o.non_finite = MXFP_NON_FINITE_PROPAGATE;
		check_report(format, &o);
		o.non_finite = MXFP_NON_FINITE_SATURATE;
		check_report(format, &o);
	}
}

TEST(quantize_reports_non_finite)
{
	const float amax = 2;

	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)f);
		struct mxfp_quantize_options o = {.tensor_amax = &amax};

		if (info->kind == MXFP_KIND_BLOCK && info->tensor_scale)
			for (int i = 0; mxfp_option_name(MXFP_OPTION_RECIPE, i) != NULL; i++) {
				o.recipe = (enum mxfp_recipe)i;
				check_reports((enum mxfp_format)f, o);
			}
		else if (info->kind == MXFP_KIND_BLOCK)
			for (int i = 0; mxfp_option_name(MXFP_OPTION_RULE, i) != NULL; i++) {
				o.rule = (enum mxfp_rule)i;
				check_reports((enum mxfp_format)f, o);
			}
	}
	/* What becomes Inf on its way through bf16 counts as one. */
	const float largest[32] = {[3] = FLT_MAX};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP8_E4M3);
	uint64_t index = 5;
	const struct mxfp_quantize_options via = {
		.via_bf16 = true,
		.non_finite = MXFP_NON_FINITE_PROPAGATE,
		.first_non_finite = &index,
	};
	mx.rows = 1;
	mx.cols = 32;
	assert_status(mxfp_quantize(&mx, largest, f32, 0, &via), MXFP_OK);
	ck_assert_uint_eq(index, 3);
	set_up();
}

TEST(null_and_empty_matrices)
{
	struct mxfp_blocks empty = {.format = MXFP_FORMAT_NVFP4};
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);

	assert_status(mxfp_quantize(NULL, src, f32, 0, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_dequantize(NULL, dst, f32, 0, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_quantize(&b, NULL, f32, 0, NULL), MXFP_ERR_NULL);
	struct mxfp_matrix matrix = mxfp_blocks_matrix(&b);
	assert_status(mxfp_dequantize(&matrix, NULL, f32, 0, NULL), MXFP_ERR_NULL);
	for (size_t rows = 0; rows < 2; rows++) {
		empty.rows = rows * 7;
		empty.cols = 7 - rows * 7;
		assert_status(mxfp_quantize(&empty, NULL, f32, 0, NULL), MXFP_OK);
		matrix = mxfp_blocks_matrix(&empty);
		assert_status(mxfp_dequantize(&matrix, NULL, f32, 0, NULL), MXFP_OK);
	}
	check_untouched();
}

/* rows, cols, then the bytes of a row of codes and of scales, counted by hand. */
TEST(sizes_are_whole_blocks)
{
	static const struct {
		enum mxfp_format format;
		size_t rows, cols, codes, scales;
	} known[] = {
		{MXFP_FORMAT_MXFP4, 3, 32, 16, 1},      {MXFP_FORMAT_MXFP4, 3, 33, 32, 2},
		{MXFP_FORMAT_MXFP6_E3M2, 5, 1, 24, 1},  {MXFP_FORMAT_MXFP6_E2M3, 1, 64, 48, 2},
		{MXFP_FORMAT_MXFP8_E5M2, 2, 31, 32, 1}, {MXFP_FORMAT_MXINT8, 2, 65, 96, 3},
		{MXFP_FORMAT_NVFP4, 4, 16, 8, 1},       {MXFP_FORMAT_NVFP4, 4, 17, 16, 2},
		{MXFP_FORMAT_MXFP4, 0, 40, 32, 2},      {MXFP_FORMAT_MXFP4, 9, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		struct mxfp_sizes size;
		assert_status(mxfp_blocks_size(known[i].format, known[i].rows, known[i].cols, &size), MXFP_OK);
		ck_assert_uint_eq(size.codes_row_bytes, known[i].codes);
		ck_assert_uint_eq(size.scales_row_bytes, known[i].scales);
		ck_assert_uint_eq(size.codes_bytes, known[i].rows * known[i].codes);
		ck_assert_uint_eq(size.scales_bytes, known[i].rows * known[i].scales);
		suite_compared(1);
	}
}

TEST(sizes_are_refused)
{
	struct mxfp_sizes size, before;

	memset(&size, CANARY, sizeof size);
	before = size;
	assert_status(mxfp_blocks_size(e4m3, 1, 1, &size), MXFP_ERR_FORMAT);
	assert_status(mxfp_blocks_size(none, 1, 1, &size), MXFP_ERR_FORMAT);
	assert_status(mxfp_blocks_size(MXFP_FORMAT_MXFP4, 1, 1, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_blocks_size(MXFP_FORMAT_MXFP4, SIZE_MAX, 1, &size), MXFP_ERR_SIZE);
	assert_status(mxfp_blocks_size(MXFP_FORMAT_MXINT8, 1, SIZE_MAX, &size), MXFP_ERR_SIZE);
	assert_status(mxfp_blocks_size(MXFP_FORMAT_MXINT8, SIZE_MAX / 64, 65, &size), MXFP_ERR_SIZE);
	ck_assert_mem_eq(&size, &before, sizeof size);
}

/* The largest finite magnitude, raised and never lowered, from every source format and class of number. */
TEST(amax_is_the_largest_finite_magnitude)
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	struct random r = {suite_seed()};

	for (int i = 0; i < 30000; i++) {
		const struct mxfp_format_info *f = mxfp_format_get_info(formats[i % 3]);
		uint32_t words[8], want = 0, start = i % 2 == 0 ? 0 : random_f32(&r) & 0x7F7FFFFF, bits;
		size_t n = random_below(&r, 9);
		float amax;
		for (size_t k = 0; k < 8; k++)
			words[k] = random_f32(&r);
		for (size_t k = 0; k < n; k++) {
			uint16_t half;
			memcpy(&half, (const uint8_t *)words + 2 * k, sizeof half);
			uint32_t magnitude = oracle_decode(f, f->storage_bytes == 2 ? half : words[k]) & 0x7FFFFFFF;
			want = magnitude < 0x7F800000 && magnitude > want ? magnitude : want;
		}
		memcpy(&amax, &start, sizeof amax);
		assert_status(mxfp_amax(words, f->format, n, &amax, NULL), MXFP_OK);
		memcpy(&bits, &amax, sizeof bits);
		ck_assert_uint_eq(bits, want > start ? want : start);
	}
	suite_compared(30000);
}

TEST(amax_refuses)
{
	float amax = 7;

	assert_status(mxfp_amax(NULL, f32, 1, &amax, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_amax(src, f32, 1, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_amax(src, MXFP_FORMAT_TF32, 1, &amax, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_amax(src, MXFP_FORMAT_MXFP4, 1, &amax, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_amax(src, f32, SIZE_MAX / 2, &amax, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_amax(NULL, f32, 0, &amax, NULL), MXFP_OK);
	ck_assert(amax == 7);
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = set_up, .after = check_untouched});
}
