/* SPDX-License-Identifier: MIT */
/* Weights and inputs as numbers of fewer bits. */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "base/library.h"
#include "base/must_succeed.h"
#include "eval/network_parts.h"
#include "mxfp/convert.h"

enum { LOWEST_EXPONENT = -100 }; /* of a scale: numbers times it are still exact in bf16 */

static const struct mxfp_convert_options to_nearest = {.size = sizeof to_nearest, .overflow = MXFP_OVERFLOW_OVF};

static size_t bytes_of(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->storage_bytes;
}

/* The format in which products take numbers of that one. */
static enum mxfp_format kept_in(const struct network *network, enum mxfp_format format)
{
	return numbers_are_fp8(format) && !acc_is_machine(network->options.acc) ? MXFP_FORMAT_BF16 : format;
}

/* The largest magnitude of n numbers that are not NaN, and `most`. */
static float largest(float most, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	return most;
}

/* The exponent of the scale of numbers of which `most` is the largest. */
static int scale_of(float most, enum mxfp_format format)
{
	const uint8_t code = (uint8_t)mxfp_format_get_info(format)->max_code;
	float limit;

	if (!(most > 0) || isinf(most))
		return 0;
	must_succeed(mxfp_convert_array(&limit, MXFP_FORMAT_F32, &code, format, 1, NULL, ONE_THREAD));
	int exponent = ilogbf(most) - ilogbf(limit);
	if (ldexpf(most, -exponent) > limit)
		exponent++;
	return exponent > LOWEST_EXPONENT ? exponent : LOWEST_EXPONENT;
}

/* Rounds n numbers x, which are changed, under a scale. `to` has them with the scale if they are not kept in FP8. */
static void round_scaled(void *to, enum mxfp_format kept, float *x, uint8_t *codes, size_t n, enum mxfp_format format, int exponent)
{
	for (size_t i = 0; i < n; i++)
		x[i] = ldexpf(x[i], -exponent);
	must_succeed(mxfp_convert_array(codes, format, x, MXFP_FORMAT_F32, n, &to_nearest, ONE_THREAD));
	if (kept == format) {
		for (size_t i = 0; i < n; i++)
			((uint8_t *)to)[i] = codes[i];
		return;
	}
	must_succeed(mxfp_convert_array(x, MXFP_FORMAT_F32, codes, format, n, NULL, ONE_THREAD));
	for (size_t i = 0; i < n; i++)
		x[i] = ldexpf(x[i], exponent);
	must_succeed(mxfp_convert_array(to, kept, x, MXFP_FORMAT_F32, n, &to_nearest, ONE_THREAD));
}

/* Rows of W to FP8. */
static void round_w_scaled(const struct network *network, uint8_t *to, float *row, const struct linear *linear, float *scale,
                           enum mxfp_format format)
{
	const enum mxfp_format kept = kept_in(network, format), from = linear->w.format;
	const size_t rows = linear->w.rows, cols = linear->w.cols;
	const uint8_t *source = linear->memory;
	float most = 0;

	for (size_t i = 0; i < rows; i++) {
		must_succeed(mxfp_convert_array(row, MXFP_FORMAT_F32, source + i * cols * bytes_of(from), from, cols, NULL, ONE_THREAD));
		most = largest(most, row, cols);
	}
	const int exponent = scale_of(most, format);
	for (size_t i = 0; i < rows; i++) {
		must_succeed(mxfp_convert_array(row, MXFP_FORMAT_F32, source + i * cols * bytes_of(from), from, cols, NULL, ONE_THREAD));
		round_scaled(to + i * cols * bytes_of(kept), kept, row, (uint8_t *)(row + cols), cols, format, exponent);
	}
	*scale = kept == format ? ldexpf(1, exponent) : 1;
}

int numbers_round_w(const struct network *network, struct linear *linear, enum mxfp_format format, struct error *error)
{
	const enum mxfp_format kept = kept_in(network, format);
	const size_t n = linear->w.rows * linear->w.cols;
	uint8_t *to = malloc(n * bytes_of(kept) + 1);
	float *row = malloc(linear->w.cols * (sizeof *row + 1) + 1);
	const bool enough = to != NULL && row != NULL;

	if (enough && numbers_are_fp8(format))
		round_w_scaled(network, to, row, linear, &linear->w.tensor_scale, format);
	else if (enough)
		must_succeed(mxfp_convert_array(to, format, linear->memory, linear->w.format, n, &to_nearest, &network->exec));
	free(row);
	if (!enough) {
		free(to);
		return fail_memory(error);
	}
	free(linear->memory);
	linear->memory = to;
	linear->w.data = to;
	linear->w.format = kept;
	return EXIT_OK;
}

/* What lies before the numbers in the memory of inputs: a scale for each row, a row in binary32, and its codes. */
static size_t before_inputs(size_t rows, size_t cols)
{
	return (rows + cols) * sizeof(float) + (cols + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

size_t numbers_inputs_bytes(const struct network *network, const struct inputs *inputs, enum mxfp_format format)
{
	return before_inputs(inputs->rows, inputs->cols) + inputs->rows * inputs->cols * bytes_of(kept_in(network, format));
}

void numbers_round_inputs(const struct network *network, struct inputs *inputs, enum mxfp_format format, void *memory)
{
	const enum mxfp_format kept = kept_in(network, format);
	const size_t rows = inputs->rows, cols = inputs->cols;
	float *scales = memory, *row = scales + rows;
	uint8_t *codes = (uint8_t *)(row + cols), *to = (uint8_t *)memory + before_inputs(rows, cols);

	if (!numbers_are_fp8(format))
		must_succeed(mxfp_convert_array(to, format, inputs->x, MXFP_FORMAT_F32, rows * cols, &to_nearest, &network->exec));
	for (size_t i = 0; numbers_are_fp8(format) && i < rows; i++) {
		const float *x = inputs->x + i * cols;
		const int exponent = scale_of(largest(0, x, cols), format);

		for (size_t k = 0; k < cols; k++)
			row[k] = x[k];
		round_scaled(to + i * cols * bytes_of(kept), kept, row, codes, cols, format, exponent);
		scales[i] = ldexpf(1, exponent);
	}
	inputs->rounded = mxfp_numbers(kept, rows, cols, to);
	inputs->rounded.scales = numbers_are_fp8(kept) ? scales : NULL;
	inputs->rounded_to = format;
}
