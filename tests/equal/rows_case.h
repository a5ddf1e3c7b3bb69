/* SPDX-License-Identifier: MIT */
/* A row operation drawn at random: shapes, formats, strides, options, hostile numbers, where results go. */
#ifndef TESTS_ROWS_CASE_H
#define TESTS_ROWS_CASE_H

#include "mxfp.h"
#include "oracle/inputs.h"

enum rows_op {
	ROWS_SUM, ROWS_MEAN, ROWS_SQUARE_SUM, ROWS_MAX, ROWS_ARGMAX, ROWS_SOFTMAX, ROWS_LOG_SOFTMAX, ROWS_RMS_NORM,
	ROWS_LAYER_NORM, ROWS_ADD, ROWS_GATE, ROWS_ROTATE, ROWS_N_OPS
};

enum { ROWS_BYTES = 1 << 24 }; /* of an array */

/* An array that an operation reads: f32 or bf16. */
struct rows_array {
	struct mxfp_matrix input;
	uint8_t *bytes; /* ROWS_BYTES */
};

enum { ROWS_X, ROWS_Y, ROWS_WEIGHT, ROWS_BIAS, ROWS_N_ARRAYS };

struct rows_case {
	enum rows_op op;
	size_t rows, cols;
	struct rows_array array[ROWS_N_ARRAYS]; /* Y: mask, residual, b, up. Not read: input.data is NULL */
	struct mxfp_softmax_options softmax;
	struct mxfp_norm_options norm;
	struct mxfp_glu_options gate;
	struct mxfp_rotary_options rotate;
	enum mxfp_function function; /* gate */
	float sinks[64], frequencies[256];
	uint32_t *positions;
	/* Results: numbers (in place: over X), blocks, and the sums of a residual (in place: over Y). */
	bool wants_data, in_place, wants_blocks, sum_in_place;
	enum mxfp_format format, sum_format, block_format;
	size_t stride;
	struct mxfp_quantize_options quantize;
};

/* What a call wrote. */
struct rows_result {
	uint8_t *data, *sum, *codes, *scales; /* ROWS_BYTES each */
	struct mxfp_counts counts;
	float tensor_scale;
};

/* Allocates; never freed. */
void rows_case_init(struct rows_case *c);
void rows_result_init(struct rows_result *result);

/* Draws a case of rows x cols numbers, or of fewer columns where rows of that length do not fit. */
void rows_case_draw(struct rows_case *c, struct random *r, enum rows_op op, size_t rows, size_t cols);

enum mxfp_status rows_case_run(const struct rows_case *c, const struct mxfp_exec *exec, struct rows_result *result);

/* Bytes of each array of results that a call may have touched. */
bool rows_result_equal(const struct rows_case *c, const struct rows_result *a, const struct rows_result *b);

/* In one line. */
void rows_case_describe(const struct rows_case *c, char *text, size_t size);

/* Number (row, col) of an array as binary32 bits, which decodes bf16. */
uint32_t rows_number(const struct rows_array *a, size_t row, size_t col);

#endif
