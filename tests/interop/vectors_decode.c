/* SPDX-License-Identifier: MIT */
/* Cases of the kinds `decode` (the value of every code) and `pack` (nibble order). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "interop/vectors.h"

static const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};

static bool is_nan(uint32_t f32)
{
	return (f32 & 0x7FFFFFFF) > 0x7F800000;
}

/* Two tables of gguf-py hold half of each value, since its element tables hold the double. */
static void run_half_table(struct vector_set *set, struct vector_case *c, enum mxfp_format format)
{
	struct vector_array values = vectors_output(set, c, "values");

	for (size_t i = 0; i < values.n; i++) {
		float value;
		uint32_t ours = vectors_decode_code(format, (uint32_t)i), theirs = values.at[i];
		int excuse = VECTOR_NO_EXCUSE;

		memcpy(&value, &ours, sizeof value);
		value *= 0.5f;
		memcpy(&ours, &value, sizeof ours);
		/* The case's notes: "0x7F decodes to 0; bit 7 ignored in exponent mask", so that FF is 480,
		   halved. */
		if (format == MXFP_FORMAT_UE4M3 && is_nan(ours) && theirs == (i == 0x7F ? 0 : 0x43700000))
			excuse = VECTOR_NOTES;
		/* 10: byte 255 "is NaN in OCP MX but 2^127 in ggml": here 2^(255-128). */
		if (format == MXFP_FORMAT_E8M0 && i == 255 && theirs == 0x7F000000)
			excuse = 10;
		vectors_compare(set, c, &(struct vector_pair){i, (uint32_t)i, ours, theirs, excuse});
	}
	free(values.at);
}

void vectors_run_decode(struct vector_set *set, struct vector_case *c)
{
	enum mxfp_format format = vectors_format(c);

	if (vectors_by(c, "gguf-py")) {
		run_half_table(set, c, format);
		return;
	}
	struct vector_array values = vectors_output(set, c, "values");
	ck_assert_uint_eq(values.n, (size_t)1 << mxfp_format_get_info(format)->bits);
	for (size_t i = 0; i < values.n; i++) {
		uint32_t ours = vectors_decode_code(format, (uint32_t)i);
		/* 4: NaN is unspecified: its sign and payload differ. */
		int excuse = is_nan(ours) && is_nan(values.at[i]) ? 4 : VECTOR_NO_EXCUSE;

		vectors_compare(set, c, &(struct vector_pair){i, (uint32_t)i, ours, values.at[i], excuse});
	}
	free(values.at);
}

/* Each row of `packed` unpacks to the row of `values`, which the input holds too; ours packs by quantizing to
   e2m1 with a block scale of 1, which a 6 behind every row brings about. */
void vectors_run_pack(struct vector_set *set, struct vector_case *c)
{
	enum { COLS = 32 };
	struct vector_array input = vectors_input(set, c->input), packed = vectors_output(set, c, "packed");
	struct vector_array values = vectors_output(set, c, "values");
	const struct mxfp_quantize_options options = {.size = sizeof options, .rule = MXFP_RULE_FLOOR};

	for (size_t row = 0; row < input.rows; row++) {
		uint32_t x[COLS] = {0}, back[COLS];
		uint8_t codes[COLS / 2], scale;
		struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 1, COLS, codes, &scale);
		const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, COLS, x);
		const struct mxfp_result to = mxfp_to_blocks(&blocks), decoded = mxfp_to_numbers(MXFP_FORMAT_F32, back);

		memcpy(x, input.at + row * input.cols, input.cols * sizeof *x);
		x[COLS - 1] = 0x40C00000;
		ck_assert_int_eq(mxfp_quantize(&to, &source, &options, &one_thread), MXFP_OK);
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
		ck_assert_int_eq(mxfp_dequantize(&decoded, &matrix, NULL), MXFP_OK);
		for (size_t i = 0; i < packed.cols; i++) {
			size_t at = row * packed.cols + i;

			vectors_compare(set, c,
			                &(struct vector_pair){at, x[2 * i], codes[i], packed.at[at],
			                                      VECTOR_NO_EXCUSE});
		}
		for (size_t i = 0; i < values.cols; i++) {
			size_t at = row * values.cols + i;

			vectors_compare(
				set, c,
				&(struct vector_pair){at, x[i], back[i], values.at[at], VECTOR_NO_EXCUSE});
		}
	}
	free(input.at);
	free(packed.at);
	free(values.at);
}
