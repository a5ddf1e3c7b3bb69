/* SPDX-License-Identifier: MIT */
/* Compensated rounding: layers of a few weights by hand; of random ones what holds whatever the numbers are. */
#include "calibrate/compensate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/quantize.h"
#include "oracle/inputs.h"
#include "suite.h"

static const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};

static void assert_number(float x, double want)
{
	ck_assert_double_eq((double)x, want);
}

/* Compensates w for inputs x where the exact model's are `exact`. */
static struct compensation run_grid(float *w, size_t rows, size_t cols, const float *x, const float *exact, size_t tokens,
                                    const struct compensate_grid *grid, const struct mxfp_exec *exec)
{
	struct moments moments;
	struct workspace workspace = {.product = NULL};
	struct compensation done = {.energy = 0};
	struct error error;
	float *factor, *copy = malloc(tokens * cols * sizeof *copy);

	ck_assert_ptr_nonnull(copy);
	for (size_t i = 0; i < tokens * cols; i++)
		copy[i] = exact[i] - x[i];
	ck_assert_int_eq(moments_begin(&moments, cols, &error), EXIT_OK);
	/* The sums of some tokens and then the others. */
	const size_t half = tokens / 2;
	ck_assert_int_eq(moments_add(&moments, x, copy, half, &workspace, exec, &error), EXIT_OK);
	ck_assert_int_eq(moments_add(&moments, x + half * cols, copy + half * cols, tokens - half, &workspace, exec, &error),
	                 EXIT_OK);
	ck_assert_uint_eq(moments.tokens, tokens);
	ck_assert_int_eq(compensate_prepare(&factor, &moments, 0.01, exec, &error), EXIT_OK);
	ck_assert_int_eq(compensate(w, rows, cols, factor, grid, &done, exec, &error), EXIT_OK);
	moments_free(&moments);
	workspace_free(&workspace);
	free(factor);
	free(copy);
	return done;
}

/* The same to an MX format by rule floor. */
static struct compensation run(float *w, size_t rows, size_t cols, const float *x, const float *exact, size_t tokens,
                               enum mxfp_format format, const struct mxfp_exec *exec)
{
	const struct compensate_grid grid = {.format = format, .rule = MXFP_RULE_FLOOR};

	return run_grid(w, rows, cols, x, exact, tokens, &grid, exec);
}

/* H is [[2, 1], [1, 2]], and 2.02 on the diagonal with damping. 1.2 becomes 1, and of the 0.2 the other weight takes 1 / 2.02:
   4.95 becomes 5.05, which is nearer to 6 than to 4. With E = (0.2, -1.05), E H E^T is 1.865; with (0.2, 0.95) it is 2.265; W H
   W^T is 63.765. The second row is on the grid. */
TEST(a_column_takes_the_error_of_another)
{
	const float x[] = {1, 1, 1, 0, 0, 1};
	float w[] = {1.2F, 4.95F, 4, -6};
	const struct compensation done = run(w, 1, 2, x, x, 3, MXFP_FORMAT_MXFP4, &one_thread);

	assert_number(w[0], 1);
	assert_number(w[1], 6);
	ck_assert_double_eq_tol(done.compensated / done.energy, 1.865 / 63.765, 1e-6);
	ck_assert_double_eq_tol(done.rounded / done.energy, 2.265 / 63.765, 1e-6);
	const struct compensation held = run(w + 2, 1, 2, x, x, 3, MXFP_FORMAT_MXFP4, &one_thread);
	assert_number(w[2], 4);
	assert_number(w[3], -6);
	ck_assert_double_eq(held.compensated, 0);
	ck_assert_double_eq(held.rounded, 0);
}

/* The same between blocks, and between parts of the factor: column 128 takes 0.2 / 2.0102 of the error of column 0, beside which 4
   holds the block's scale. */
TEST(a_block_takes_the_error_of_another)
{
	enum { COLS = 129, TOKENS = 130 };
	float x[TOKENS][COLS] = {{0}}, w[COLS] = {1.2F, 4, [128] = 4.95F};

	for (size_t i = 0; i < COLS; i++)
		x[i][i] = 1;
	x[129][0] = x[129][128] = 1;
	run(w, 1, COLS, x[0], x[0], TOKENS, MXFP_FORMAT_MXFP4, &one_thread);
	assert_number(w[0], 1);
	assert_number(w[1], 4);
	for (size_t i = 2; i < 128; i++)
		assert_number(w[i], 0);
	assert_number(w[128], 6);
}

/* The exact model's input is 3 where this one has 2: a weight of 2 should be 3, and then the outputs are the same. As 2 it
   loses (6 - 4)^2 of 6^2. */
TEST(weights_make_up_for_inputs)
{
	const float x[] = {2}, exact[] = {3};
	float w[] = {2};
	const struct compensation done = run(w, 1, 1, x, exact, 1, MXFP_FORMAT_MXFP4, &one_thread);

	assert_number(w[0], 3);
	ck_assert_double_eq_tol(done.compensated, 0, 1e-6);
	ck_assert_double_eq_tol(done.rounded / done.energy, 4.0 / 36, 1e-6);
}

/* Nothing is known of inputs that are zeros: their weights are rounded to nearest. */
TEST(zero_inputs)
{
	const float x[] = {0, 1, 0, -1};
	float w[] = {2.4F, 4, 0, 0};
	const float zeros[4] = {0};

	run(w, 1, 2, x, x, 2, MXFP_FORMAT_MXFP4, &one_thread);
	assert_number(w[0], 2);
	assert_number(w[1], 4);
	run(w + 2, 2, 1, zeros, zeros, 4, MXFP_FORMAT_MXFP4, &one_thread);
	assert_number(w[2], 0);
}

enum { ROWS = 70, COLS = 140, TOKENS = 160 };

/* Inputs of which neighbours have a part in common, as a model's. */
static void make_inputs(float *x, struct random *r)
{
	for (size_t t = 0; t < TOKENS; t++) {
		float common = 0;

		for (size_t c = 0; c < COLS; c++) {
			if (c % 7 == 0)
				common = (float)random_below(r, 2001) / 1000 - 1;
			x[t * COLS + c] = common + (float)random_below(r, 1001) / 1000 - 0.5F;
		}
	}
}

static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP4,      MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP6_E3M2,
                                           MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXINT8};

/* Rules that make the same numbers again. Floor and even do so of MXFP8 E4M3 but for a block whose largest is 1.875 times a power of 2, of
   which they make 448 where it is 480. */
static const enum mxfp_rule rules[] = {MXFP_RULE_FLOOR, MXFP_RULE_EVEN, MXFP_RULE_RCEIL, MXFP_RULE_MSE};

enum { N_RULES = sizeof rules / sizeof rules[0], OF_E4M3 = 2 };

/* Results are what the format holds, the same for any threads, and the layer's outputs are nearer to the exact ones. The reference, which
   takes a hundred times as long, has its turn in a few layers here and below: tests/equal compares its kernels. */
TEST_LOOP(random_layers, sizeof formats / sizeof formats[0])
{
	static float x[TOKENS * COLS], exact[TOKENS * COLS], w[ROWS * COLS], again[ROWS * COLS], held[ROWS * COLS];
	static uint8_t codes[ROWS * 160], scales[ROWS * 5];
	struct random r = {suite_seed() + (uint64_t)_i};

	make_inputs(exact, &r);
	for (size_t i = 0; i < TOKENS * COLS; i++)
		x[i] = exact[i] + (float)random_below(&r, 101) / 1000;
	for (size_t i = 0; i < ROWS * COLS; i++)
		w[i] = again[i] = ((float)random_below(&r, 2001) - 1000) / 1000 * (i % 31 == 0 ? 4 : 1);
	const struct compensation done = run(w, ROWS, COLS, x, exact, TOKENS, formats[_i], &one_thread);
	ck_assert_double_lt(done.compensated, done.rounded);
	const struct mxfp_exec three = {.size = sizeof three, .threads = 3}, ref = {.size = sizeof ref, .isa = "ref"};
	run(again, ROWS, COLS, x, exact, TOKENS, formats[_i], _i != 1 ? &three : &ref);
	ck_assert_mem_eq(w, again, sizeof w);
	for (size_t i = formats[_i] == MXFP_FORMAT_MXFP8_E4M3 ? OF_E4M3 : 0; i < N_RULES; i++) {
		struct mxfp_blocks blocks = mxfp_blocks_at(formats[_i], ROWS, COLS, codes, scales);
		const struct mxfp_result to_blocks = mxfp_to_blocks(&blocks), to_held = mxfp_to_numbers(MXFP_FORMAT_F32, held);
		const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, w);
		const struct mxfp_quantize_options options = {.size = sizeof options, .rule = rules[i]};

		assert_status(mxfp_quantize(&to_blocks, &weights, &options, NULL), MXFP_OK);
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
		assert_status(mxfp_dequantize(&to_held, &matrix, NULL), MXFP_OK);
		ck_assert_mem_eq(w, held, sizeof w);
	}
	suite_compared(ROWS * COLS * (1 + N_RULES));
}

/* Inputs that are independent: the loss is the sum of squares. amax 2688 makes the tensor scale 1. The second block's 5.5 makes
   the scale 15/16, under which 5.5, 2.62, 2.63 and 0.87 lose 0.125, 0.1925, 0.1825 and 0.0675, squared 0.0906; under 14/16 they
   lose 0.25, 0.005, 0.005 and 0.005. 13/16 holds at most 4.875, and 1 makes 6 of 5.5. */
TEST(an_nvfp4_scale_with_less_loss)
{
	enum { N = 32 };
	float x[N][N] = {{0}}, w[N] = {[3] = -2688, [16] = 5.5F, 2.62F, 2.63F, 0.87F};
	const struct compensate_grid grid = {.format = MXFP_FORMAT_NVFP4, .amax = 2688};

	for (size_t i = 0; i < N; i++)
		x[i][i] = 1;
	run_grid(w, 1, N, x[0], x[0], N, &grid, &one_thread);
	assert_number(w[3], -2688);
	assert_number(w[16], 5.25);
	assert_number(w[17], 2.625);
	assert_number(w[18], 2.625);
	assert_number(w[19], 0.875);
	assert_number(w[20], 0);
}

static const enum mxfp_recipe recipes[] = {MXFP_RECIPE_TE,       MXFP_RECIPE_TORCHAO,       MXFP_RECIPE_COMPRESSED_TENSORS,
                                           MXFP_RECIPE_MODELOPT, MXFP_RECIPE_MODELOPT_0_45, MXFP_RECIPE_TORCHAO_1,
                                           MXFP_RECIPE_GGML};

enum { N_RECIPES = sizeof recipes / sizeof recipes[0], AMAXES = 10000 };

/* An amax that is held is near the one it is made from, and by recipe te 2688 times the tensor scale. */
TEST_LOOP(amax_is_held, N_RECIPES)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (size_t i = 0; i < AMAXES; i++) {
		const float amax = ldexpf(1 + (float)random_below(&r, 1 << 23) * 0x1p-23F, (int)random_below(&r, 200) - 100);
		struct compensate_grid grid = {.format = MXFP_FORMAT_NVFP4, .recipe = recipes[_i], .amax = amax};

		ck_assert(compensate_hold(&grid));
		ck_assert(fabsf(grid.amax - amax) <= amax * 0x1p-20F);
		if (recipes[_i] == MXFP_RECIPE_TE) {
			const volatile float scale = amax / 2688;
			assert_number(grid.amax, (double)(scale * 2688));
		}
	}
	suite_compared(AMAXES);
}

/* NVFP4: what was compensated becomes the same numbers again, with no word of the amax it was made for; for any threads. Rows
   are of all sizes, down to blocks whose scale is that of a zero. Inputs are 1.25 times the exact ones, so the largest weight is to
   shrink; it is in the last block, or in the first, or in another tensor. */
TEST_LOOP(random_nvfp4_layers, 3 * N_RECIPES)
{
	static float x[TOKENS * COLS], exact[TOKENS * COLS], w[ROWS * COLS], again[ROWS * COLS], held[ROWS * COLS];
	const struct mxfp_exec three = {.size = sizeof three, .threads = 3}, ref = {.size = sizeof ref, .isa = "ref"};
	const int place = _i / N_RECIPES;
	struct random r = {suite_seed() + (uint64_t)_i};
	struct compensate_grid grid = {.format = MXFP_FORMAT_NVFP4, .recipe = recipes[_i % N_RECIPES]};

	if ((uint32_t)_i % suite_shares() != 0)
		return;
	make_inputs(exact, &r);
	for (size_t i = 0; i < TOKENS * COLS; i++)
		x[i] = 1.25F * exact[i] + (float)random_below(&r, 101) / 1000;
	for (size_t i = 0; i < ROWS * COLS; i++)
		w[i] = ldexpf(((float)random_below(&r, 2001) - 1000) / 1000, -(int)(i / COLS % 25));
	w[place == 0 ? ROWS * COLS - 1 : 0] = place == 2 ? 1.0F : 1.37F;
	memcpy(again, w, sizeof w);
	grid.amax = 1.37F;
	ck_assert(compensate_hold(&grid));
	const struct compensation done = run_grid(w, ROWS, COLS, x, exact, TOKENS, &grid, &one_thread);
	ck_assert_double_lt(done.compensated, done.rounded);
	run_grid(again, ROWS, COLS, x, exact, TOKENS, &grid, _i % N_RECIPES != 2 * place ? &three : &ref);
	ck_assert_mem_eq(w, again, sizeof w);
	const struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_F32, held);
	const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, w);
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .recipe = grid.recipe, .tensor_amax = {place == 2, grid.amax},
	};
	assert_status(mxfp_fake_quantize(&output, MXFP_FORMAT_NVFP4, &weights, &options, NULL), MXFP_OK);
	ck_assert_mem_eq(w, held, sizeof w);
	suite_compared(2 * ROWS * COLS);
}

/* H as above; U's diagonal, squared, is 2.02 / 3.0804 and 1 / 2.02. Pruning loses 3^2 * 3.0804 / 2.02 = 13.7 or 2.7^2 * 2.02 = 14.7, so
   the smaller one stays, becomes 2.7 + 3 / 2.02 = 4.19, and is rounded to 4. With E = (3, -1.3), E H E^T is 13.58; the larger one
   alone, which is on the grid, has (0, 2.7) and 14.58. W H W^T is 48.78. */
TEST(a_column_takes_what_is_pruned)
{
	const float x[] = {1, 1, 1, 0, 0, 1};
	const struct compensate_grid grid = {.format = MXFP_FORMAT_MXFP4, .rule = MXFP_RULE_FLOOR, .sparsity = {1, 2}};
	float w[] = {3, 2.7F};
	const struct compensation done = run_grid(w, 1, 2, x, x, 3, &grid, &one_thread);

	assert_number(w[0], 0);
	assert_number(w[1], 4);
	ck_assert_double_eq_tol(done.compensated / done.energy, 13.58 / 48.78, 1e-6);
	ck_assert_double_eq_tol(done.rounded / done.energy, 14.58 / 48.78, 1e-6);
}

/* Inputs of 0.01 make 6 and 5 matter less than 0.65. From 1.5 comes a scale of 1/4, under which 0.65 is nearest to 0.75; under that
   of 6 it is 0.5. */
TEST(scales_are_made_from_what_stays)
{
	const float x[4][4] = {{0.01F}, {0, 0.01F}, {0, 0, 1}, {0, 0, 0, 1}};
	const struct compensate_grid grid = {.format = MXFP_FORMAT_MXFP4, .rule = MXFP_RULE_FLOOR, .sparsity = {2, 4}};
	float w[] = {6, -5, 1.5F, -0.65F};

	run_grid(w, 1, 4, x[0], x[0], 4, &grid, &one_thread);
	assert_number(w[0], 0);
	assert_number(w[1], 0);
	assert_number(w[2], 1.5);
	assert_number(w[3], -0.75);
}

/* The matrix pruned by magnitude, whose masks are checked too. */
static void prune(float *pruned, const float *w, size_t rows, size_t cols, struct mxfp_sparsity sparsity)
{
	uint8_t *masks = malloc(rows * (cols + 16));
	const struct mxfp_sparse sparse = {
		.size = sizeof sparse, .format = MXFP_FORMAT_F32, .sparsity = sparsity, .rows = rows, .cols = cols, .masks = masks,
	};
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, pruned);
	const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, rows, cols, w);

	ck_assert_ptr_nonnull(masks);
	assert_status(mxfp_sparse_prune(&sparse, &result, &weights, &one_thread), MXFP_OK);
	free(masks);
}

static struct mxfp_sparsity pattern(int i)
{
	const struct mxfp_sparsity *known = mxfp_sparsity_pattern((size_t)i);

	ck_assert_ptr_nonnull(known);
	return *known;
}

enum { N_PATTERNS = 7, N_FORMATS = sizeof formats / sizeof formats[0] };

/* Inputs that are independent and alike: what stays is what is largest, as mxfp quantize has it, and is rounded to nearest. */
TEST_LOOP(independent_inputs_prune_by_magnitude, N_PATTERNS * N_FORMATS)
{
	static float x[COLS * COLS], w[ROWS * COLS], pruned[ROWS * COLS], want[ROWS * COLS];
	struct random r = {suite_seed() + (uint64_t)_i};
	const struct compensate_grid grid = {
		.format = formats[_i % N_FORMATS], .rule = MXFP_RULE_MSE, .sparsity = pattern(_i / N_FORMATS)};
	const struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_F32, want);
	const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, pruned);
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = grid.rule};

	if ((uint32_t)(_i + _i / N_FORMATS) % N_FORMATS % suite_shares() != 0)
		return;
	for (size_t i = 0; i < COLS; i++)
		x[i * COLS + i] = 1;
	/* Many are equal, or zeros of both signs. */
	for (size_t i = 0; i < ROWS * COLS; i++)
		w[i] = copysignf((float)random_below(&r, i % 3 == 0 ? 4 : 1000) / 100, random_below(&r, 2) == 0 ? 1 : -1);
	prune(pruned, w, ROWS, COLS, grid.sparsity);
	assert_status(mxfp_fake_quantize(&output, grid.format, &weights, &options, NULL), MXFP_OK);
	run_grid(w, ROWS, COLS, x, x, COLS, &grid, &one_thread);
	for (size_t i = 0; i < ROWS * COLS; i++)
		assert_number(w[i], (double)want[i]);
	suite_compared(ROWS * COLS);
}

enum { SURGEON_ROWS = 40, SURGEON_COLS = 24, PRECISE = 1 << 20 };

/* The first row of the inverse of a symmetric positive matrix, whose rows are n apart, from row and column `from` on. */
static void first_of_inverse(double *row, const double *h, size_t n, size_t from)
{
	const size_t left = n - from;
	double a[SURGEON_COLS][SURGEON_COLS + 1];

	for (size_t i = 0; i < left; i++) {
		for (size_t j = 0; j < left; j++)
			a[i][j] = h[(from + i) * n + from + j];
		a[i][left] = i == 0;
	}
	for (size_t p = 0; p < left; p++)
		for (size_t i = 0; i < left; i++) {
			const double part = a[i][p] / a[p][p];

			for (size_t j = p; j <= left && i != p; j++)
				a[i][j] -= part * a[p][j];
		}
	for (size_t i = 0; i < left; i++)
		row[i] = a[i][left] / a[i][i];
}

/* Columns that stay in a block are those of the optimal brain surgeon, computed from the inverses of what is left of H. Groups
   where two losses are nearly the same are not compared. */
TEST_LOOP(what_stays_is_what_costs_most, N_PATTERNS)
{
	enum { N = SURGEON_COLS };
	static float x[TOKENS * COLS], inputs[TOKENS * N], w[SURGEON_ROWS * N];
	static double h[N * N], inverse[N][N], exact[N];
	struct random r = {suite_seed() + (uint64_t)_i};
	const struct compensate_grid grid = {.format = MXFP_FORMAT_MXFP8_E5M2, .rule = MXFP_RULE_FLOOR, .sparsity = pattern(_i)};
	const unsigned m = grid.sparsity.m;
	double trace = 0;
	size_t compared = 0;

	make_inputs(x, &r);
	for (size_t t = 0; t < TOKENS; t++)
		for (size_t c = 0; c < N; c++)
			inputs[t * N + c] = x[t * COLS + c] * (float)(1 + c % 5);
	memset(h, 0, sizeof h);
	for (size_t i = 0; i < N * N; i++)
		for (size_t t = 0; t < TOKENS; t++)
			h[i] += (double)inputs[t * N + i / N] * (double)inputs[t * N + i % N];
	for (size_t i = 0; i < N; i++)
		trace += h[i * N + i];
	for (size_t i = 0; i < N; i++)
		h[i * N + i] += 0.01 * trace / N;
	for (size_t i = 0; i < N; i++)
		first_of_inverse(inverse[i], h, N, i);
	for (size_t i = 0; i < SURGEON_ROWS * N; i++)
		w[i] = ((float)random_below(&r, PRECISE) + 0.5F) / PRECISE - 0.5F;
	for (size_t row = 0; row < SURGEON_ROWS; row++) {
		float *numbers = w + row * N;
		bool clear = true;

		for (size_t c = 0; c < N; c++)
			exact[c] = (double)numbers[c];
		run_grid(numbers, 1, N, inputs, inputs, TOKENS, &grid, &one_thread);
		for (size_t group = 0, end; group < N && clear; group = end) {
			double least = HUGE_VAL, most = 0;
			unsigned kept = 0;

			end = group + m < N ? group + m : N;
			for (size_t k = group; k < end; k++) {
				const double loss = exact[k] * exact[k] / inverse[k][0];

				kept += numbers[k] != 0;
				least = numbers[k] != 0 ? fmin(least, loss) : least;
				most = numbers[k] == 0 ? fmax(most, loss) : most;
			}
			clear = fabs(least - most) > 1e-3 * least;
			ck_assert(!clear || (least > most && kept == (end - group < grid.sparsity.n ? end - group : grid.sparsity.n)));
			compared += clear;
			for (size_t c = group; c < end; c++)
				for (size_t k = c + 1; k < N && numbers[c] == 0; k++)
					exact[k] -= exact[c] / inverse[c][0] * inverse[c][k - c];
		}
	}
	ck_assert_uint_gt(compared, SURGEON_ROWS);
	suite_compared(compared);
}

/* What was compensated has no more numbers in a group than are kept, and pruned and quantized again it is the same, bit for bit; for
   any threads. Rows, and the largest weight of NVFP4, as above; that may be in a group that begins in the block before. */
TEST_LOOP(random_sparse_layers, N_PATTERNS * (N_FORMATS + N_RECIPES))
{
	static float x[TOKENS * COLS], exact[TOKENS * COLS], w[ROWS * COLS], again[ROWS * COLS], held[ROWS * COLS];
	const struct mxfp_exec three = {.size = sizeof three, .threads = 3}, ref = {.size = sizeof ref, .isa = "ref"};
	const int way = _i / N_PATTERNS;
	const struct mxfp_sparsity sparsity = pattern(_i % N_PATTERNS);
	const bool scaled = way >= N_FORMATS;
	struct random r = {suite_seed() + (uint64_t)_i};
	struct compensate_grid grid = {.format = scaled ? MXFP_FORMAT_NVFP4 : formats[way], .rule = MXFP_RULE_MSE,
	                               .recipe = scaled ? recipes[way - N_FORMATS] : 0, .amax = 1.37F,
	                               .sparsity = sparsity};

	/* Kernels know 4:8 and 4:16; each other pattern is tried in some of the formats. */
	if (sparsity.n != 4 || sparsity.m == 12)
		if (way % N_PATTERNS != _i % N_PATTERNS)
			return;
	if ((uint32_t)_i % suite_shares() != 0)
		return;
	make_inputs(exact, &r);
	for (size_t i = 0; i < TOKENS * COLS; i++)
		x[i] = 1.25F * exact[i] + (float)random_below(&r, 101) / 1000;
	for (size_t i = 0; i < ROWS * COLS; i++)
		w[i] = ldexpf(((float)random_below(&r, 2001) - 1000) / 1000, -(int)(i / COLS % 25));
	w[way % 2 == 0 ? ROWS * COLS - 1 : 17] = 1.37F;
	memcpy(again, w, sizeof w);
	ck_assert(compensate_hold(&grid));
	const struct compensation done = run_grid(w, ROWS, COLS, x, exact, TOKENS, &grid, &one_thread);
	ck_assert_double_lt(done.compensated, done.rounded);
	run_grid(again, ROWS, COLS, x, exact, TOKENS, &grid, _i % 40 == 0 ? &ref : &three);
	ck_assert_mem_eq(w, again, sizeof w);
	prune(again, w, ROWS, COLS, grid.sparsity);
	ck_assert_mem_eq(w, again, sizeof w);
	for (size_t i = grid.format == MXFP_FORMAT_MXFP8_E4M3 ? OF_E4M3 : 0; i < N_RULES; i++) {
		const struct mxfp_result output = mxfp_to_numbers(MXFP_FORMAT_F32, held);
		const struct mxfp_matrix weights = mxfp_numbers(MXFP_FORMAT_F32, ROWS, COLS, again);
		const struct mxfp_quantize_options options = {.size = sizeof options, .rule = rules[i], .recipe = grid.recipe};

		assert_status(mxfp_fake_quantize(&output, grid.format, &weights, &options, NULL), MXFP_OK);
		ck_assert_mem_eq(w, held, sizeof w);
	}
	suite_compared(6 * ROWS * COLS);
}
