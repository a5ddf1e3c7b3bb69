/* SPDX-License-Identifier: MIT */
/* Measurements of a matrix: one worked by hand, and a large normal one against errors that were
   computed elsewhere. */
#include "config.h"

#include "analyse/measure.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "report/gaussian.h"
#include "suite.h"

enum { ROWS = 16384, COLS = 32 };

static const char weights_path[] = "test_measure_weights.safetensors";
static const char activations_path[] = "test_measure_activations.safetensors";

/* Writes a file with one matrix and opens it. */
static void make_file(struct file *file, const char *path, const char *name, const float *x, size_t rows, size_t cols)
{
	const uint64_t shape[] = {rows, cols};
	struct tensor tensor = {.name = name, .dtype = DTYPE_F32, .rank = 2, .shape = shape};
	struct writer writer = {.path = path, .n_tensors = 1, .tensors = &tensor, .fd = -1};
	struct error error;
	float *stored = malloc(rows * cols * sizeof *x);

	ck_assert_ptr_nonnull(stored);
	memcpy(stored, x, rows * cols * sizeof *x);
	little_endian(stored, rows * cols, sizeof *x);
	unlink(path);
	ck_assert_int_eq(writer_open(&writer, &error), EXIT_OK);
	ck_assert_int_eq(writer_write(&writer, &tensor, 0, stored, rows * cols * sizeof *x, &error), EXIT_OK);
	free(stored);
	ck_assert_int_eq(writer_close(&writer, &error), EXIT_OK);
	ck_assert_int_eq(file_open(file, path, &error), EXIT_OK);
}

static void drop_file(struct file *file)
{
	char *path = strdup(file->path);

	file_close(file);
	unlink(path);
	free(path);
}

static struct measure_options options_of(const char *formats, const char *rules)
{
	struct measure_options options = {
		.input = {.variant = {.format = MXFP_FORMAT_MXFP8_E4M3, .rule = MXFP_RULE_RCEIL}, .tokens = 1},
	};
	struct error error;

	ck_assert_int_eq(variants_parse(&options.variants, formats, rules, NULL, &error), EXIT_OK);
	return options;
}

static void measure_file(struct layer *layer, const struct file *file, const struct measure_options *options)
{
	struct error error;

	*layer = (struct layer){.file = file, .tensor = &file->tensors[0]};
	ck_assert_int_eq(measure_layer(layer, options, &error), EXIT_OK);
}

/*
 * Two rows in MXFP4 under `floor`. Row 0 has amax 7.5, so its scale is 2^0: 7.5 saturates to 6, 5
 * is a tie and becomes 4, 0.25 is a tie and becomes 0, -1 stays. Row 1 is zero and has scale byte
 * 0.
 *
 * Three tokens. (1, 1): y = 12.5, with quantized weights 10. (0, 0, 0, 1): -1 both times. (17/16):
 * y = 7.96875, with quantized weights 6.375; its MXFP8 scale is 2^-8, 272 is a tie between 256 and
 * 288, so quantized it is (1) and y = 6.
 */
static const float hand_weights[2][COLS] = {{7.5f, 5, 0.25f, -1}};
static const float hand_activations[3][COLS] = {{1, 1}, {0, 0, 0, 1}, {1.0625f}};

static void check_hand_weights(const struct measurement *m)
{
	ck_assert_uint_eq(m->elements, 64);
	ck_assert_uint_eq(m->bytes, 2 * (16 + 1));
	ck_assert_double_eq(measurement_bits(m), 4.25);
	ck_assert_uint_eq(m->saturated, 1);
	ck_assert_uint_eq(m->errors.flushed, 1);
	/* 7.5 and 5 are off by a fifth, 0.25 by all of itself. */
	ck_assert_uint_eq(m->errors.relative[0], 61);
	ck_assert_uint_eq(m->errors.relative[-3 - ERROR_EXPONENT_MIN + 1], 2);
	ck_assert_uint_eq(m->errors.relative[0 - ERROR_EXPONENT_MIN + 1], 1);
	ck_assert_double_eq(m->errors.stats.signal, 56.25 + 25 + 0.0625 + 1);
	ck_assert_double_eq(m->errors.stats.noise, 2.25 + 1 + 0.0625);
	ck_assert_double_eq(m->errors.stats.max_absolute, 1.5);
	ck_assert_double_eq(m->errors.stats.max_relative, 1);
	ck_assert_uint_eq(m->first_scale, 0);
	ck_assert_uint_eq(m->n_scales, 128);
	ck_assert_uint_eq(m->scales[0], 1);
	ck_assert_uint_eq(m->scales[127], 1);
}

TEST(hand_example_is_measured)
{
	struct measure_options options = options_of("mxfp4", "floor");
	struct file weights, activations;
	struct layer layer;

	make_file(&weights, weights_path, "a.weight", hand_weights[0], 2, COLS);
	make_file(&activations, activations_path, "a", hand_activations[0], 3, COLS);
	options.input.file = &activations;
	options.input.tokens = 10;
	measure_file(&layer, &weights, &options);
	check_hand_weights(&layer.measurements[0]);
	const struct product_stats *y = &layer.measurements[0].products[0];
	ck_assert_uint_eq(y->both.n, 6);
	ck_assert_double_eq(y->weights_only.signal, 12.5 * 12.5 + 1 + 7.96875 * 7.96875);
	ck_assert_double_eq(y->weights_only.noise, 2.5 * 2.5 + 1.59375 * 1.59375);
	ck_assert_double_eq(y->both.noise, 2.5 * 2.5 + 1.96875 * 1.96875);
	ck_assert_double_eq(layer.inputs[0].input.noise, 0.0625 * 0.0625);
	ck_assert_double_eq(layer.inputs[0].product.noise, 0.46875 * 0.46875);
	layer_free(&layer, options.variants.n);
	drop_file(&weights);
	drop_file(&activations);
}

TEST(totals_are_sums)
{
	struct measure_options options = options_of("mxfp4", "floor");
	struct measurement total;
	struct file weights;
	struct layer layer;
	struct error error;

	make_file(&weights, weights_path, "a.weight", hand_weights[0], 2, COLS);
	measure_file(&layer, &weights, &options);
	ck_assert_int_eq(measurement_init(&total, &options.variants.items[0], &error), EXIT_OK);
	measurement_merge(&total, &layer.measurements[0]);
	measurement_merge(&total, &layer.measurements[0]);
	ck_assert_uint_eq(total.elements, 128);
	ck_assert_uint_eq(total.bytes, 4 * 17);
	ck_assert_uint_eq(total.saturated, 2);
	ck_assert_uint_eq(total.errors.flushed, 2);
	ck_assert_double_eq(total.errors.stats.noise, 2 * 3.3125);
	ck_assert_uint_eq(total.errors.relative[0], 122);
	ck_assert_uint_eq(total.errors.relative[-3 - ERROR_EXPONENT_MIN + 1], 4);
	ck_assert_uint_eq(total.scales[0], 2);
	ck_assert_uint_eq(total.scales[127], 2);
	measurement_free(&total);
	layer_free(&layer, options.variants.n);
	drop_file(&weights);
}

/* Every format by every rule and recipe, against the yardsticks of a report, which another program computed with another
   generator (gaussian.py); a sample of 16,384 blocks is within 0.05 dB of them, and MXINT8, and rules by which most of the error is
   that of the few numbers that they clamp, within 0.1. */
static const char *const normal_formats[] = {"mxfp4", "mxfp6-e2m3", "mxfp6-e3m2", "mxfp8-e4m3", "mxfp8-e5m2", "mxint8",
                                             "nvfp4"};

enum { N_NORMAL_FORMATS = sizeof normal_formats / sizeof normal_formats[0] };

TEST_LOOP(normal_numbers_have_their_known_errors, N_NORMAL_FORMATS)
{
	const char *const rules = "mse,floor,ceil,even,even-m1,rceil,fit,trn3,rne,log-nearest";
	const char *const recipes = "te,torchao,torchao-1,compressed-tensors,modelopt,modelopt-0.45,ggml,4over6,modelopt-4over6";
	const char *format = normal_formats[_i];
	const bool nvfp4 = strcmp(format, "nvfp4") == 0;
	struct measure_options options = options_of("mxfp4", "floor");
	float *x = malloc(ROWS * COLS * sizeof *x);
	struct file file;
	struct layer layer;
	struct error error;

	ck_assert_ptr_nonnull(x);
	ck_assert_int_eq(variants_parse(&options.variants, format, nvfp4 ? NULL : rules, nvfp4 ? recipes : NULL, &error), EXIT_OK);
	ck_assert_uint_eq(options.variants.n, nvfp4 ? 9 : 10);
	activations_fill(x, ROWS, COLS, ACTIVATIONS_NORMAL, 7, 0);
	make_file(&file, weights_path, "normal", x, ROWS, COLS);
	measure_file(&layer, &file, &options);
	for (size_t v = 0; v < options.variants.n; v++) {
		const struct variant *variant = &options.variants.items[v];
		const bool clamps = variant->rule == MXFP_RULE_RNE || variant->rule == MXFP_RULE_LOG_NEAREST;

		ck_assert_double_eq_tol(stats_sqnr(&layer.measurements[v].errors.stats), gaussian_sqnr(variant),
		                        clamps || strcmp(format, "mxint8") == 0 ? 0.1 : 0.05);
	}
	suite_compared(ROWS * COLS);
	layer_free(&layer, options.variants.n);
	drop_file(&file);
	free(x);
}

/* Every variant in its lane has what stats_add() and a division an element give: bits, whatever the number of variants
   and the pieces. Elements are such that errors are 0, more than 1, exactly 1 and of zeros; some are not finite. */
TEST_LOOP(errors_are_those_of_one_element_after_the_other, 2)
{
	enum { N = 3001, VARIANTS = 11 };
	static const float specials[] = {0, -0.0f, 1, -1, 0x1p-149f, 0x1p-126f, 0x1.fffffep127f, 3};
	const struct piece { size_t first, n; } pieces[] = {{0, 1}, {1, 777}, {778, 1500}, {2278, N - 2278}};
	float *source = malloc(N * sizeof *source), *measured = malloc(VARIANTS * N * sizeof *measured);
	struct element_errors errors[VARIANTS] = {{.flushed = 0}}, *into[VARIANTS];
	const float *from[VARIANTS];

	activations_fill(source, 1, N, ACTIVATIONS_NORMAL, 3, 0);
	activations_fill(measured, VARIANTS, N, ACTIVATIONS_NORMAL, 4, 0);
	for (size_t i = 0; i < N; i += 37)
		source[i] = specials[i / 37 % 8];
	source[2900] = _i == 0 ? 1 : INFINITY;
	for (size_t v = 0; v < VARIANTS; v++) {
		into[v] = &errors[v];
		for (size_t i = v; i < N; i += 3)
			measured[v * N + i] = i % 2 == 0 ? source[i] : i % 5 == 0 ? 0 : source[i] * (1 + 0x1p-9f);
		measured[v * N + 2000 + v] = _i == 0 ? 2 : NAN;
	}
	for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
		for (size_t v = 0; v < VARIANTS; v++)
			from[v] = measured + v * N + pieces[p].first;
		element_errors_add(into, from, VARIANTS, source + pieces[p].first, pieces[p].n, false);
	}
	for (size_t v = 0; v < VARIANTS; v++) {
		struct stats stats = {.n = 0};
		uint64_t flushed = 0, relative[N_ERROR_BINS] = {0};

		stats_add(&stats, source, measured + v * N, N);
		for (size_t i = 0; i < N; i++) {
			double a = (double)source[i], b = (double)measured[v * N + i];
			int exponent = a == b ? 0 : ilogb(a == 0 ? (double)INFINITY : (b - a) / a);

			flushed += a != 0 && b == 0;
			exponent = exponent < ERROR_EXPONENT_MIN ? ERROR_EXPONENT_MIN : exponent;
			exponent = exponent > ERROR_EXPONENT_MAX ? ERROR_EXPONENT_MAX : exponent;
			if (isfinite(a) && isfinite(b))
				relative[a == b ? 0 : exponent - ERROR_EXPONENT_MIN + 1]++;
		}
		ck_assert_mem_eq(&errors[v].stats, &stats, sizeof stats);
		ck_assert_uint_eq(errors[v].flushed, flushed);
		ck_assert_mem_eq(errors[v].relative, relative, sizeof relative);
	}
	suite_compared(VARIANTS * N);
	free(source);
	free(measured);
}
