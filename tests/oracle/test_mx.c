/* SPDX-License-Identifier: MIT */
/* mxfp_quantize() to MX blocks against exact arithmetic: formats, rules, modes, policies, tails, strides, pieces,
   threads. The way back is in test_mx_decode.c. */
#include "mxfp/quantize.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "oracle/inputs.h"
#include "oracle/matrix.h"
#include "oracle/oracle_mx.h"
#include "ref.h"
#include "suite.h"

static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP6_E3M2,
                                           MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP4,      MXFP_FORMAT_MXINT8};

enum {
	N_FORMATS = sizeof formats / sizeof formats[0],
	N_RULES = MXFP_RULE_LOG_NEAREST + 1,
	N_MODES = MXFP_ROUND_SR + 1,
	MOST_BLOCKS = 8 /* in a row */
};

static struct oracle oracles[N_FORMATS], bf16;

/* Code i of a row, by the definition of the bit stream. */
static uint8_t stored_code(const uint8_t *row, unsigned bits, size_t i)
{
	uint8_t code = 0;

	for (size_t k = 0; k < bits; k++)
		code |= (uint8_t)((row[(i * bits + k) / 8] >> (i * bits + k) % 8 & 1) << k);
	return code;
}

/* The numbers of a block. */
static struct oracle_source source_of(const struct matrix *m, size_t row, size_t block, uint64_t first_index)
{
	const size_t start = block * MX_BLOCK;
	struct oracle_source source = {.index = first_index + row * m->cols + start};

	source.n = m->cols - start < MX_BLOCK ? m->cols - start : MX_BLOCK;
	for (size_t i = 0; i < source.n; i++)
		source.x[i] = matrix_element(m, row, start + i);
	return source;
}

/* The scale bytes of the squares from `row` on. */
static void square_scales(const struct matrix *m, size_t row, const struct oracle *o,
                          const struct mxfp_quantize_options *options, uint8_t *scales)
{
	const size_t rows = m->rows - row < MX_BLOCK ? m->rows - row : MX_BLOCK;
	struct oracle_source source[MX_BLOCK];

	for (size_t block = 0; block * MX_BLOCK < m->cols; block++) {
		for (size_t i = 0; i < rows; i++)
			source[i] = source_of(m, row + i, block, 0);
		scales[block] = oracle_square_scale(o, &bf16, source, rows, options);
	}
}

/* Compares block `block` of a row with what the oracle makes of its source. */
static void check_block(const struct matrix *m, size_t row, size_t block, const uint8_t *given, const struct oracle *o,
                        const struct mxfp_quantize_options *options, struct mxfp_counts *want_counts)
{
	const uint8_t *codes = (const uint8_t *)m->blocks.codes + row * m->blocks.codes_stride;
	uint8_t scale = ((const uint8_t *)m->blocks.scales)[row * m->blocks.scales_stride + block];
	const char *rule = mxfp_option_name(MXFP_OPTION_RULE, (int)options->rule);
	size_t start = block * MX_BLOCK;
	struct oracle_source source = source_of(m, row, block, options->first_index);
	struct oracle_block want;

	source.given = given;
	oracle_block(&want, o, &bf16, &source, options, want_counts);
	if (scale != want.scale)
		ck_abort_msg("%s %s, row %zu block %zu: scale %02X instead of %02X", o->format->name, rule, row, block, scale,
		             want.scale);
	for (size_t i = 0; i < MX_BLOCK; i++) {
		uint8_t code = stored_code(codes, o->format->bits, start + i);
		if (code != want.codes[i])
			ck_abort_msg("%s %s %s, row %zu block %zu element %zu (%08" PRIX32 "), scale %02X: %02X instead of %02X",
			             o->format->name, rule, mxfp_option_name(MXFP_OPTION_ROUND, (int)options->round), row, block,
			             i, source.x[i], scale, code, want.codes[i]);
	}
	suite_compared(source.n);
}

/* Compares a quantized matrix and its counts with the oracle's blocks. */
static void check_blocks(const struct matrix *m, const struct oracle *o, const struct mxfp_quantize_options *options,
                         const struct mxfp_counts *counts)
{
	struct mxfp_counts want = {.size = sizeof want};

	const bool squares = options->block_rows > 1;
	uint8_t scales[MOST_BLOCKS];

	ck_assert_uint_le(m->cols, MOST_BLOCKS * MX_BLOCK);
	for (size_t row = 0; row < m->rows; row++) {
		if (squares && row % MX_BLOCK == 0)
			square_scales(m, row, o, options, scales);
		for (size_t block = 0; block * MX_BLOCK < m->cols; block++)
			check_block(m, row, block, squares ? &scales[block] : NULL, o, options, &want);
	}
	if (memcmp(counts, &want, sizeof want) != 0)
		ck_abort_msg("%s %s: saturated %d overflowed %d flushed %d nan %d inf %d instead of %d %d %d %d %d",
		             o->format->name, mxfp_option_name(MXFP_OPTION_RULE, (int)options->rule),
		             (int)counts->saturated, (int)counts->overflowed, (int)counts->flushed, (int)counts->nan,
		             (int)counts->inf, (int)want.saturated, (int)want.overflowed, (int)want.flushed,
		             (int)want.nan, (int)want.inf);
}

static void quantize_and_check(struct matrix *m, const struct oracle *o, const struct mxfp_quantize_options *options)
{
	const struct mxfp_matrix source = matrix_source(m);
	struct mxfp_result result = mxfp_to_blocks(&m->blocks);
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_sizes size;

	result.counts = &counts;
	mxfp_blocks_size(&size, m->blocks.format, m->rows, m->cols);
	assert_status(mxfp_quantize(&result, &source, options, NULL), MXFP_OK);
	check_blocks(m, o, options, &counts);
	matrix_check_gaps(m->blocks.codes, m->codes_bytes, size.codes_row_bytes, m->blocks.codes_stride);
	matrix_check_gaps(m->blocks.scales, m->scales_bytes, size.scales_row_bytes, m->blocks.scales_stride);
}

static struct mxfp_quantize_options options_of(struct random *r)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.seed = random_u64(r),
		.stream = random_u64(r),
		.first_index = random_u64(r) >> 8,
	};
}

/* Every format, rule and mode, and by turns the options and sources that go with any of them. */
TEST_LOOP(blocks_are_those_of_exact_arithmetic, N_FORMATS * N_RULES * N_MODES)
{
	const int f = _i / (N_RULES * N_MODES);
	struct random r = {suite_seed() + (uint64_t)_i};
	struct mxfp_quantize_options options = options_of(&r);
	struct matrix m = matrix_of(formats[f], 56, 64 + random_below(&r, 64), 1 + random_below(&r, 5));

	options.rule = (enum mxfp_rule)(_i / N_MODES % N_RULES);
	options.round = (enum mxfp_round)(_i % N_MODES);
	for (int turn = 0; turn < 3; turn++) {
		static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
		m.src_format = sources[turn];
		options.no_negative_zero = (_i + turn) % 4 == 1;
		options.non_finite = (_i + turn) % 2 == 0 ? MXFP_NON_FINITE_PROPAGATE : MXFP_NON_FINITE_SATURATE;
		options.via_bf16 = (_i + turn) % 5 == 0;
		matrix_fill(&m, &r);
		quantize_and_check(&m, &oracles[f], &options);
	}
	matrix_free(&m);
}

/* A row for each of the lowest exponents of amax, where scales are clamped and elements are subnormals of binary32. The
   significand of amax is below every threshold or any, and the other numbers go down to its last places. */
TEST_LOOP(smallest_scales, N_FORMATS * N_RULES)
{
	enum { FIELDS = 48 };
	struct random r = {suite_seed() + (uint64_t)_i};
	struct mxfp_quantize_options options = options_of(&r);
	struct matrix m = matrix_of(formats[_i / N_RULES], FIELDS, 2 * MX_BLOCK, 0);
	uint32_t *x = m.src;

	options.rule = (enum mxfp_rule)(_i % N_RULES);
	for (int turn = 0; turn < 3; turn++) {
		options.round = turn != 1 ? MXFP_ROUND_RNE : MXFP_ROUND_SR;
		for (size_t i = 0; i < m.rows * m.cols; i++) {
			const uint32_t field = (uint32_t)(i / m.cols), bits = field << 23 | random_below(&r, 1 << (turn < 2 ? 18 : 23));

			const uint32_t below = (uint32_t)(i % MX_BLOCK % 20) << 23;

			x[i] = (bits >= below ? bits - below : bits >> i % 20) | random_below(&r, 2) << 31;
		}
		quantize_and_check(&m, &oracles[_i / N_RULES], &options);
	}
	matrix_free(&m);
}

/* Squares: every format and rule, and by turns modes, policies and sources; rows and columns that are no multiple of 32. */
TEST_LOOP(squares_are_those_of_exact_arithmetic, N_FORMATS * N_RULES)
{
	struct random r = {suite_seed() + (uint64_t)_i};
	struct mxfp_quantize_options options = options_of(&r);
	struct matrix m = matrix_of(formats[_i / N_RULES], 33 + random_below(&r, 40), 33 + random_below(&r, 64), _i % 3);

	options.rule = (enum mxfp_rule)(_i % N_RULES);
	options.block_rows = 32;
	for (int turn = 0; turn < 6; turn++) {
		static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
		const int low = turn == 5 ? -126 : -8; /* least exponent */

		m.src_format = sources[turn < 3 ? turn : turn % 2];
		options.round = turn % 2 == 0 ? MXFP_ROUND_RNE : (enum mxfp_round)((_i + turn) % N_MODES);
		options.no_negative_zero = (_i + turn) % 4 == 1;
		options.non_finite = (_i + turn) % 2 == 0 ? MXFP_NON_FINITE_PROPAGATE : MXFP_NON_FINITE_SATURATE;
		options.via_bf16 = (_i + turn) % 5 == 0;
		matrix_fill(&m, &r);
		/* Many squares of such numbers have a NaN: then some without, of numbers near each other. */
		for (size_t k = 0; turn >= 3 && k < m.rows * m.stride; k++) {
			const uint32_t x = random_f32_between(&r, low, low + 8);

			mxfp_ref_store(mxfp_format_get_info(m.src_format), m.src, k, m.src_format == MXFP_FORMAT_F32 ? x : x >> 16);
		}
		quantize_and_check(&m, &oracles[_i / N_RULES], &options);
	}
	matrix_free(&m);
}

/* The same of squares, whose sum is that of the transposed square. */
TEST(squared_errors_of_squares_are_summed_in_the_stated_order)
{
	struct random r = {suite_seed()};

	for (int i = 0; i < (int)suite_share(200); i++) {
		uint32_t d[MX_BLOCK][MX_BLOCK], turned[MX_BLOCK][MX_BLOCK];
		int low = i % 3 == 0 ? -78 : -12;

		for (int k = 0; k < MX_BLOCK * MX_BLOCK; k++)
			turned[k % MX_BLOCK][k / MX_BLOCK] = d[k / MX_BLOCK][k % MX_BLOCK] =
				random_below(&r, 8) == 0 ? 0 : random_f32_between(&r, low, low + 8);
		uint32_t want = oracle_square_error(d);
		ck_assert_uint_eq(oracle_square_error(turned), want);
		ck_assert_uint_eq(mxfp_ref_square_error(d), want);
	}
	suite_compared(suite_share(200));
}

/* The order of the sum behind `mse`, to the last bit: a choice of scale seldom hangs on that bit, so blocks cannot
   show it. */
TEST(squared_errors_are_summed_in_the_stated_order)
{
	struct random r = {suite_seed()};

	for (int i = 0; i < (int)suite_share(40000); i++) {
		uint32_t d[MX_BLOCK];
		int n = i % 2 == 0 ? MX_BLOCK : MX_BLOCK / 2, low = i % 3 == 0 ? -78 : -12;
		for (int k = 0; k < n; k++)
			d[k] = random_below(&r, 8) == 0 ? 0 : random_f32_between(&r, low, low + 8);
		uint32_t want = oracle_squared_error(d, n), sum = mxfp_ref_squared_error(d, (size_t)n);
		if (sum != want)
			ck_abort_msg("%d differences, try %d: %08" PRIX32 " instead of %08" PRIX32, n, i, sum, want);
	}
	suite_compared(suite_share(40000));
}

/* Blocks of one number: of two scales with no error `mse` takes the larger; FLT_MAX is nearer to 2^128 than to the largest * 2^(127 - emax). */
static const struct {
	enum mxfp_format format;
	float x;
	uint8_t scale, code;
} by_mse[] = {
	{MXFP_FORMAT_MXFP4, 6, 128, 5},
	{MXFP_FORMAT_MXFP4, 3.5F, 127, 6}, /* 4, which errs by 0.5 as 6 * 0.5 does */
	{MXFP_FORMAT_MXFP4, FLT_MAX, 253, 6},
	{MXFP_FORMAT_MXFP8_E5M2, FLT_MAX, 240, 0x78},
	{MXFP_FORMAT_MXINT8, FLT_MAX, 254, 0x7F},
	{MXFP_FORMAT_MXFP4, 0x1p-149F, 0, 0},
	{MXFP_FORMAT_MXFP4, 0x1p-125F, 1, 4}, /* 2 * 2^-126, where 4 * 2^-127 has no error either */
};

TEST_LOOP(blocks_of_one_number_by_mse, sizeof by_mse / sizeof by_mse[0])
{
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = MXFP_RULE_MSE};
	const float x[MX_BLOCK] = {by_mse[_i].x};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, MX_BLOCK, x);
	uint8_t codes[MX_BLOCK], scale;
	struct mxfp_blocks b = mxfp_blocks_at(by_mse[_i].format, 1, MX_BLOCK, codes, &scale);
	const struct mxfp_result result = mxfp_to_blocks(&b);

	assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
	ck_assert_uint_eq(scale, by_mse[_i].scale);
	ck_assert_uint_eq(codes[0], by_mse[_i].code);
	suite_compared(1);
}

/* Every length of a row from 1 to 70: tails are padded, and padding does not enter amax or counts. */
TEST_LOOP(tails_of_any_length, N_FORMATS)
{
	struct random r = {suite_seed()};

	for (size_t cols = 1; cols <= 70; cols++) {
		struct mxfp_quantize_options options = options_of(&r);
		struct matrix m = matrix_of(formats[_i], 3, cols, cols % 3);
		options.round = cols % 2 != 0 ? MXFP_ROUND_SR : MXFP_ROUND_RTN;
		options.rule = (enum mxfp_rule)(cols % N_RULES);
		matrix_fill(&m, &r);
		quantize_and_check(&m, &oracles[_i], &options);
		matrix_free(&m);
	}
}

/* A matrix in pieces of rows with their first_index, or on several threads, is the matrix as a whole. */
TEST_LOOP(pieces_and_threads_do_not_matter, N_FORMATS)
{
	enum { ROWS = 1100, COLS = 130 };
	struct random r = {suite_seed()};
	struct mxfp_quantize_options options = options_of(&r);
	struct matrix whole = matrix_of(formats[_i], ROWS, COLS, 0), part = matrix_of(formats[_i], ROWS, COLS, 0);
	struct mxfp_counts counts = {.size = sizeof counts}, part_counts = {.size = sizeof part_counts};
	const struct mxfp_exec one = {.size = sizeof one, .threads = 1};
	const struct mxfp_matrix source = matrix_source(&whole);
	struct mxfp_result result = mxfp_to_blocks(&whole.blocks);

	options.round = MXFP_ROUND_SR;
	result.counts = &counts;
	matrix_fill(&whole, &r);
	mxfp_quantize(&result, &source, &options, &one);
	result = mxfp_to_blocks(&part.blocks);
	for (unsigned threads = 0; threads < 4; threads++) {
		const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads};
		memset(part.blocks.codes, MATRIX_CANARY, part.codes_bytes);
		mxfp_quantize(&result, &source, &options, &exec);
		ck_assert_mem_eq(part.blocks.codes, whole.blocks.codes, whole.codes_bytes);
		ck_assert_mem_eq(part.blocks.scales, whole.blocks.scales, whole.scales_bytes);
	}
	memset(part.blocks.codes, MATRIX_CANARY, part.codes_bytes);
	for (size_t start = 0, n = 1; start < ROWS; start += n, n = 2 * n + 1) {
		struct mxfp_quantize_options piece = options;
		struct mxfp_blocks b = part.blocks;
		result = mxfp_to_blocks(&b);
		result.counts = &part_counts;
		n = n < ROWS - start ? n : ROWS - start;
		b.rows = n;
		b.codes = (uint8_t *)b.codes + start * b.codes_stride;
		b.scales = (uint8_t *)b.scales + start * b.scales_stride;
		piece.first_index += start * COLS;
		const struct mxfp_matrix rows = mxfp_numbers(MXFP_FORMAT_F32, n, COLS, (const float *)whole.src + start * COLS);
		mxfp_quantize(&result, &rows, &piece, &one);
	}
	ck_assert_mem_eq(part.blocks.codes, whole.blocks.codes, whole.codes_bytes);
	ck_assert_mem_eq(part.blocks.scales, whole.blocks.scales, whole.scales_bytes);
	ck_assert_mem_eq(&part_counts, &counts, sizeof counts);
	suite_compared(ROWS * COLS);
	matrix_free(&whole);
	matrix_free(&part);
}

/* Policy `error`: the lowest index, and not a byte written. By way of bf16 numbers from 7F7F8000 on are Inf to it. */
TEST_LOOP(non_finite_is_refused_where_asked, N_FORMATS)
{
	static const uint32_t bad[] = {0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0x7F7F8000, 0xFF7F8000};
	struct random r = {suite_seed()};

	for (int i = 0; i < 40; i++) {
		struct matrix m = matrix_of(formats[_i], 4, 70, 2);
		struct mxfp_quantize_options options = options_of(&r);
		struct mxfp_counts counts = {sizeof counts, 1, 1, 1, 1, 1}, before = counts;
		uint64_t index = 77, want = random_below(&r, 4 * 70);
		const struct mxfp_matrix source = matrix_source(&m);
		struct mxfp_result result = mxfp_to_blocks(&m.blocks);
		for (size_t k = 0; k < 4 * 72; k++)
			((uint32_t *)m.src)[k] = k % 72 >= 70 ? UINT32_C(0x7FC00000) : /* NaN in the gaps */
			                         i % 6 < 4 ? UINT32_C(0x7F7FFFFF) : UINT32_C(0xFF7F7FFF);
		options.non_finite = MXFP_NON_FINITE_ERROR;
		result.first_non_finite = &index;
		result.counts = &counts;
		options.via_bf16 = i % 6 >= 4;
		assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
		ck_assert_uint_eq(index, 77);
		ck_assert_uint_ne(*(uint8_t *)m.blocks.scales, 0xFF);
		counts = before;
		memset(m.blocks.codes, MATRIX_CANARY, m.codes_bytes);
		memset(m.blocks.scales, MATRIX_CANARY, m.scales_bytes);
		((uint32_t *)m.src)[want / 70 * 72 + want % 70] = bad[i % 6];
		((uint32_t *)m.src)[3 * 72 + 69] = bad[0]; /* a later one */
		assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_ERR_NON_FINITE);
		ck_assert_uint_eq(index, options.first_index + want);
		ck_assert_mem_eq(&counts, &before, sizeof counts);
		matrix_check_gaps(m.blocks.codes, m.codes_bytes, 0, m.blocks.codes_stride);
		matrix_check_gaps(m.blocks.scales, m.scales_bytes, 0, m.blocks.scales_stride);
		matrix_free(&m);
	}
	suite_compared(40);
}

/* An Inf that is replaced counts as inf, then as the finite number it became: FLT_MAX * 2^-112 is 65536 less an ulp,
   which rounds past the largest of e5m2, 57344, to nearest, and to it toward zero. */
TEST(a_replaced_inf_saturates_as_what_it_became)
{
	static const uint32_t x[MX_BLOCK] = {0x7F800000};
	static const enum mxfp_round rounds[] = {MXFP_ROUND_RNE, MXFP_ROUND_RTZ};
	struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = MXFP_RULE_FLOOR, .non_finite = MXFP_NON_FINITE_SATURATE};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, MX_BLOCK, x);
	uint8_t codes[MX_BLOCK], scale;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP8_E5M2, 1, MX_BLOCK, codes, &scale);
	struct mxfp_result result = mxfp_to_blocks(&b);

	for (size_t i = 0; i < 2; i++) {
		struct mxfp_counts counts = {.size = sizeof counts};
		const struct mxfp_counts want = {.size = sizeof want, .saturated = i == 0, .inf = 1};

		options.round = rounds[i];
		result.counts = &counts;
		assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
		ck_assert_uint_eq(scale, 112 + 127);
		ck_assert_uint_eq(codes[0], 0x7B);
		ck_assert_mem_eq(&counts, &want, sizeof counts);
		suite_compared(1);
	}
}

/* By way of bf16 the largest of binary32 and the tie below 2^128 become Inf, 7F7F7FFF does not. In mxfp4 by floor the
   scale is 2^125, by which these three saturate and 1 vanishes. */
TEST(what_bf16_makes_inf_has_overflowed)
{
	static const uint32_t x[MX_BLOCK] = {0x7F7FFFFF, 0xFF7F8000, 0x7F7F7FFF, 0x3F800000};
	static const uint8_t saturated_codes[MX_BLOCK / 2] = {0xF7, 0x07}, no_codes[MX_BLOCK / 2];
	struct mxfp_quantize_options options = {.size = sizeof options, .rule = MXFP_RULE_FLOOR, .via_bf16 = true};
	const struct mxfp_counts overflowed = {.size = sizeof overflowed, .overflowed = 2};
	const struct mxfp_counts saturated = {.size = sizeof saturated, .saturated = 3, .overflowed = 2, .flushed = 1};
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, MX_BLOCK, x);
	struct mxfp_counts counts = {.size = sizeof counts};
	uint8_t codes[MX_BLOCK / 2], scale;
	struct mxfp_blocks b = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 1, MX_BLOCK, codes, &scale);
	struct mxfp_result result = mxfp_to_blocks(&b);

	result.counts = &counts;
	assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
	ck_assert_uint_eq(scale, 0xFF);
	ck_assert_mem_eq(codes, no_codes, sizeof codes);
	ck_assert_mem_eq(&counts, &overflowed, sizeof counts);

	counts = (struct mxfp_counts){.size = sizeof counts};
	options.non_finite = MXFP_NON_FINITE_SATURATE;
	assert_status(mxfp_quantize(&result, &source, &options, NULL), MXFP_OK);
	ck_assert_uint_eq(scale, 125 + 127);
	ck_assert_mem_eq(codes, saturated_codes, sizeof codes);
	ck_assert_mem_eq(&counts, &saturated, sizeof counts);
	suite_compared(2 * MX_BLOCK);
}

int main(void)
{
	oracle_init(&bf16, MXFP_FORMAT_BF16);
	for (int i = 0; i < N_FORMATS; i++)
		oracle_init(&oracles[i], mxfp_format_get_info(formats[i])->element);
	int status = suite_run(NULL);
	for (int i = 0; i < N_FORMATS; i++)
		oracle_clear(&oracles[i]);
	oracle_clear(&bf16);
	return status;
}
