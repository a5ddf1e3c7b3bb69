/* SPDX-License-Identifier: MIT */
/* Numbers and blocks: rows with gaps, nothing, non-finite numbers, sizes, amax. */
#include "mxfp.h"

#include <float.h>
#include <math.h>
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

static const enum mxfp_format e4m3 = MXFP_FORMAT_E4M3, f32 = MXFP_FORMAT_F32;

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

TEST(quantize_takes_the_last_index)
{
	const struct mxfp_quantize_options o = {.size = sizeof o, .first_index = UINT64_MAX - 64};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP4);

	assert_status(quantize(&mx, src, f32, 0, &o, NULL), MXFP_OK);
}

TEST(quantize_tells_the_first_non_finite)
{
	uint64_t index = 5;
	const struct mxfp_quantize_options policy = {.size = sizeof policy, .non_finite = MXFP_NON_FINITE_ERROR};
	struct mxfp_blocks mx = blocks_of(MXFP_FORMAT_MXFP8_E4M3), nv = blocks_of(MXFP_FORMAT_NVFP4);

	src[40] = NAN;
	assert_status(quantize(&mx, src, f32, 0, &policy, NULL), MXFP_ERR_NON_FINITE);
	assert_status(quantize(&mx, src, f32, 0, &policy, &index), MXFP_ERR_NON_FINITE);
	ck_assert_uint_eq(index, 40);
	src[3] = -INFINITY;
	assert_status(quantize(&nv, src, f32, 0, &policy, &index), MXFP_ERR_NON_FINITE);
	ck_assert_uint_eq(index, 3);
	check_untouched();
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
}

TEST(empty_matrices)
{
	struct mxfp_blocks empty = mxfp_blocks_at(MXFP_FORMAT_NVFP4, 0, 0, NULL, NULL);
	const struct mxfp_result nowhere = mxfp_to_numbers(f32, NULL);

	for (size_t rows = 0; rows < 2; rows++) {
		empty.rows = rows * 7;
		empty.cols = 7 - rows * 7;
		assert_status(quantize(&empty, NULL, f32, 0, NULL, NULL), MXFP_OK);
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&empty);
		assert_status(mxfp_dequantize(&nowhere, &matrix, NULL), MXFP_OK);
	}
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

TEST(amax_of_nothing)
{
	float amax = 7;

	assert_status(amax_of(&amax, f32, NULL, 0), MXFP_OK);
	ck_assert(amax == 7);
}

int main(void)
{
	return suite_run(&(struct suite_options){.before = set_up});
}
