/* SPDX-License-Identifier: MIT */
/* Squares of 32 x 32 that share a scale: hand calculations, the transposed matrix, NaN and Inf, threads, and one
   quantized W in products along its rows and along its columns. */
#include <math.h>
#include <stdlib.h>

#include "format.h"
#include "mxfp/gemm.h"
#include "mxfp/quantize.h"
#include "suite.h"

enum { SIDE = 32, ROWS = 70, COLS = 101 };

/* Numbers from a fixed generator, most of them near each other, some far. */
static void fill(float *x, size_t n)
{
	uint64_t state = suite_seed();

	for (size_t i = 0; i < n; i++) {
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		x[i] = ldexpf((float)((int64_t)(state >> 40) - (1 << 23)), -23 - (int)(state >> 20 & 15));
	}
}

static void transpose(float *to, const float *from, size_t rows, size_t cols)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++)
			to[j * rows + i] = from[i * cols + j];
}

/* Blocks of rows x cols numbers with their memory. */
static struct mxfp_blocks quantized_by(enum mxfp_format format, const float *x, size_t rows, size_t cols,
                                       struct mxfp_quantize_options o, struct mxfp_counts *counts, const struct mxfp_exec *exec)
{
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, x);
	struct mxfp_blocks b = mxfp_blocks_at(format, rows, cols, NULL, NULL);
	struct mxfp_result result = mxfp_to_blocks(&b);
	struct mxfp_sizes size;

	result.counts = counts;
	o.size = sizeof o;
	o.block_rows = SIDE;
	mxfp_blocks_size(&size, format, rows, cols);
	b.codes = malloc(size.codes_bytes);
	b.scales = malloc(size.scales_bytes);
	assert_status(mxfp_quantize(&result, &numbers, &o, exec), MXFP_OK);
	return b;
}

static struct mxfp_blocks quantized(enum mxfp_format format, const float *x, size_t rows, size_t cols,
                                    struct mxfp_quantize_options o)
{
	return quantized_by(format, x, rows, cols, o, NULL, NULL);
}

static void release(struct mxfp_blocks *b)
{
	free(b->codes);
	free(b->scales);
}

/* Element (row, col) of codes of 4, 6 or 8 bits. */
static unsigned code(const struct mxfp_blocks *b, size_t row, size_t col)
{
	const unsigned bits = mxfp_format_get_info(mxfp_format_get_info(b->format)->element)->bits;
	const size_t row_bytes = (b->cols + SIDE - 1) / SIDE * SIDE * bits / 8;
	unsigned value = 0;

	for (size_t k = col * bits; k < (col + 1) * bits; k++)
		value |= (((const uint8_t *)b->codes)[row * row_bytes + k / 8] >> k % 8 & 1U) << (k - col * bits);
	return value;
}

static unsigned scale(const struct mxfp_blocks *b, size_t row, size_t block)
{
	return ((const uint8_t *)b->scales)[row * ((b->cols + SIDE - 1) / SIDE) + block];
}

/* 33 rows and 40 columns: four squares, three of them cut. In the first the largest is 6 = 1.5 * 2^2, in row 31, so s = 0 (emax of
   e2m1 is 2); 0.5 is code 1, in a row whose own scale would have made it 7. The next has 12 in column 39: s = 1, and 1 is
   code 1. The third, of one row, has 0.75: s = -3, code 7. The last is all zeros: byte 0. */
TEST(largest_magnitudes_are_those_of_squares)
{
	float x[33 * 40] = {0};
	const struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_FLOOR};

	x[0] = 0.5F;
	x[31 * 40 + 31] = -6;
	x[3 * 40 + 32] = 1;
	x[20 * 40 + 39] = 12;
	x[32 * 40 + 5] = 0.75F;
	struct mxfp_blocks b = quantized(MXFP_FORMAT_MXFP4, x, 33, 40, o);
	for (size_t row = 0; row < 32; row++)
		ck_assert(scale(&b, row, 0) == 127 && scale(&b, row, 1) == 128);
	ck_assert(scale(&b, 32, 0) == 124 && scale(&b, 32, 1) == 0);
	ck_assert(code(&b, 0, 0) == 1 && code(&b, 31, 31) == 0xF && code(&b, 3, 32) == 1 && code(&b, 20, 39) == 7);
	ck_assert(code(&b, 32, 5) == 7 && code(&b, 1, 1) == 0);
	release(&b);
	suite_compared(33 * 2 + 6);
}

/* Rule mse, floor s = 0 and then 1. Alone, -7 goes to 6 or, at s = 1, to 8: both err by 1, and the larger s wins the tie. With a
   0.5 elsewhere in the square, which s = 1 makes 0 (the tie of 0 and 1) and s = 0 does not, the smaller wins. */
TEST(mse_sums_errors_over_the_square)
{
	const struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_MSE};
	float x[SIDE * SIDE] = {-7};
	struct mxfp_blocks b = quantized(MXFP_FORMAT_MXFP4, x, SIDE, SIDE, o);

	ck_assert_uint_eq(scale(&b, 17, 0), 128);
	release(&b);
	x[17 * SIDE + 5] = 0.5F;
	b = quantized(MXFP_FORMAT_MXFP4, x, SIDE, SIDE, o);
	ck_assert(scale(&b, 0, 0) == 127 && scale(&b, 31, 0) == 127);
	ck_assert(code(&b, 0, 0) == 0xF && code(&b, 17, 5) == 1);
	release(&b);
	suite_compared(5);
}

/* Q(W)^T = Q(W^T), codes and scales, for every format and rule. */
TEST_LOOP(the_transposed_matrix_has_the_codes_transposed, MXFP_N_FORMATS * (MXFP_RULE_LOG_NEAREST + 1))
{
	static float x[ROWS * COLS], turned[COLS * ROWS];
	const enum mxfp_format format = (enum mxfp_format)(_i % MXFP_N_FORMATS);
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const struct mxfp_quantize_options o = {.size = sizeof o, .rule = (enum mxfp_rule)(_i / MXFP_N_FORMATS)};

	if (info->kind != MXFP_KIND_BLOCK || info->tensor_scale) {
		suite_compared(1);
		return;
	}
	fill(x, ROWS * COLS);
	x[40 * COLS + 80] = NAN;
	transpose(turned, x, ROWS, COLS);
	struct mxfp_blocks a = quantized(format, x, ROWS, COLS, o), b = quantized(format, turned, COLS, ROWS, o);
	for (size_t i = 0; i < ROWS; i++)
		for (size_t j = 0; j < COLS; j++) {
			ck_assert_uint_eq(code(&a, i, j), code(&b, j, i));
			ck_assert_uint_eq(scale(&a, i, j / SIDE), scale(&b, j, i / SIDE));
		}
	release(&a);
	release(&b);
	suite_compared(ROWS * COLS);
}

/* A NaN makes its whole square NaN and no other; an Inf does unless it is replaced. Of a square that is NaN the numbers are not
   counted. */
TEST(nan_and_inf_are_of_the_square)
{
	float x[2 * SIDE * SIDE] = {0};
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_FLOOR};

	x[0] = 1;                          /* both squares lie below each other */
	x[SIDE] = 1e-9F;                   /* flushed, if it is not in a NaN square */
	x[SIDE * SIDE] = 1;
	x[5 * SIDE + 7] = INFINITY;
	struct mxfp_blocks b = quantized_by(MXFP_FORMAT_MXFP8_E4M3, x, 2 * SIDE, SIDE, o, &counts, NULL);
	for (size_t row = 0; row < SIDE; row++)
		ck_assert(scale(&b, row, 0) == 0xFF && code(&b, row, 0) == 0 && scale(&b, SIDE + row, 0) == 119);
	ck_assert(counts.inf == 1 && counts.nan == 0 && counts.flushed == 0 && counts.saturated == 0);
	release(&b);
	o.non_finite = MXFP_NON_FINITE_SATURATE;
	counts = (struct mxfp_counts){.size = sizeof counts};
	b = quantized_by(MXFP_FORMAT_MXFP8_E4M3, x, 2 * SIDE, SIDE, o, &counts, NULL);
	/* FLT_MAX has exponent 127, and e4m3 emax 8; 1 is 0 at that scale. */
	ck_assert(scale(&b, 0, 0) == 127 + 119 && code(&b, 5, 7) == 0x7E && code(&b, 0, 0) == 0);
	ck_assert(counts.inf == 1 && counts.saturated == 1 && counts.flushed == 2);
	release(&b);
	x[6 * SIDE] = NAN;
	b = quantized_by(MXFP_FORMAT_MXFP8_E4M3, x, 2 * SIDE, SIDE, o, &counts, NULL);
	ck_assert(scale(&b, 0, 0) == 0xFF && scale(&b, 31, 0) == 0xFF && scale(&b, 32, 0) == 119);
	release(&b);
	suite_compared(9);
}

/* mxfp_blocks_transpose() gives what quantizing the transposed matrix gives, padding included. */
TEST_LOOP(transposed_blocks_are_those_of_the_transposed_matrix, MXFP_N_FORMATS)
{
	static float x[ROWS * COLS], turned[COLS * ROWS];
	const enum mxfp_format format = (enum mxfp_format)_i;
	const struct mxfp_format_info *info = mxfp_format_get_info(format);
	const struct mxfp_quantize_options o = {.size = sizeof o, .rule = MXFP_RULE_RCEIL};
	struct mxfp_sizes size;

	suite_compared(1);
	if (info->kind != MXFP_KIND_BLOCK || info->tensor_scale)
		return;
	fill(x, ROWS * COLS);
	transpose(turned, x, ROWS, COLS);
	struct mxfp_blocks a = quantized(format, x, ROWS, COLS, o), b = quantized(format, turned, COLS, ROWS, o);
	struct mxfp_blocks t = mxfp_blocks_at(format, COLS, ROWS, NULL, NULL);
	const struct mxfp_matrix from = mxfp_blocks_matrix(&a);
	mxfp_blocks_size(&size, format, COLS, ROWS);
	t.codes = malloc(size.codes_bytes);
	t.scales = malloc(size.scales_bytes);
	assert_status(mxfp_blocks_transpose(&t, &from, NULL), MXFP_OK);
	ck_assert_mem_eq(t.codes, b.codes, size.codes_bytes);
	ck_assert_mem_eq(t.scales, b.scales, size.scales_bytes);
	release(&a);
	release(&b);
	release(&t);
	suite_compared(ROWS * COLS);
}

static enum mxfp_status gemm(const struct mxfp_product *p, const struct mxfp_gemm_options *o)
{
	size_t bytes;
	enum mxfp_status status = mxfp_gemm_workspace_size(&bytes, p, 1, o, NULL);
	void *workspace = malloc(bytes);

	if (status == MXFP_OK)
		status = mxfp_gemm(p, o, workspace, bytes, NULL);
	free(workspace);
	return status;
}

/* A W of small integers, exact in e2m1 at every scale here, so products along both directions are known integers: with one
   quantized W, and x of ones, sums of rows; transposed, sums of columns. */
TEST(one_quantized_weight_serves_both_products)
{
	enum { N = 64, K = 96 };
	static const float values[] = {0, 1, -2, 3, 4, -6, 2, -1};
	float w[N * K], ones[K], y[K], rows[N] = {0}, cols[K] = {0};
	uint8_t codes[K * N / 2], scales[K * N / 32];
	const struct mxfp_quantize_options floor_rule = {.size = sizeof floor_rule, .rule = MXFP_RULE_FLOOR};
	struct mxfp_blocks t = mxfp_blocks_at(MXFP_FORMAT_MXFP4, K, N, codes, scales);

	for (size_t i = 0; i < K; i++)
		ones[i] = 1;
	for (size_t i = 0; i < N; i++)
		for (size_t j = 0; j < K; j++) {
			w[i * K + j] = values[(i * 5 + j * 3 + i * j) % 8];
			rows[i] += w[i * K + j];
			cols[j] += w[i * K + j];
		}
	struct mxfp_blocks q = quantized(MXFP_FORMAT_MXFP4, w, N, K, floor_rule);
	const struct mxfp_matrix from = mxfp_blocks_matrix(&q);
	assert_status(mxfp_blocks_transpose(&t, &from, NULL), MXFP_OK);
	for (int back = 0; back < 2; back++) {
		const struct mxfp_matrix b = mxfp_blocks_matrix(back ? &t : &q);
		const struct mxfp_matrix a = mxfp_numbers(MXFP_FORMAT_F32, 1, b.cols, ones);
		const struct mxfp_result c = mxfp_to_numbers(MXFP_FORMAT_F32, y);
		const struct mxfp_product p = {.size = sizeof p, .c = &c, .a = &a, .w = &b};
		const struct mxfp_gemm_options o = {.size = sizeof o, .a_format = MXFP_FORMAT_MXFP8_E4M3};

		assert_status(gemm(&p, &o), MXFP_OK);
		ck_assert_mem_eq(y, back ? cols : rows, b.rows * sizeof *y);
	}
	release(&q);
	suite_compared(N + K);
}

/* A scale of the last row of the last square that differs from the others is not lost. */
TEST(transposing_looks_at_all_scales)
{
	float x[40 * 40];
	uint8_t codes[40 * 32], scales[40 * 2];
	const struct mxfp_quantize_options floor_rule = {.size = sizeof floor_rule, .rule = MXFP_RULE_FLOOR};
	struct mxfp_blocks t = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 40, 40, codes, scales);

	fill(x, 40 * 40);
	struct mxfp_blocks q = quantized(MXFP_FORMAT_MXFP4, x, 40, 40, floor_rule);
	const struct mxfp_matrix from = mxfp_blocks_matrix(&q);
	((uint8_t *)q.scales)[2 * 39 + 1] ^= 1;
	assert_status(mxfp_blocks_transpose(&t, &from, NULL), MXFP_ERR_OPTION);
	release(&q);
	suite_compared(1);
}

/* More than one piece in both directions, on any number of threads, with random words by the element's place. */
TEST(threads_do_not_matter)
{
	enum { MANY_ROWS = 100, MANY_COLS = 5000 };
	float *x = malloc(MANY_ROWS * MANY_COLS * sizeof *x);
	const struct mxfp_quantize_options o = {.size = sizeof o, .round = MXFP_ROUND_SR, .seed = 3, .first_index = 77};
	struct mxfp_exec exec = {.size = sizeof exec, .threads = 1, .isa = "ref"};
	struct mxfp_sizes size;

	fill(x, MANY_ROWS * MANY_COLS);
	mxfp_blocks_size(&size, MXFP_FORMAT_MXFP4, MANY_ROWS, MANY_COLS);
	struct mxfp_blocks one = quantized_by(MXFP_FORMAT_MXFP4, x, MANY_ROWS, MANY_COLS, o, NULL, &exec);
	exec.isa = NULL;
	for (unsigned threads = 0; threads < 4; threads++) {
		exec.threads = threads;
		struct mxfp_blocks b = quantized_by(MXFP_FORMAT_MXFP4, x, MANY_ROWS, MANY_COLS, o, NULL, &exec);
		ck_assert_mem_eq(b.codes, one.codes, size.codes_bytes);
		ck_assert_mem_eq(b.scales, one.scales, size.scales_bytes);
		release(&b);
	}
	release(&one);
	free(x);
	suite_compared(4 * MANY_ROWS * MANY_COLS);
}

int main(void)
{
	return suite_run(NULL);
}
