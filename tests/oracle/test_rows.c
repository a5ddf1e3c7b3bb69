/* SPDX-License-Identifier: MIT */
/*
 * Row operations against doc/numerics.md, section 9, by MPFR: each step is one operation of 24 or 53 bits. Results in bf16 and in
 * blocks are what mxfp_convert() and mxfp_quantize() make of those, which have tests of their own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "equal/rows_case.h"
#include "oracle/oracle.h"
#include "suite.h"

enum { LANES = 16, MOST_COLS = 5400, F32_NAN = 0x7FC00000, F32_ONE = 0x3F800000, CASES = 500, LONG_CASES = 6 };
#define MINUS_INF (F32_INF | F32_SIGN)

static struct rows_case c;
static struct rows_result result;
static mpfr_t lane[LANES], sum, mean, wide;
static uint32_t *want, *sums; /* rows x cols */

/* y, of 24 bits and any exponent, as binary32. */
static uint32_t bits_of(mpfr_ptr y, int ternary)
{
	oracle_f32_begin();
	ternary = mpfr_check_range(y, ternary, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(y, ternary);
	oracle_f32_end();
	return bits;
}

static uint32_t narrow(mpfr_srcptr x)
{
	MPFR_DECL_INIT(y, 24);

	return bits_of(y, mpfr_set(y, x, MPFR_RNDN));
}

typedef int operation(mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b, mpfr_rnd_t rounding);

static uint32_t step(operation *op, uint32_t a, uint32_t b)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(z, 24);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(x, a);
	oracle_set_f32(z, b);
	return bits_of(y, op(y, x, z, MPFR_RNDN));
}

static uint32_t fma_step(uint32_t a, uint32_t b, uint32_t d)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(z, 24);
	MPFR_DECL_INIT(w, 24);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(x, a);
	oracle_set_f32(z, b);
	oracle_set_f32(w, d);
	return bits_of(y, mpfr_fma(y, x, z, w, MPFR_RNDN));
}

static uint32_t function(int (*f)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t), uint32_t a)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(x, a);
	return bits_of(y, f(y, x, MPFR_RNDN));
}

static void start_sum(void)
{
	for (int i = 0; i < LANES; i++)
		mpfr_set_zero(lane[i], 1);
}

static void add_number(size_t i, uint32_t bits, bool square)
{
	MPFR_DECL_INIT(x, 24);

	oracle_set_f32(x, bits);
	if (square)
		mpfr_fma(lane[i % LANES], x, x, lane[i % LANES], MPFR_RNDN);
	else
		mpfr_add(lane[i % LANES], lane[i % LANES], x, MPFR_RNDN);
}

/* Sets `sum`. */
static void finish_sum(void)
{
	for (int n = LANES / 2; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			mpfr_add(lane[i], lane[i], lane[i + n], MPFR_RNDN);
	mpfr_set(sum, lane[0], MPFR_RNDN);
}

static double as_number(uint32_t bits)
{
	return (double)mxfp_f32_from_bits(bits);
}

static bool is_nan(uint32_t bits)
{
	return (bits & ~F32_SIGN) > F32_INF;
}

/* Whether a goes before b as the largest: greater, or +0 and not -0, or a NaN. */
static bool is_larger(uint32_t a, uint32_t b)
{
	if (is_nan(b))
		return false;
	return is_nan(a) || as_number(a) > as_number(b) || (a == 0 && b == F32_SIGN);
}

/* What mxfp_convert() makes of a number in bf16, as binary32. */
static uint32_t through_bf16(uint32_t bits)
{
	uint16_t half;

	assert_status(mxfp_convert_array(&half, MXFP_FORMAT_BF16, &bits, MXFP_FORMAT_F32, 1, NULL, NULL), MXFP_OK);
	return (uint32_t)half << 16;
}

static uint32_t x_at(size_t row, size_t col)
{
	return rows_number(&c.array[ROWS_X], row, col);
}

static void reduce_row(size_t row)
{
	uint32_t most = MINUS_INF;
	size_t index = 0;

	start_sum();
	for (size_t j = 0; j < c.cols; j++) {
		const uint32_t x = x_at(row, j), best = x_at(row, index);

		add_number(j, x, c.op == ROWS_SQUARE_SUM);
		if (is_larger(x, most))
			most = is_nan(x) ? F32_NAN : x;
		if (!is_nan(best) && (is_nan(x) || as_number(x) > as_number(best)))
			index = j;
	}
	finish_sum();
	if (c.op == ROWS_MEAN)
		mpfr_div_ui(sum, sum, c.cols, MPFR_RNDN);
	if (c.op == ROWS_ARGMAX) {
		size_t got;

		memcpy(&got, result.data + row * sizeof got, sizeof got);
		ck_assert_uint_eq(got, index);
		return;
	}
	uint32_t got, expected = c.op == ROWS_MAX ? most : narrow(sum);
	memcpy(&got, result.data + row * sizeof got, sizeof got);
	if (got != expected)
		ck_abort_msg("reduction %d of row %zu of %zu: %08" PRIX32 " instead of %08" PRIX32, c.op, row, c.cols, got,
		             expected);
}

static void softmax_row(size_t row, uint32_t *y)
{
	const struct mxfp_softmax_options *o = &c.softmax;
	const bool is_log = c.op == ROWS_LOG_SOFTMAX;
	const size_t head_rows = o->head_rows != 0 ? o->head_rows : c.rows, query = row % head_rows;
	const uint32_t sink = o->sinks != NULL ? mxfp_f32_bits(o->sinks[row / head_rows]) : MINUS_INF;
	uint32_t most = MINUS_INF;
	size_t n = c.cols;

	if (o->causal) {
		const ptrdiff_t last = (ptrdiff_t)query + o->causal_offset;
		n = last < 0 ? 0 : (size_t)last + 1 < c.cols ? (size_t)last + 1 : c.cols;
	}
	for (size_t j = 0; j < n; j++) {
		y[j] = x_at(row, j);
		if (o->scale.given)
			y[j] = step(mpfr_mul, y[j], mxfp_f32_bits(o->scale.value));
		if (o->mask != NULL)
			y[j] = step(mpfr_add, y[j], rows_number(&c.array[ROWS_Y], row % o->mask->rows, j));
		if (is_larger(y[j], most))
			most = y[j];
	}
	if (is_larger(sink, most))
		most = sink;
	if (most == MINUS_INF)
		n = 0;
	start_sum();
	for (size_t j = 0; j < n; j++) {
		y[j] = step(mpfr_sub, y[j], most);
		const uint32_t e = function(mpfr_exp, y[j]);
		add_number(j, e, false);
		y[j] = is_log ? y[j] : e;
	}
	finish_sum();
	if (o->sinks != NULL) {
		MPFR_DECL_INIT(e, 24);

		oracle_set_f32(e, function(mpfr_exp, step(mpfr_sub, sink, most)));
		mpfr_add(sum, sum, e, MPFR_RNDN);
	}
	MPFR_DECL_INIT(r, 24);
	const uint32_t log_total = function(mpfr_log, narrow(sum)), factor = bits_of(r, mpfr_ui_div(r, 1, sum, MPFR_RNDN));
	for (size_t j = 0; j < c.cols; j++)
		y[j] = j >= n ? (is_log ? MINUS_INF : 0)
		       : is_log ? step(mpfr_sub, y[j], log_total) : step(mpfr_mul, y[j], factor);
}

static void norm_row(size_t row, uint32_t *y)
{
	const struct mxfp_norm_options *o = &c.norm;
	const bool is_layer = c.op == ROWS_LAYER_NORM;

	for (size_t j = 0; j < c.cols; j++) {
		y[j] = x_at(row, j);
		if (o->residual != NULL)
			y[j] = step(mpfr_add, y[j], rows_number(&c.array[ROWS_Y], row, j));
		if (o->residual != NULL && c.sum_format == MXFP_FORMAT_BF16)
			y[j] = through_bf16(y[j]);
		sums[row * c.cols + j] = y[j];
	}
	if (is_layer) {
		start_sum();
		for (size_t j = 0; j < c.cols; j++)
			add_number(j, y[j], false);
		finish_sum();
		mpfr_div_ui(mean, sum, c.cols, MPFR_RNDN);
		for (size_t j = 0; j < c.cols; j++) {
			MPFR_DECL_INIT(x, 24);

			oracle_set_f32(x, y[j]);
			mpfr_sub(wide, x, mean, MPFR_RNDN);
			y[j] = narrow(wide);
		}
	}
	start_sum();
	for (size_t j = 0; j < c.cols; j++)
		add_number(j, y[j], true);
	finish_sum();
	mpfr_div_ui(sum, sum, c.cols, MPFR_RNDN);
	mpfr_add_d(sum, sum, o->epsilon, MPFR_RNDN);
	MPFR_DECL_INIT(r, 24);
	const uint32_t factor = bits_of(r, mpfr_rec_sqrt(r, sum, MPFR_RNDN));
	for (size_t j = 0; j < c.cols; j++) {
		uint32_t weight = o->weight != NULL ? rows_number(&c.array[ROWS_WEIGHT], 0, j) : 0;
		const uint32_t bias = o->bias != NULL ? rows_number(&c.array[ROWS_BIAS], 0, j) : 0;

		if (o->weight_plus_one)
			weight = step(mpfr_add, F32_ONE, weight);
		y[j] = step(mpfr_mul, y[j], factor);
		if (o->weight != NULL && o->bias != NULL)
			y[j] = fma_step(y[j], weight, bias);
		else if (o->weight != NULL)
			y[j] = step(mpfr_mul, y[j], weight);
		else if (o->bias != NULL)
			y[j] = step(mpfr_add, y[j], bias);
	}
}

/* silu and sigmoid: 400 bits hold x / (1 + e^(-b x)) of any binary32 x to more than a rounding needs. */
static uint32_t gate_function(uint32_t bits)
{
	mpfr_t x, y;

	if (is_nan(bits))
		return F32_NAN;
	if (c.function == MXFP_FUNCTION_RELU)
		return bits & F32_SIGN ? 0 : bits;
	if (c.function == MXFP_FUNCTION_IDENTITY)
		return bits;
	if (c.function == MXFP_FUNCTION_SILU && bits == MINUS_INF)
		return F32_SIGN;
	mpfr_inits2(400, x, y, (mpfr_ptr)NULL);
	mpfr_set_d(x, as_number(bits), MPFR_RNDN);
	const bool is_given = c.function == MXFP_FUNCTION_SILU && c.gate.parameter.given;
	mpfr_mul_d(y, x, is_given ? -(double)c.gate.parameter.value : -1, MPFR_RNDN);
	mpfr_exp(y, y, MPFR_RNDN);
	mpfr_add_ui(y, y, 1, MPFR_RNDN);
	if (c.function == MXFP_FUNCTION_SILU)
		mpfr_div(y, x, y, MPFR_RNDN);
	else
		mpfr_ui_div(y, 1, y, MPFR_RNDN);
	const uint32_t value = narrow(y);
	mpfr_clears(x, y, (mpfr_ptr)NULL);
	return value;
}

static void gate_row(size_t row, uint32_t *y)
{
	const bool interleaved = c.array[ROWS_Y].input.data == NULL;

	for (size_t j = 0; j < c.cols; j++) {
		uint32_t gate = x_at(row, interleaved ? 2 * j : j);
		uint32_t up = interleaved ? x_at(row, 2 * j + 1) : rows_number(&c.array[ROWS_Y], row, j);

		if (c.gate.limit.given) {
			const uint32_t limit = mxfp_f32_bits(c.gate.limit.value);

			if (as_number(gate) > as_number(limit))
				gate = limit;
			if (as_number(up) > as_number(limit))
				up = limit;
			if (as_number(up) < -as_number(limit))
				up = limit | F32_SIGN;
		}
		if (c.gate.up_plus_one)
			up = step(mpfr_add, up, F32_ONE);
		y[j] = step(mpfr_mul, gate_function(gate), up);
	}
}

static void rotate_row(size_t row, uint32_t *y)
{
	const struct mxfp_rotary_options *o = &c.rotate;
	const size_t rotary = o->rotary_cols != 0 ? o->rotary_cols : o->head_cols;
	const uint32_t position = o->positions != NULL ? o->positions[row] : o->first_position + (uint32_t)row;
	const uint32_t factor = mxfp_f32_bits(o->attention_factor.value);
	MPFR_DECL_INIT(p, 24);

	const uint32_t p32 = bits_of(p, mpfr_set_ui(p, position, MPFR_RNDN));
	for (size_t head = 0; head < c.cols; head += o->head_cols) {
		for (size_t k = 0; k < rotary / 2; k++) {
			const uint32_t angle = step(mpfr_mul, p32, mxfp_f32_bits(c.frequencies[k]));
			const size_t i = head + (o->interleaved ? 2 * k : k), j = o->interleaved ? i + 1 : i + rotary / 2;
			uint32_t cosine = function(mpfr_cos, angle), sine = function(mpfr_sin, angle);

			if (o->attention_factor.given) {
				cosine = step(mpfr_mul, cosine, factor);
				sine = step(mpfr_mul, sine, factor);
			}
			const uint32_t a = x_at(row, i), b = x_at(row, j);
			y[i] = step(mpfr_sub, step(mpfr_mul, a, cosine), step(mpfr_mul, b, sine));
			y[j] = step(mpfr_add, step(mpfr_mul, b, cosine), step(mpfr_mul, a, sine));
		}
		for (size_t j = head + rotary; j < head + o->head_cols; j++) {
			y[j] = x_at(row, j);
			if (is_nan(y[j]) && c.array[ROWS_X].input.format == MXFP_FORMAT_BF16)
				y[j] |= UINT32_C(0x00400000);
		}
	}
}

static void expect_row(size_t row, uint32_t *y)
{
	switch (c.op) {
	case ROWS_SOFTMAX:
	case ROWS_LOG_SOFTMAX:
		softmax_row(row, y);
		break;
	case ROWS_RMS_NORM:
	case ROWS_LAYER_NORM:
		norm_row(row, y);
		break;
	case ROWS_GATE:
		gate_row(row, y);
		break;
	case ROWS_ROTATE:
		rotate_row(row, y);
		break;
	default:
		for (size_t j = 0; j < c.cols; j++)
			y[j] = step(mpfr_add, x_at(row, j), rows_number(&c.array[ROWS_Y], row, j));
	}
}

/* A matrix of numbers that a call wrote is the rounding of what is expected. */
static void compare_numbers(const uint8_t *got, enum mxfp_format format, size_t stride, const uint32_t *expected)
{
	char text[300];

	rows_case_describe(&c, text, sizeof text);
	for (size_t i = 0; i < c.rows * c.cols; i++) {
		const size_t at = i / c.cols * stride + i % c.cols;
		uint32_t number = expected[i], word = 0;
		uint16_t half;

		if (format == MXFP_FORMAT_BF16) {
			memcpy(&half, got + 2 * at, sizeof half);
			word = (uint32_t)half << 16;
			number = through_bf16(number);
		} else {
			memcpy(&word, got + 4 * at, sizeof word);
		}
		if (word != number)
			ck_abort_msg("%s: row %zu, column %zu: %08" PRIX32 " instead of %08" PRIX32, text, i / c.cols, i % c.cols,
			             word, number);
	}
}

static void compare_blocks(void)
{
	static uint8_t codes[1 << 17], scales[1 << 17];
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, c.rows, c.cols, want);
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_blocks blocks = mxfp_blocks_at(c.block_format, c.rows, c.cols, codes, scales);
	struct mxfp_result expected = mxfp_to_blocks(&blocks);
	struct mxfp_sizes sizes;

	expected.counts = &counts;
	assert_status(mxfp_blocks_size(&sizes, blocks.format, c.rows, c.cols), MXFP_OK);
	assert_status(mxfp_quantize(&expected, &source, &c.quantize, NULL), MXFP_OK);
	ck_assert_mem_eq(result.codes, codes, sizes.codes_bytes);
	ck_assert_mem_eq(result.scales, scales, sizes.scales_bytes);
	ck_assert_mem_eq(&result.counts, &counts, sizeof counts);
}

static void try_case(enum rows_op op, struct random *r, size_t rows, size_t cols)
{
	rows_case_draw(&c, r, op, rows, cols);
	assert_status(rows_case_run(&c, NULL, &result), MXFP_OK);
	for (size_t row = 0; row < rows; row++) {
		if (op <= ROWS_ARGMAX)
			reduce_row(row);
		else
			expect_row(row, want + row * c.cols);
	}
	suite_compared(rows);
	if (op <= ROWS_ARGMAX)
		return;
	if (c.wants_data)
		compare_numbers(result.data, c.format, c.stride, want);
	if (c.wants_blocks)
		compare_blocks();
	if (c.sum_format != (enum mxfp_format)-1)
		compare_numbers(result.sum, c.sum_format, c.sum_in_place ? c.array[ROWS_Y].input.stride : c.cols, sums);
}

TEST_LOOP(operations_are_what_their_steps_say, ROWS_N_OPS)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(CASES); i++)
		try_case((enum rows_op)_i, &r, random_below(&r, 4), random_below(&r, i % 8 == 0 ? 120 : 34));
	for (int i = 0; i < LONG_CASES; i++)
		try_case((enum rows_op)_i, &r, 1, 900 + random_below(&r, 3000));
}

int main(void)
{
	rows_case_init(&c);
	rows_result_init(&result);
	want = malloc(8 * MOST_COLS * sizeof *want);
	sums = malloc(8 * MOST_COLS * sizeof *sums);
	if (want == NULL || sums == NULL)
		abort();
	for (int i = 0; i < LANES; i++)
		mpfr_init2(lane[i], 53);
	mpfr_inits2(53, sum, mean, wide, (mpfr_ptr)NULL);
	return suite_run(&(struct suite_options){0});
}
