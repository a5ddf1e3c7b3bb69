/* SPDX-License-Identifier: MIT */
/*
 * Quantizing and decoding files equals one call of the library on the whole tensor, however the work is cut: matrices
 * larger than a piece, rows longer than one, tails, and every kind of scale. What fails names the first place, however
 * many threads work. The library itself has tests of its own.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/byte_order.h"
#include "model/quantized.h"
#include "mxfp/quantize.h"
#include "quantize/quantize.h"
#include "unit/scratch.h"
#include "suite.h"

static struct error error;

/* Numbers of mixed magnitude from a fixed generator. */
static float *make_numbers(size_t n)
{
	float *x = malloc(n * sizeof *x);
	uint64_t state = suite_seed();

	ck_assert_ptr_nonnull(x);
	for (size_t i = 0; i < n; i++) {
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		double exponent = (double)(state >> 60), fraction = (double)(state >> 20 & 0xffffff) / (1 << 24);
		x[i] = (float)((fraction - 0.5) / (1 + exponent * exponent));
	}
	return x;
}

struct matrix_case {
	uint64_t rows, cols;
	enum mxfp_format weights;
	int round;
	unsigned threads;
};

static const struct matrix_case cases[] = {
	{3, 64, MXFP_FORMAT_MXFP4, MXFP_ROUND_RNE, 1},
	{40000, 32, MXFP_FORMAT_MXFP4, MXFP_ROUND_SR, 0},    /* pieces of rows */
	{40000, 32, MXFP_FORMAT_NVFP4, MXFP_ROUND_RNE, 2},
	{2, 1100000, MXFP_FORMAT_MXFP4, MXFP_ROUND_SR, 3},   /* rows of more than a piece */
	{1, 1100000, MXFP_FORMAT_NVFP4, MXFP_ROUND_SR, 0},
	{1, 1100000, MXFP_FORMAT_MXFP6_E3M2, MXFP_ROUND_RNE, 2},
	{1, 131072, MXFP_FORMAT_MXFP8_E4M3, MXFP_ROUND_RNE, 0}, /* of a piece */
	{50, 172, MXFP_FORMAT_MXFP6_E2M3, MXFP_ROUND_RNE, 0},   /* a tail */
	{50, 1, MXFP_FORMAT_MXINT8, MXFP_ROUND_RNE, 0},
	{1, 131073, MXFP_FORMAT_MXFP8_E5M2, MXFP_ROUND_RNE, 0}, /* a tail in a piece of its own */
};

static const char *make_source(const struct matrix_case *c, const float *x)
{
	const uint64_t shape[] = {c->rows, c->cols};
	struct tensor tensor = {.name = "layer.weight", .dtype = DTYPE_F32, .rank = 2, .shape = shape};
	const char *path = scratch_path("source.safetensors");
	struct writer writer = {.path = path, .tensors = &tensor, .n_tensors = 1, .fd = -1};
	size_t n = (size_t)(c->rows * c->cols);
	float *stored = malloc(n * sizeof *x);

	ck_assert_ptr_nonnull(stored);
	memcpy(stored, x, n * sizeof *x);
	little_endian(stored, n, sizeof *x);
	remove(path);
	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	ck_assert_int_eq(writer_write(&writer, &tensor, 0, stored, n * sizeof *x, &error), EXIT_OK);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	free(stored);
	return path;
}

static void quantize_file(const struct quantize_settings *settings)
{
	struct quantize_plan plan;
	struct model model;

	ck_assert_msg(model_open(&model, settings->in, &error) == EXIT_OK, "%s", error.text);
	ck_assert_msg(quantize_plan(&plan, settings, &model, &error) == EXIT_OK, "%s", error.text);
	ck_assert_uint_eq(plan.n_quantized, 1);
	ck_assert_msg(quantize_run(&plan, &error) == EXIT_OK, "%s", error.text);
	quantize_plan_free(&plan);
	model_close(&model);
}

/* The matrix by one call. */
static void quantize_whole(struct mxfp_blocks *blocks, const struct quantize_settings *settings, const float *x)
{
	const struct mxfp_quantize_options options = {
		.size = sizeof options,
		.rule = (enum mxfp_rule)settings->choice.rule,
		.recipe = (enum mxfp_recipe)settings->choice.recipe,
		.round = (enum mxfp_round)settings->round,
		.seed = settings->seed,
		.stream = XXH3_64bits("layer.weight", strlen("layer.weight")),
	};
	const struct mxfp_matrix numbers = mxfp_numbers(MXFP_FORMAT_F32, blocks->rows, blocks->cols, x);
	const struct mxfp_result result = mxfp_to_blocks(blocks);
	struct mxfp_sizes size;

	ck_assert_int_eq(mxfp_blocks_size(&size, blocks->format, blocks->rows, blocks->cols), MXFP_OK);
	blocks->codes = malloc(size.codes_bytes);
	blocks->scales = malloc(size.scales_bytes);
	ck_assert_int_eq(mxfp_quantize(&result, &numbers, &options, NULL), MXFP_OK);
}

static void check_part(const struct quantized *q, enum layout_part part, const void *expected)
{
	size_t n = (size_t)q->parts[part]->size;
	unsigned char *bytes = malloc(n);

	ck_assert_int_eq(file_read(q->files[part], q->parts[part], 0, bytes, n, &error), EXIT_OK);
	ck_assert_msg(memcmp(bytes, expected, n) == 0, "part %d differs", (int)part);
	free(bytes);
	suite_compared(n);
}

static void check_decoded(const struct quantized *q, const struct mxfp_blocks *blocks)
{
	size_t n = blocks->rows * blocks->cols;
	float *expected = malloc(n * sizeof *expected), *x = malloc(PIECE_ELEMENTS * sizeof *x);
	uint8_t *codes = malloc(PIECE_ELEMENTS), *scales = malloc(PIECE_ELEMENTS);
	const struct mxfp_result to_expected = mxfp_to_numbers(MXFP_FORMAT_F32, expected), to_x = mxfp_to_numbers(MXFP_FORMAT_F32, x);
	struct piece piece = {0};
	size_t done = 0;

	struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	ck_assert_int_eq(mxfp_dequantize(&to_expected, &matrix, NULL), MXFP_OK);
	while (piece_next(&piece, q->rows, q->cols)) {
		const struct mxfp_blocks part = quantized_blocks(q, &piece, codes, scales);
		size_t size = piece.rows * piece.cols;
		uint64_t n_bytes;

		ck_assert_uint_eq(piece.row * q->cols + piece.col, done);
		ck_assert_uint_le(size, PIECE_ELEMENTS);
		ck_assert_int_eq(quantized_read(q, &piece, &part, &n_bytes, &error), EXIT_OK);
		matrix = mxfp_blocks_matrix(&part);
		ck_assert_int_eq(mxfp_dequantize(&to_x, &matrix, NULL), MXFP_OK);
		ck_assert_int_eq(memcmp(x, expected + done, size * sizeof *x), 0);
		done += size;
	}
	ck_assert_uint_eq(done, n);
	free(expected);
	free(x);
	free(codes);
	free(scales);
	suite_compared(n);
}

static void check_output(const char *path, const struct mxfp_blocks *blocks, XXH128_hash_t hash)
{
	struct model model;
	struct quantized q;
	bool found;
	char digits[33];

	ck_assert_msg(model_open(&model, path, &error) == EXIT_OK, "%s", error.text);
	ck_assert_msg(quantized_find(&q, &found, &model, "layer.weight", &error) == EXIT_OK, "%s", error.text);
	ck_assert(found);
	ck_assert_int_eq((int)q.choice.form->format, (int)blocks->format);
	ck_assert_uint_eq(q.rows, blocks->rows);
	ck_assert_uint_eq(q.cols, blocks->cols);
	check_part(&q, LAYOUT_CODES, blocks->codes);
	check_part(&q, LAYOUT_SCALES, blocks->scales);
	if (q.parts[LAYOUT_TENSOR_SCALE] != NULL)
		ck_assert(q.tensor_scale == blocks->tensor_scale && blocks->tensor_scale_divides);
	check_decoded(&q, blocks);
	snprintf(digits, sizeof digits, "%016llx%016llx", (unsigned long long)hash.high64,
	         (unsigned long long)hash.low64);
	ck_assert_str_eq(file_metadata(&model.files[0], "mxfp.source_xxh3_128"), digits);
	model_close(&model);
}

TEST_LOOP(pieces_equal_the_whole, sizeof cases / sizeof cases[0])
{
	const struct matrix_case *c = &cases[_i];
	size_t n = (size_t)(c->rows * c->cols);
	float *x = make_numbers(n);
	const struct quantize_settings settings = {
		.in = make_source(c, x),
		.out = scratch_path("quantized"),
		.layout = &layout_compressed_tensors,
		.choice = {.format = c->weights, .rule = MXFP_RULE_MSE, .recipe = MXFP_RECIPE_COMPRESSED_TENSORS},
		.activations = MXFP_FORMAT_MXFP8_E4M3,
		.round = c->round,
		.non_finite = MXFP_NON_FINITE_ERROR,
		.seed = 5,
		.threads = c->threads,
		.pad_tail = true,
		.force = true,
		.quiet = true,
	};
	struct mxfp_blocks blocks = mxfp_blocks_at(c->weights, (size_t)c->rows, (size_t)c->cols, NULL, NULL);

	quantize_file(&settings);
	quantize_whole(&blocks, &settings, x);
	little_endian(x, n, sizeof *x); /* as in the file */
	XXH128_canonical_t of_tensor;
	XXH128_canonicalFromHash(&of_tensor, XXH3_128bits(x, n * sizeof *x));
	check_output(settings.out, &blocks, XXH3_128bits(&of_tensor, sizeof of_tensor));
	free(blocks.codes);
	free(blocks.scales);
	free(x);
}

/* Ten pieces of rows. */
static const struct matrix_case large = {320, 4096, MXFP_FORMAT_MXFP4, MXFP_ROUND_RNE, 0};
enum { LARGE_BYTES = 320 * 4096 * 4 };

/* Quantizes a file that has lost `lost` bytes since it was opened. Fails, leaves nothing, and says `what`. */
static void check_failure(const char *path, unsigned n_threads, long lost, const char *what)
{
	struct stat status;
	struct quantize_plan plan;
	struct model model;
	const struct quantize_settings settings = {
		.in = path,
		.out = scratch_path("d/out"),
		.layout = &layout_compressed_tensors,
		.choice = {.format = MXFP_FORMAT_MXFP4, .rule = MXFP_RULE_FLOOR},
		.activations = OPTION_FORMAT_NONE,
		.non_finite = MXFP_NON_FINITE_ERROR,
		.threads = n_threads,
		.quiet = true,
	};

	scratch_directory("d");
	ck_assert_int_eq(model_open(&model, path, &error), EXIT_OK);
	ck_assert_int_eq(quantize_plan(&plan, &settings, &model, &error), EXIT_OK);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_eq(truncate(path, status.st_size - lost), 0);
	ck_assert_int_eq(quantize_run(&plan, &error), EXIT_INPUT);
	ck_assert_msg(strstr(error.text, what) != NULL, "'%s' is not in '%s'", what, error.text);
	ck_assert_int_eq(rmdir(scratch_path("d")), 0); /* nothing is in it */
	quantize_plan_free(&plan);
	model_close(&model);
	suite_compared(1);
}

TEST(truncation_is_told)
{
	float *x = make_numbers((size_t)(large.rows * large.cols));
	char what[80];
	struct stat status;

	for (unsigned n_threads = 0; n_threads < 3; n_threads++) {
		const char *path = make_source(&large, x);

		ck_assert_int_eq(stat(path, &status), 0);
		snprintf(what, sizeof what, "ends at byte %lld, while it was being read",
		         (long long)status.st_size - LARGE_BYTES / 2 - 1);
		check_failure(path, n_threads, LARGE_BYTES / 2 + 1, what);
	}
	free(x);
}

/* Each piece but the first has a NaN, so threads meet several at a time. */
TEST(first_nan_is_told)
{
	float *x = make_numbers((size_t)(large.rows * large.cols));

	for (size_t row = 50; row < large.rows; row += 20)
		x[row * large.cols + row] = NAN;
	for (unsigned i = 0; i < 12; i++)
		check_failure(make_source(&large, x), i % 3, 0, "element 204850 (row 50, column 50) is NaN");
	free(x);
}
