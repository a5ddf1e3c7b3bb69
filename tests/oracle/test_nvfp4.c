/* SPDX-License-Identifier: MIT */
/* mxfp_quantize() to NVFP4 against MPFR, every recipe: modes, magnitudes, rounding boundaries, policies, tails,
   pieces. */
#include "mxfp/quantize.h"

#include <inttypes.h>
#include <string.h>

#include "bits.h"
#include "oracle/inputs.h"
#include "oracle/matrix.h"
#include "oracle/oracle_nvfp4.h"
#include "suite.h"

enum { N_RECIPES = MXFP_RECIPE_MODELOPT_4OVER6 + 1, N_MODES = MXFP_ROUND_SR + 1, N_POLICIES = MXFP_NON_FINITE_SATURATE + 1 };

static struct oracle_nvfp4 oracle;

static uint8_t stored_code(const struct matrix *m, size_t row, size_t i)
{
	const uint8_t *codes = (const uint8_t *)m->blocks.codes + row * m->blocks.codes_stride;

	return codes[i / 2] >> i % 2 * 4 & 15;
}

static uint32_t amax_of(const struct matrix *m)
{
	uint32_t amax = 0;

	for (size_t row = 0; row < m->rows; row++)
		for (size_t col = 0; col < m->cols; col++) {
			uint32_t magnitude = matrix_element(m, row, col) & ~F32_SIGN;
			amax = magnitude < MXFP_F32_INF && magnitude > amax ? magnitude : amax;
		}
	return amax;
}

static void check_block(const struct matrix *m, const struct oracle_nvfp4_block *want, size_t row, size_t block)
{
	uint8_t scale = ((const uint8_t *)m->blocks.scales)[row * m->blocks.scales_stride + block];
	const char *recipe = mxfp_option_name(MXFP_OPTION_RECIPE, (int)oracle.recipe);

	if (scale != want->scale)
		ck_abort_msg("%s, row %zu block %zu: scale %02X instead of %02X", recipe, row, block, scale,
		             want->scale);
	for (size_t i = 0; i < NVFP4_BLOCK; i++) {
		uint8_t code = stored_code(m, row, block * NVFP4_BLOCK + i);
		if (code != want->codes[i])
			ck_abort_msg("%s, row %zu block %zu, scale %02X, element %zu: %X instead of %X", recipe,
			             row, block, scale, i, code, want->codes[i]);
	}
}

/* Quantizes the matrix and compares tensor scale, blocks, counts and gaps with the oracle's. */
static void quantize_and_check(struct matrix *m, const struct mxfp_quantize_options *options)
{
	const struct mxfp_matrix source = matrix_source(m);
	struct mxfp_result result = mxfp_to_blocks(&m->blocks);
	struct mxfp_counts counts = {.size = sizeof counts}, want_counts = {.size = sizeof want_counts};
	uint32_t x[NVFP4_BLOCK], amax = options->tensor_amax.given ? mxfp_f32_bits(options->tensor_amax.value) : amax_of(m);
	struct mxfp_sizes size;
	bool divides;

	result.counts = &counts;
	oracle.recipe = options->recipe;
	mxfp_blocks_size(&size, MXFP_FORMAT_NVFP4, m->rows, m->cols);
	assert_status(mxfp_quantize(&result, &source, options, NULL), MXFP_OK);
	ck_assert_uint_eq(mxfp_f32_bits(m->blocks.tensor_scale), oracle_nvfp4_tensor_scale(&oracle, amax, &divides));
	ck_assert_int_eq(m->blocks.tensor_scale_divides, divides);
	for (size_t row = 0; row < m->rows; row++)
		for (size_t start = 0; start < m->cols; start += NVFP4_BLOCK) {
			size_t n = m->cols - start < NVFP4_BLOCK ? m->cols - start : NVFP4_BLOCK;
			uint64_t index = options->first_index + row * m->cols + start;
			struct oracle_nvfp4_block want;
			for (size_t i = 0; i < n; i++)
				x[i] = matrix_element(m, row, start + i);
			oracle_nvfp4_block(&want, &oracle, amax, x, n, options, index, &want_counts);
			check_block(m, &want, row, start / NVFP4_BLOCK);
			suite_compared(n);
		}
	ck_assert_uint_eq(counts.nan, want_counts.nan);
	ck_assert_uint_eq(counts.inf, want_counts.inf);
	ck_assert_uint_eq(counts.flushed, want_counts.flushed);
	ck_assert_uint_eq(counts.saturated, want_counts.saturated);
	matrix_check_gaps(m->blocks.codes, m->codes_bytes, size.codes_row_bytes, m->blocks.codes_stride);
	matrix_check_gaps(m->blocks.scales, m->scales_bytes, size.scales_row_bytes, m->blocks.scales_stride);
}

/* Fills with blocks of every shape that have about the size 2^top. */
static void fill(struct matrix *m, struct random *r, int top, int n_shapes)
{
	for (size_t row = 0; row < m->rows; row++)
		for (size_t col = 0; col < m->cols; col++) {
			int shape = (int)((row + col / NVFP4_BLOCK) % (size_t)n_shapes);
			int size = top - (int)(row % 12) < -126 ? -126 : top - (int)(row % 12);
			uint32_t x = matrix_generated(r, shape, size, col % NVFP4_BLOCK);
			size_t i = row * m->stride + col;
			uint16_t half = (uint16_t)(x >> 16);
			if (m->src_format == MXFP_FORMAT_F32)
				memcpy((uint8_t *)m->src + 4 * i, &x, 4);
			else
				memcpy((uint8_t *)m->src + 2 * i, &half, 2);
		}
}

static struct mxfp_quantize_options options_of(struct random *r, enum mxfp_recipe recipe)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.recipe = recipe,
		.seed = random_u64(r),
		.stream = random_u64(r),
		.first_index = random_u64(r) >> 8,
	};
}

/* Every recipe and mode, tensors of ordinary numbers from the smallest to the largest. */
TEST_LOOP(blocks_are_those_of_exact_arithmetic, N_RECIPES * N_MODES)
{
	static const int tops[] = {0, 8, -8, 60, -60, 100, -100, 120, 127, -112, -120, -126};
	static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	struct random r = {suite_seed() + (uint64_t)_i};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)(_i / N_MODES));
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, 12, 70, 3);

	options.round = (enum mxfp_round)(_i % N_MODES);
	for (size_t i = 0; i < sizeof tops / sizeof tops[0]; i++) {
		if (options.recipe == MXFP_RECIPE_GGML && options.round != MXFP_ROUND_RNE)
			continue;
		m.src_format = sources[i % 6 == 4 ? 1 : i % 6 == 5 ? 2 : 0];
		options.no_negative_zero = i % 4 == 3;
		fill(&m, &r, tops[i], i % 2 == 0 ? MATRIX_N_ORDINARY : 6);
		quantize_and_check(&m, &options);
	}
	matrix_free(&m);
}

/* Numbers an ulp or two from where a scale byte or a code changes: there the order of operations shows. Row 0
   has blocks whose largest element is near the midpoints of scale bytes, row 1 blocks of a plain scale with
   elements near midpoints. */
TEST_LOOP(rounding_boundaries, N_RECIPES)
{
	enum { N_BLOCKS = 0x7E, COLS = N_BLOCKS * NVFP4_BLOCK };
	static const double midpoints[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
	struct random r = {suite_seed() + (uint64_t)_i};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)_i);
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, 2, COLS, 0);
	bool one_level = _i == MXFP_RECIPE_TORCHAO_1 || _i == MXFP_RECIPE_GGML;
	uint32_t *x = m.src;

	for (int turn = 0; turn < 6; turn++) {
		float amax = mxfp_f32_from_bits(random_f32_between(&r, -100, 100) & ~F32_SIGN);
		double unit = one_level ? 1 : (double)amax / (_i == MXFP_RECIPE_4OVER6 || _i == MXFP_RECIPE_MODELOPT_4OVER6 ? 1536 : 2688);

		options.tensor_amax = mxfp_some(amax);
		for (size_t i = 0; i < COLS; i++) {
			uint8_t byte = (uint8_t)(i / NVFP4_BLOCK);
			double low = (double)mxfp_f32_from_bits(oracle_decode(oracle.ue4m3.format, byte)) * unit;
			double high = (double)mxfp_f32_from_bits(oracle_decode(oracle.ue4m3.format, byte + 1U)) * unit;
			double sign = i % 2 != 0 ? -1 : 1;

			x[i] = i % NVFP4_BLOCK != 0 ? 0
			                            : mxfp_f32_bits((float)((low + high) * 3)) + random_below(&r, 5) - 2;
			x[COLS + i] = i % NVFP4_BLOCK == 0 ? mxfp_f32_bits((float)(high * 6))
			                                   : mxfp_f32_bits((float)(sign * midpoints[i % 7] * high)) +
			                                             random_below(&r, 5) - 2;
		}
		quantize_and_check(&m, &options);
	}
	matrix_free(&m);
}

/* Tensors of subnormals only: scales overflow, underflow and are replaced. */
TEST_LOOP(tensors_of_subnormals, N_RECIPES)
{
	struct random r = {suite_seed()};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)_i);
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, 4, 32, 0);

	for (unsigned shift = 0; shift < 23; shift++) {
		for (size_t i = 0; i < 4 * 32; i++)
			((uint32_t *)m.src)[i] =
				(uint32_t)random_below(&r, 2) << 31 | random_below(&r, 1 << 23) >> shift;
		quantize_and_check(&m, &options);
	}
	matrix_free(&m);
}

/* In tensors next to nothing finite numbers decode to finite ones, zeros to zeros: no divisor is 0, no factor Inf. */
TEST_LOOP(finite_stays_finite_and_zero_zero, N_RECIPES)
{
	enum { ROWS = 4, COLS = 32 };
	struct random r = {suite_seed()};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)_i);
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, ROWS, COLS, 0);
	uint32_t decoded[ROWS * COLS], *x = m.src;
	const struct mxfp_matrix source = matrix_source(&m);
	const struct mxfp_result to_blocks = mxfp_to_blocks(&m.blocks), numbers = mxfp_to_numbers(MXFP_FORMAT_F32, decoded);

	for (uint32_t top = 1; top < UINT32_C(64) << 23; top = top < 1 << 23 ? 2 * top : top + (1 << 23)) {
		for (size_t i = 0; i < ROWS * COLS; i++)
			x[i] = (uint32_t)random_below(&r, 2) << 31 |
			       (i % 3 == 0 || i < COLS / 2 ? 0 : random_below(&r, top + 1));
		assert_status(mxfp_quantize(&to_blocks, &source, &options, NULL), MXFP_OK);
		const struct mxfp_matrix blocks = mxfp_blocks_matrix(&m.blocks);
		assert_status(mxfp_dequantize(&numbers, &blocks, NULL), MXFP_OK);
		for (size_t i = 0; i < ROWS * COLS; i++)
			if ((decoded[i] & ~F32_SIGN) >= MXFP_F32_INF ||
			    ((x[i] & ~F32_SIGN) == 0 && (decoded[i] & ~F32_SIGN) != 0))
				ck_abort_msg("%s, numbers up to %08" PRIX32 ": %08" PRIX32 " becomes %08" PRIX32,
				             mxfp_option_name(MXFP_OPTION_RECIPE, _i), top, x[i], decoded[i]);
		suite_compared(ROWS * COLS);
	}
	matrix_free(&m);
}

/* The amax that the caller gives rules, be it the tensor's, more or less: elements of a larger tensor, and
   too large ones. */
TEST_LOOP(tensor_amax_is_what_the_caller_says, N_RECIPES)
{
	struct random r = {suite_seed()};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)_i);
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, 24, 48, 0), again = matrix_of(MXFP_FORMAT_NVFP4, 24, 48, 0);

	fill(&m, &r, 3, MATRIX_N_ORDINARY);
	memcpy(again.src, m.src, 24 * 48 * 4);
	quantize_and_check(&m, &options);
	const struct mxfp_matrix source = matrix_source(&m);
	float amax = 0;
	assert_status(mxfp_amax(&amax, &source, NULL), MXFP_OK);
	ck_assert_uint_eq(mxfp_f32_bits(amax), amax_of(&m));
	for (int power = -140; power <= 124; power += 12) {
		uint32_t other_bits = power < -126 ? UINT32_C(1) << (power + 149) : (uint32_t)(power + 127) << 23;
		float other = power == 0 ? amax : mxfp_f32_from_bits(other_bits);
		options.tensor_amax = mxfp_some(other);
		quantize_and_check(&again, &options);
		if (power == 0)
			ck_assert_mem_eq(again.blocks.codes, m.blocks.codes, m.codes_bytes);
	}
	options.tensor_amax = mxfp_some(0);
	quantize_and_check(&again, &options);
	matrix_free(&m);
	matrix_free(&again);
}

/* Every policy on tensors with NaN and Inf in a few blocks, and none but such numbers; the amax is over
   finite ones. */
TEST_LOOP(non_finite_numbers_follow_the_policy, N_RECIPES * N_POLICIES)
{
	struct random r = {suite_seed() + (uint64_t)_i};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)(_i / N_POLICIES));
	struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, 30, 53, 1);
	uint64_t index = 0, want = 0;

	options.non_finite = (enum mxfp_non_finite)(_i % N_POLICIES);
	fill(&m, &r, 5, MATRIX_N_SHAPES);
	((uint32_t *)m.src)[2 * 54 + 17] = UINT32_C(0xFF800000);
	((uint32_t *)m.src)[3 * 54 + 52] = UINT32_C(0x7F800001);
	while ((matrix_element(&m, want / 53, want % 53) & ~F32_SIGN) < MXFP_F32_INF)
		want++;
	if (options.non_finite != MXFP_NON_FINITE_ERROR) {
		quantize_and_check(&m, &options);
		for (size_t i = 0; i < 30 * 54; i++)
			((uint32_t *)m.src)[i] = i % 3 == 0 ? UINT32_C(0x7FC00000) : UINT32_C(0x7F800000);
		quantize_and_check(&m, &options);
	} else {
		const struct mxfp_matrix source = matrix_source(&m);
		struct mxfp_result result = mxfp_to_blocks(&m.blocks);
		result.first_non_finite = &index;
		assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_ERR_NON_FINITE);
		ck_assert_uint_eq(index, options.first_index + want);
		matrix_check_gaps(m.blocks.codes, m.codes_bytes, 0, m.blocks.codes_stride);
		matrix_check_gaps(m.blocks.scales, m.scales_bytes, 0, m.blocks.scales_stride);
	}
	matrix_free(&m);
}

TEST_LOOP(tails_of_any_length, N_RECIPES)
{
	struct random r = {suite_seed()};

	for (size_t cols = 1; cols <= 35; cols++) {
		struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)_i);
		struct matrix m = matrix_of(MXFP_FORMAT_NVFP4, 3, cols, cols % 3);
		options.round = _i != MXFP_RECIPE_GGML && cols % 2 != 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE;
		fill(&m, &r, (int)cols - 20, MATRIX_N_ORDINARY);
		quantize_and_check(&m, &options);
		matrix_free(&m);
	}
}

/* A row at a time, with first_index and the tensor's amax, on any number of threads: the same blocks. */
TEST_LOOP(pieces_and_threads_do_not_matter, N_RECIPES)
{
	enum { ROWS = 700, COLS = 100 }; /* more than one piece of work for a thread */
	struct random r = {suite_seed()};
	struct mxfp_quantize_options options = options_of(&r, (enum mxfp_recipe)_i);
	struct matrix whole = matrix_of(MXFP_FORMAT_NVFP4, ROWS, COLS, 0),
		      part = matrix_of(MXFP_FORMAT_NVFP4, ROWS, COLS, 0);
	float amax = 0;

	options.round = _i != MXFP_RECIPE_GGML ? MXFP_ROUND_SR : MXFP_ROUND_RNE;
	fill(&whole, &r, 0, MATRIX_N_ORDINARY);
	struct mxfp_exec exec = {.size = sizeof exec, .threads = 1};
	const struct mxfp_matrix source = matrix_source(&whole);
	const struct mxfp_result to_whole = mxfp_to_blocks(&whole.blocks), to_part = mxfp_to_blocks(&part.blocks);
	mxfp_quantize(&to_whole, &source, &options, &exec);
	for (exec.threads = 2; exec.threads < 4; exec.threads++) {
		memset(part.blocks.codes, MATRIX_CANARY, part.codes_bytes);
		mxfp_quantize(&to_part, &source, &options, &exec);
		ck_assert_mem_eq(part.blocks.codes, whole.blocks.codes, whole.codes_bytes);
		ck_assert_mem_eq(part.blocks.scales, whole.blocks.scales, whole.scales_bytes);
	}
	mxfp_amax(&amax, &source, NULL);
	memset(part.blocks.codes, MATRIX_CANARY, part.codes_bytes);
	for (size_t row = 0; row < ROWS; row++) {
		struct mxfp_quantize_options piece = options;
		struct mxfp_blocks b = part.blocks;
		const struct mxfp_result to_row = mxfp_to_blocks(&b);
		const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, 1, COLS, (const float *)whole.src + row * COLS);
		b.rows = 1;
		b.codes = (uint8_t *)b.codes + row * b.codes_stride;
		b.scales = (uint8_t *)b.scales + row * b.scales_stride;
		piece.first_index += row * COLS;
		piece.tensor_amax = mxfp_some(amax);
		mxfp_quantize(&to_row, &numbers, &piece, &exec);
	}
	ck_assert_mem_eq(part.blocks.codes, whole.blocks.codes, whole.codes_bytes);
	ck_assert_mem_eq(part.blocks.scales, whole.blocks.scales, whole.scales_bytes);
	suite_compared(ROWS * COLS);
	matrix_free(&whole);
	matrix_free(&part);
}

int main(void)
{
	oracle_nvfp4_init(&oracle);
	int status = suite_run(NULL);
	oracle_nvfp4_clear(&oracle);
	return status;
}
