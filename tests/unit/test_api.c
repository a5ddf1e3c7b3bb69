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
	assert_status(mxfp_convert_array(dst, none, src, f32, N, NULL, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_convert_array(dst, e4m3, src, (enum mxfp_format)-1, N, NULL, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_convert_array(dst, MXFP_FORMAT_MXFP4, src, f32, N, NULL, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_convert_array(dst, e4m3, src, MXFP_FORMAT_NVFP4, N, NULL, NULL), MXFP_ERR_FORMAT);
}

TEST(convert_refuses_options)
{
	const struct mxfp_convert_options bad_round = {.size = sizeof bad_round, .round = (enum mxfp_round)7};
	const struct mxfp_convert_options negative = {.size = sizeof negative, .round = (enum mxfp_round)-1};
	const struct mxfp_convert_options bad_overflow = {.size = sizeof bad_overflow, .overflow = (enum mxfp_overflow)2};
	const struct mxfp_convert_options no_size = {.no_negative_zero = true};
	const struct mxfp_exec no_tier = {.size = sizeof no_tier, .isa = "none"};

	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, &bad_round, NULL), MXFP_ERR_OPTION);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, &negative, NULL), MXFP_ERR_OPTION);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, &bad_overflow, NULL), MXFP_ERR_OPTION);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, &no_size, NULL), MXFP_ERR_VERSION);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, NULL, &no_tier), MXFP_ERR_ISA);
}

TEST(convert_refuses_pointers_and_sizes)
{
	const struct mxfp_convert_options late = {.size = sizeof late, .first_index = UINT64_MAX - N + 1};

	assert_status(mxfp_convert_array(NULL, e4m3, src, f32, N, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_convert_array(dst, e4m3, NULL, f32, N, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, SIZE_MAX, NULL, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, SIZE_MAX / 4 + 1, NULL, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, &late, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_convert_array(src, f32, src, f32, N, NULL, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_convert_array((uint8_t *)src + 4 * N - 1, e4m3, src, f32, N, NULL, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_convert_array(src, f32, (uint8_t *)src + 1, e4m3, N, NULL, NULL), MXFP_ERR_OVERLAP);
	ck_assert(src[0] == -20);
}

/* The call with these is refused, and counts stay. */
static void refuse_convert(const struct mxfp_result *result, const struct mxfp_matrix *matrix,
                           const struct mxfp_convert_options *options, enum mxfp_status want)
{
	struct mxfp_counts counts = {sizeof counts, 1, 2, 3, 4, 5}, before = counts;
	struct mxfp_result r = *result;

	r.counts = &counts;
	assert_status(mxfp_convert(&r, matrix, options, NULL), want);
	ck_assert_mem_eq(&counts, &before, sizeof counts);
	check_untouched();
}

TEST(convert_refuses_matrices_and_results)
{
	const struct mxfp_convert_options late = {.size = sizeof late, .first_index = UINT64_MAX - N + 1};
	const struct mxfp_matrix good = mxfp_numbers(f32, 2, N / 2, src);
	const struct mxfp_result to = mxfp_to_numbers(e4m3, dst);
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 2, N / 2, codes, scales);
	struct mxfp_counts no_size = {.size = 0};
	struct mxfp_matrix m = good;
	struct mxfp_result r = to;
	uint64_t index = 5;

	refuse_convert(&to, &good, &late, MXFP_ERR_SIZE);
	refuse_convert(&to, NULL, NULL, MXFP_ERR_NULL);
	m.stride = N / 2 - 1;
	refuse_convert(&to, &m, NULL, MXFP_ERR_STRIDE);
	m.stride = SIZE_MAX / 2;
	refuse_convert(&to, &m, NULL, MXFP_ERR_SIZE);
	m = good;
	m.transposed = true;
	refuse_convert(&to, &m, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.sparsity = (struct mxfp_sparsity){2, 4};
	refuse_convert(&to, &m, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.size = 0;
	refuse_convert(&to, &m, NULL, MXFP_ERR_VERSION);
	r.stride = N / 2 - 1;
	refuse_convert(&r, &good, NULL, MXFP_ERR_STRIDE);
	r = to;
	r.size = 0;
	refuse_convert(&r, &good, NULL, MXFP_ERR_VERSION);
	r = to;
	r.blocks = &blocks;
	refuse_convert(&r, &good, NULL, MXFP_ERR_OPTION);
	r = to;
	r.clamped = codes;
	refuse_convert(&r, &good, NULL, MXFP_ERR_OPTION);
	r = to;
	r.first_non_finite = &index;
	refuse_convert(&r, &good, NULL, MXFP_ERR_OPTION);
	r = to;
	r.counts = &no_size;
	assert_status(mxfp_convert(&r, &good, NULL, NULL), MXFP_ERR_VERSION);
	assert_status(mxfp_convert(NULL, &good, NULL, NULL), MXFP_ERR_NULL);
	ck_assert_uint_eq(index, 5);
}

/* Strided rows are what calls for single rows make of them, counts and random numbers included; gaps stay. */
TEST(convert_takes_rows_with_gaps)
{
	enum { ROWS = 5, COLS = 9, FROM = 11, TO = 12 };
	static const enum mxfp_round rounds[] = {MXFP_ROUND_RNE, MXFP_ROUND_SR};
	struct mxfp_matrix from = mxfp_numbers(f32, ROWS, COLS, src);
	struct mxfp_counts counts = {.size = sizeof counts}, total = {.size = sizeof total};
	struct mxfp_result to = mxfp_to_numbers(e4m3, dst);

	from.stride = FROM;
	to.stride = TO;
	to.counts = &counts;
	for (int i = 0; i < N; i++)
		src[i] = i % 7 == 3 ? 1000 : (float)i * 1.37F;
	for (size_t r = 0; r < sizeof rounds / sizeof rounds[0]; r++) {
		struct mxfp_convert_options o = {.size = sizeof o, .round = rounds[r], .seed = 3, .stream = 4, .first_index = 100};

		assert_status(mxfp_convert(&to, &from, &o, NULL), MXFP_OK);
		for (size_t row = 0; row < ROWS; row++) {
			uint8_t one[COLS];
			struct mxfp_result alone = mxfp_to_numbers(e4m3, one);
			const struct mxfp_matrix src_row = mxfp_numbers(f32, 1, COLS, src + row * FROM);

			alone.counts = &total;
			o.first_index = 100 + row * COLS;
			assert_status(mxfp_convert(&alone, &src_row, &o, NULL), MXFP_OK);
			ck_assert_mem_eq(dst + row * TO, one, COLS);
			ck_assert(row == ROWS - 1 || untouched(dst + row * TO + COLS, TO - COLS));
			suite_compared(COLS);
		}
		ck_assert_mem_eq(&counts, &total, sizeof counts);
		ck_assert(counts.saturated != 0);
	}
	ck_assert(untouched(dst + (ROWS - 1) * TO + COLS, sizeof dst - ((ROWS - 1) * TO + COLS)));
	set_up();
}

TEST(convert_takes_nothing_and_neighbours)
{
	uint8_t both[5 * N];
	struct mxfp_convert_options last = {.size = sizeof last, .first_index = UINT64_MAX - N};

	assert_status(mxfp_convert_array(NULL, e4m3, NULL, f32, 0, NULL, NULL), MXFP_OK);
	check_untouched();
	memcpy(both, src, sizeof src);
	assert_status(mxfp_convert_array(both + 4 * N, e4m3, both, f32, N, NULL, NULL), MXFP_OK);
	assert_status(mxfp_convert_array(dst, e4m3, src, f32, N, &last, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, both + 4 * N, N);
	set_up(); /* it was to be written */
}

/* Two rows of 32 in MXFP4: 16 bytes of codes and one scale a row. */
static struct mxfp_blocks blocks_of(enum mxfp_format format)
{
	struct mxfp_blocks b = mxfp_blocks_at(format, 2, 32, codes, scales);

	b.tensor_scale = 3;
	return b;
}

/* Quantizes src, of as many rows and columns as the blocks. */
static enum mxfp_status quantize(struct mxfp_blocks *b, const void *data, enum mxfp_format format, size_t stride,
                                 const struct mxfp_quantize_options *options, uint64_t *first_non_finite)
{
	struct mxfp_matrix matrix = mxfp_numbers(format, b->rows, b->cols, data);
	struct mxfp_result result = mxfp_to_blocks(b);

	matrix.stride = stride;
	result.first_non_finite = first_non_finite;
	return mxfp_quantize(&result, &matrix, options, NULL);
}

static enum mxfp_status dequantize(void *to, enum mxfp_format format, size_t stride, const struct mxfp_matrix *matrix)
{
	struct mxfp_result result = mxfp_to_numbers(format, to);

	result.stride = stride;
	return mxfp_dequantize(&result, matrix, NULL);
}

static bool is_same(const struct mxfp_blocks *a, const struct mxfp_blocks *b)
{
	return a->size == b->size && a->format == b->format && a->rows == b->rows && a->cols == b->cols && a->codes == b->codes &&
	       a->codes_stride == b->codes_stride && a->scales == b->scales && a->scales_stride == b->scales_stride &&
	       a->tensor_scale == b->tensor_scale && a->tensor_scale_divides == b->tensor_scale_divides;
}

/* Fails unless the call with one field of the matrix changed gives `want` and changes nothing, *b included. */
static void refuse_quantize(const struct mxfp_blocks *b, enum mxfp_format format, size_t stride,
                            const struct mxfp_quantize_options *options, uint64_t *first_non_finite, enum mxfp_status want)
{
	struct mxfp_blocks copy = *b;

	assert_status(quantize(&copy, src, format, stride, options, first_non_finite), want);
	ck_assert(is_same(&copy, b));
	check_untouched();
}

/* The same, and of the inverse, too, if there are no options. */
static void refuse(const struct mxfp_blocks *b, enum mxfp_format format, size_t stride,
                   const struct mxfp_quantize_options *options, enum mxfp_status want)
{
	refuse_quantize(b, format, stride, options, NULL, want);
	if (options == NULL) {
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(b);
		assert_status(dequantize(dst, format, stride, &matrix), want);
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
	refuse(&b, f32, 31, NULL, MXFP_ERR_STRIDE);
	refuse(&b, f32, huge, NULL, MXFP_ERR_SIZE);
	b.codes_stride = 15;
	refuse(&b, f32, 0, NULL, MXFP_ERR_STRIDE);
	b.codes_stride = SIZE_MAX;
	refuse(&b, f32, 0, NULL, MXFP_ERR_SIZE);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.cols = 33;
	b.scales_stride = 1;
	refuse(&b, f32, 0, NULL, MXFP_ERR_STRIDE);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.rows = huge;
	refuse(&b, f32, 0, NULL, MXFP_ERR_SIZE);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.size = 0;
	refuse_quantize(&b, f32, 0, NULL, NULL, MXFP_ERR_VERSION);
}

TEST(blocks_of_another_shape_are_refused)
{
	const struct mxfp_matrix matrix = mxfp_numbers(f32, 2, 32, src);
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);
	const struct mxfp_result result = mxfp_to_blocks(&b);

	b.rows = 1;
	assert_status(mxfp_quantize(&result, &matrix, NULL, NULL), MXFP_ERR_SHAPE);
	b.rows = 2;
	b.cols = 31;
	assert_status(mxfp_quantize(&result, &matrix, NULL, NULL), MXFP_ERR_SHAPE);
}

TEST(matrices_and_results_are_refused)
{
	const struct mxfp_exec no_tier = {.size = sizeof no_tier, .isa = "none"}, no_size = {.threads = 1};
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4), mx = b;
	const struct mxfp_matrix good = mxfp_numbers(f32, 2, 32, src), good_blocks = mxfp_blocks_matrix(&b);
	const struct mxfp_result to = mxfp_to_blocks(&b), numbers = mxfp_to_numbers(f32, dst);
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_matrix m = good;
	struct mxfp_result r = to;
	uint64_t index = 5;

	assert_status(mxfp_quantize(&to, &good, NULL, &no_tier), MXFP_ERR_ISA);
	assert_status(mxfp_quantize(&to, &good, NULL, &no_size), MXFP_ERR_VERSION);
	assert_status(mxfp_quantize(&to, NULL, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_dequantize(&numbers, &good_blocks, &no_tier), MXFP_ERR_ISA);
	m.size = 0;
	assert_status(mxfp_quantize(&to, &m, NULL, NULL), MXFP_ERR_VERSION);
	m = good;
	m.transposed = true;
	assert_status(mxfp_quantize(&to, &m, NULL, NULL), MXFP_ERR_FORMAT);
	m = good;
	m.sparsity = (struct mxfp_sparsity){2, 4};
	assert_status(mxfp_quantize(&to, &m, NULL, NULL), MXFP_ERR_FORMAT);
	r.size = 0;
	assert_status(mxfp_quantize(&r, &good, NULL, NULL), MXFP_ERR_VERSION);
	assert_status(mxfp_quantize(&numbers, &good, NULL, NULL), MXFP_ERR_NULL);
	m = good_blocks;
	m.size = 0;
	assert_status(mxfp_dequantize(&numbers, &m, NULL), MXFP_ERR_VERSION);
	m = good_blocks;
	m.transposed = true;
	assert_status(mxfp_dequantize(&numbers, &m, NULL), MXFP_ERR_FORMAT);
	m = good_blocks;
	m.sparsity = (struct mxfp_sparsity){2, 4};
	assert_status(mxfp_dequantize(&numbers, &m, NULL), MXFP_ERR_FORMAT);
	r = numbers;
	r.size = 0;
	assert_status(mxfp_dequantize(&r, &good_blocks, NULL), MXFP_ERR_VERSION);
	r = numbers;
	r.blocks = &mx;
	assert_status(mxfp_dequantize(&r, &good_blocks, NULL), MXFP_ERR_OPTION);
	r = numbers;
	r.clamped = dst;
	assert_status(mxfp_dequantize(&r, &good_blocks, NULL), MXFP_ERR_OPTION);
	r = numbers;
	r.counts = &counts;
	assert_status(mxfp_dequantize(&r, &good_blocks, NULL), MXFP_ERR_OPTION);
	r = numbers;
	r.first_non_finite = &index;
	assert_status(mxfp_dequantize(&r, &good_blocks, NULL), MXFP_ERR_OPTION);
	ck_assert_uint_eq(index, 5);
}

/* Rows without elements touch nothing, so their strides reach into nothing. */
TEST(empty_rows_overlap_nothing)
{
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);

	b.rows = 3;
	b.cols = 0;
	b.codes = src;
	b.codes_stride = b.scales_stride = 16;
	assert_status(quantize(&b, src, f32, 16, NULL, NULL), MXFP_OK);
}

TEST(blocks_that_overlap_are_refused)
{
	const struct mxfp_quantize_options o = {.size = sizeof o};
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);

	b.codes = (uint8_t *)src + sizeof src - 1;
	refuse(&b, f32, 0, &o, MXFP_ERR_OVERLAP);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	b.scales = src;
	refuse(&b, f32, 0, &o, MXFP_ERR_OVERLAP);
	b.scales = codes + 31;
	refuse(&b, f32, 0, &o, MXFP_ERR_OVERLAP);
	b = blocks_of(MXFP_FORMAT_MXFP4);
	struct mxfp_matrix matrix = mxfp_blocks_matrix(&b);
	assert_status(dequantize(codes, f32, 0, &matrix), MXFP_ERR_OVERLAP);
	assert_status(dequantize(scales + 1, MXFP_FORMAT_BF16, 0, &matrix), MXFP_ERR_OVERLAP);
	check_untouched();
	ck_assert(src[0] == -20);
}

TEST(quantize_refuses_options)
{
	static const float bad_amax[] = {-1, INFINITY, -INFINITY, NAN};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP4), nv = blocks_of(MXFP_FORMAT_NVFP4);
	const struct mxfp_quantize_options none_set = {.size = sizeof none_set};
	struct mxfp_quantize_options bad[5] = {none_set, none_set, none_set, none_set, none_set}, o = none_set;

	bad[0].rule = (enum mxfp_rule)10;
	bad[1].recipe = (enum mxfp_recipe)9;
	bad[2].round = (enum mxfp_round)7;
	bad[3].non_finite = (enum mxfp_non_finite)3;
	bad[4].non_finite = (enum mxfp_non_finite)-1;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		refuse(&mx, f32, 0, &bad[i], MXFP_ERR_OPTION);
	o.recipe = MXFP_RECIPE_GGML;
	o.round = MXFP_ROUND_RTZ;
	refuse(&nv, f32, 0, &o, MXFP_ERR_OPTION);
	o = none_set;
	o.via_bf16 = true;
	refuse(&nv, f32, 0, &o, MXFP_ERR_OPTION);
	o = none_set;
	for (size_t i = 0; i < sizeof bad_amax / sizeof bad_amax[0]; i++) {
		o.tensor_amax = mxfp_some(bad_amax[i]);
		refuse(&nv, f32, 0, &o, MXFP_ERR_OPTION);
	}
	o = none_set;
	o.first_index = UINT64_MAX - 63;
	refuse(&mx, f32, 0, &o, MXFP_ERR_SIZE);
	o = none_set;
	o.size = 0;
	refuse(&mx, f32, 0, &o, MXFP_ERR_VERSION);
	o = none_set;
	o.first_index = UINT64_MAX - 64;
	assert_status(quantize(&mx, src, f32, 0, &o, NULL), MXFP_OK);
	set_up();
}

TEST(quantize_refuses_non_finite)
{
	uint64_t index = 5;
	const struct mxfp_quantize_options policy = {.size = sizeof policy, .non_finite = MXFP_NON_FINITE_ERROR};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP8_E4M3), nv = blocks_of(MXFP_FORMAT_NVFP4);

	src[40] = NAN;
	refuse(&mx, f32, 0, &policy, MXFP_ERR_NON_FINITE);
	refuse_quantize(&mx, f32, 0, &policy, &index, MXFP_ERR_NON_FINITE);
	ck_assert_uint_eq(index, 40);
	src[3] = -INFINITY;
	refuse_quantize(&nv, f32, 0, &policy, &index, MXFP_ERR_NON_FINITE);
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
	struct mxfp_blocks b = mxfp_blocks_at(format, ROWS, COLS, elements, block_scales);
	struct mxfp_quantize_options options = *of;
	uint64_t index;

	options.first_index = 1000;
	for (size_t i = 0; i < 3 * sizeof at / sizeof at[0]; i++) {
		const size_t first = at[i / 3];

		for (size_t k = 0; k < ALL; k++)
			x[k] = 0x3F800000 + (uint32_t)(k % 7 << 20);
		for (size_t k = first; k < ALL; k += 700)
			x[k] = kinds[(i + k) % 4];
		assert_status(mxfp_convert_array(converted, sources[i % 3], x, f32, ALL, NULL, NULL), MXFP_OK);
		index = 5;
		assert_status(quantize(&b, converted, sources[i % 3], 0, &options, &index), MXFP_OK);
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
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)f);
		struct mxfp_quantize_options o = {.size = sizeof o, .tensor_amax = {true, 2}};

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
		.size = sizeof via, .via_bf16 = true, .non_finite = MXFP_NON_FINITE_PROPAGATE,
	};
	mx.rows = 1;
	mx.cols = 32;
	assert_status(quantize(&mx, largest, f32, 0, &via, &index), MXFP_OK);
	ck_assert_uint_eq(index, 3);
	set_up();
}

TEST(null_and_empty_matrices)
{
	struct mxfp_blocks empty = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 0, 0, NULL, NULL);
	struct mxfp_blocks b = blocks_of(MXFP_FORMAT_MXFP4);
	const struct mxfp_matrix numbers = mxfp_numbers(f32, 2, 32, src);
	const struct mxfp_result nowhere = mxfp_to_blocks(NULL);

	assert_status(mxfp_quantize(NULL, &numbers, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_quantize(&nowhere, &numbers, NULL, NULL), MXFP_ERR_NULL);
	assert_status(dequantize(dst, f32, 0, NULL), MXFP_ERR_NULL);
	assert_status(quantize(&b, NULL, f32, 0, NULL, NULL), MXFP_ERR_NULL);
	struct mxfp_matrix matrix = mxfp_blocks_matrix(&b);
	assert_status(mxfp_dequantize(NULL, &matrix, NULL), MXFP_ERR_NULL);
	assert_status(dequantize(NULL, f32, 0, &matrix), MXFP_ERR_NULL);
	for (size_t rows = 0; rows < 2; rows++) {
		empty.rows = rows * 7;
		empty.cols = 7 - rows * 7;
		assert_status(quantize(&empty, NULL, f32, 0, NULL, NULL), MXFP_OK);
		matrix = mxfp_blocks_matrix(&empty);
		assert_status(dequantize(NULL, f32, 0, &matrix), MXFP_OK);
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
		assert_status(mxfp_blocks_size(&size, known[i].format, known[i].rows, known[i].cols), MXFP_OK);
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
	assert_status(mxfp_blocks_size(&size, e4m3, 1, 1), MXFP_ERR_FORMAT);
	assert_status(mxfp_blocks_size(&size, none, 1, 1), MXFP_ERR_FORMAT);
	assert_status(mxfp_blocks_size(NULL, MXFP_FORMAT_MXFP4, 1, 1), MXFP_ERR_NULL);
	assert_status(mxfp_blocks_size(&size, MXFP_FORMAT_MXFP4, SIZE_MAX, 1), MXFP_ERR_SIZE);
	assert_status(mxfp_blocks_size(&size, MXFP_FORMAT_MXINT8, 1, SIZE_MAX), MXFP_ERR_SIZE);
	assert_status(mxfp_blocks_size(&size, MXFP_FORMAT_MXINT8, SIZE_MAX / 64, 65), MXFP_ERR_SIZE);
	ck_assert_mem_eq(&size, &before, sizeof size);
}

static enum mxfp_status amax_of(float *amax, enum mxfp_format format, const void *data, size_t n)
{
	const struct mxfp_matrix matrix = mxfp_numbers(format, 1, n, data);

	return mxfp_amax(amax, &matrix, NULL);
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
		assert_status(amax_of(&amax, f->format, words, n), MXFP_OK);
		memcpy(&bits, &amax, sizeof bits);
		ck_assert_uint_eq(bits, want > start ? want : start);
	}
	suite_compared(30000);
}

/* Numbers between the rows do not count. */
TEST(amax_of_rows_with_gaps)
{
	const float x[3][8] = {{1, -5, INFINITY, 100, 100, -100, 100, 100}, {2, 3, -4, 200}, {0, 6.5F, NAN, -300}};
	struct mxfp_matrix matrix = mxfp_numbers(f32, 3, 3, x);
	float amax = 0;

	matrix.stride = 8;
	assert_status(mxfp_amax(&amax, &matrix, NULL), MXFP_OK);
	ck_assert(amax == 6.5F);
	amax = 0;
	matrix.rows = 2;
	assert_status(mxfp_amax(&amax, &matrix, NULL), MXFP_OK);
	ck_assert(amax == 5);
	matrix.cols = 4;
	assert_status(mxfp_amax(&amax, &matrix, NULL), MXFP_OK);
	ck_assert(amax == 200);
}

TEST(amax_refuses)
{
	const struct mxfp_matrix good = mxfp_numbers(f32, 2, 8, src);
	const struct mxfp_exec no_tier = {.size = sizeof no_tier, .isa = "none"};
	struct mxfp_matrix m = good;
	float amax = 7;

	assert_status(amax_of(&amax, f32, NULL, 1), MXFP_ERR_NULL);
	assert_status(amax_of(NULL, f32, src, 1), MXFP_ERR_NULL);
	assert_status(mxfp_amax(&amax, NULL, NULL), MXFP_ERR_NULL);
	assert_status(amax_of(&amax, MXFP_FORMAT_TF32, src, 1), MXFP_ERR_FORMAT);
	assert_status(amax_of(&amax, MXFP_FORMAT_MXFP4, src, 1), MXFP_ERR_FORMAT);
	assert_status(amax_of(&amax, f32, src, SIZE_MAX / 2), MXFP_ERR_SIZE);
	assert_status(mxfp_amax(&amax, &good, &no_tier), MXFP_ERR_ISA);
	m.stride = 7;
	assert_status(mxfp_amax(&amax, &m, NULL), MXFP_ERR_STRIDE);
	m.stride = SIZE_MAX / 2;
	assert_status(mxfp_amax(&amax, &m, NULL), MXFP_ERR_SIZE);
	m = good;
	m.transposed = true;
	assert_status(mxfp_amax(&amax, &m, NULL), MXFP_ERR_FORMAT);
	m = good;
	m.size = 0;
	assert_status(mxfp_amax(&amax, &m, NULL), MXFP_ERR_VERSION);
	assert_status(amax_of(&amax, f32, NULL, 0), MXFP_OK);
	ck_assert(amax == 7);
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = set_up, .after = check_untouched});
}
