/* SPDX-License-Identifier: MIT */
/* Cases of the kind `mx-block`: blocks of 32, elements and scales. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interop/vectors_mx.h"

enum { NOT_RUN = 0xEE, GGUF_BYTES = 1 + VECTOR_BLOCK / 2 };

static const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};

/* 11: ggml's ties go to the smaller magnitude, and what rounds to -0 becomes +0; that is our rhz with
   no_negative_zero. 29: MLX's likewise in mxfp4. */
static bool searches_table(const struct vector_case *c)
{
	return vectors_by_ggml(c) || (vectors_by_mlx(c) && vectors_format(c) == MXFP_FORMAT_MXFP4);
}

static struct mxfp_quantize_options options_of(const struct vector_case *c)
{
	return (struct mxfp_quantize_options){
		.size = sizeof(struct mxfp_quantize_options),
		.rule = vectors_rule(c),
		.round = searches_table(c) ? MXFP_ROUND_RHZ : vectors_round(c),
		.no_negative_zero = searches_table(c),
	};
}

/* 23: under the scale 00 torchao takes "2^-126 for 2^-127, and RCEIL no scale at all", which leaves zeros. */
static int excuse_torchao_code(const struct vector_block *b, uint32_t x, uint32_t theirs)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	int exponent = vectors_rule(b->c) == MXFP_RULE_RCEIL ? 0 : 1 - VECTOR_BIAS;

	return b->theirs == 0 && theirs == mxfp_minifloat_encode(b->element, x, exponent, &b->rounding, 0, &counts)
	               ? 23
	               : VECTOR_NO_EXCUSE;
}

/* 5: "microxcaling also loses the sign of a negative whose x/2^s underflows float32", and that of -0. */
static bool loses_sign(uint32_t x, float scaled, uint32_t theirs)
{
	return x >= MXFP_F32_SIGN && scaled >= 0 && scaled <= 0 && theirs == 0;
}

/* Whether a code that differs from round(x / their scale) is what an item says. */
static int excuse_code(const struct vector_block *b, uint32_t x, uint32_t ours, uint32_t theirs)
{
	float scaled;

	memcpy(&scaled, &x, sizeof scaled);
	scaled = ldexpf(scaled, VECTOR_BIAS - (int)b->theirs);
	/* 14: "gfloat uses -128": for all that is nearer to it than to -127/64. */
	if (vectors_by(b->c, "graphcore") && b->element->format == MXFP_FORMAT_INT8 && theirs == 0x80 &&
	    scaled <= -127.5f / 64)
		return 14;
	/* 10: "code 5 for the largest element of an FLT_MAX block (its table entry overflows)". */
	if (vectors_by_ggml(b->c) && (x & ~MXFP_F32_SIGN) == 0x7F7FFFFF && (ours & 7) == 6 && theirs == ours - 1)
		return 10;
	if (vectors_by(b->c, "pytorch/ao"))
		return excuse_torchao_code(b, x, theirs);
	/* 26: the numbers have been divided by another power than the byte says. */
	if (vectors_by_mlx(b->c) && vectors_excuse_scale(b) == 26)
		return 26;
	if (!vectors_by_microxcaling(b->c))
		return VECTOR_NO_EXCUSE;
	if (loses_sign(x, scaled, theirs))
		return 5;
	/* 15: "FLT_MAX block -> NaN/0xEE under RNE (scale one too high, then 2**128)". */
	if (theirs == NOT_RUN && (x & ~MXFP_F32_SIGN) == 0x7F7FFFFF)
		return 15;
	const struct vector_rounding rounding = {b->element, b->rounding.mode, scaled,
	                                         vectors_decode_code(b->element->format, theirs)};
	return vectors_excuse_microxcaling(&rounding);
}

/* Element i of a block's bit stream. */
static uint32_t unpack(const uint8_t *packed, unsigned bits, size_t i)
{
	uint32_t code = 0;

	for (unsigned bit = 0; bit < bits; bit++)
		code |= (uint32_t)(packed[(i * bits + bit) / 8] >> (i * bits + bit) % 8 & 1) << bit;
	return code;
}

/* Compares the codes; `agreed` gets what stands after the exceptions. */
static void compare_codes(struct vector_block *b, const uint32_t *theirs, const uint8_t *packed, uint32_t *agreed)
{
	struct mxfp_counts counts = {.size = sizeof counts};

	for (size_t i = 0; i < VECTOR_BLOCK; i++) {
		/* Under another scale than ours the codes must still be right for that scale. */
		uint32_t ours = b->ours == b->theirs
		                        ? unpack(packed, b->element->bits, i)
		                        : mxfp_minifloat_encode(b->element, b->x[i], (int)b->theirs - VECTOR_BIAS,
		                                                &b->rounding, 0, &counts);
		int excuse = excuse_code(b, b->x[i], ours, theirs[i]);

		agreed[i] = excuse != VECTOR_NO_EXCUSE ? theirs[i] : ours;
		vectors_compare(b->set, b->c,
		                &(struct vector_pair){b->row * VECTOR_BLOCK + i, b->x[i], ours, theirs[i], excuse});
	}
}

/* 4-bit codes in bytes: element 2i in the low nibble; in GGUF, behind the scale, element i below and i + 16
   above. */
static void compare_bytes(struct vector_block *b, const struct vector_outputs *theirs, const uint32_t *codes)
{
	size_t half = VECTOR_BLOCK / 2, packed_at = b->row * half, gguf_at = b->row * GGUF_BYTES;

	for (size_t i = 0; i < half && theirs->packed.n != 0; i++)
		vectors_compare(b->set, b->c,
		                &(struct vector_pair){packed_at + i, b->x[2 * i],
		                                      codes[2 * i] | codes[2 * i + 1] << 4,
		                                      theirs->packed.at[packed_at + i], 0});
	if (theirs->gguf_blocks.n == 0)
		return;
	vectors_compare(
		b->set, b->c,
		&(struct vector_pair){gguf_at, b->amax, b->theirs, theirs->gguf_blocks.at[gguf_at], 0});
	for (size_t i = 0; i < half; i++)
		vectors_compare(b->set, b->c,
		                &(struct vector_pair){gguf_at + 1 + i, b->x[i],
		                                      codes[i] | codes[i + half] << 4,
		                                      theirs->gguf_blocks.at[gguf_at + 1 + i], 0});
}

/* Decodes their codes at their scale. */
static void compare_values(struct vector_block *b, const struct vector_outputs *theirs)
{
	const uint32_t *codes = theirs->codes.at + b->row * VECTOR_BLOCK;
	const uint32_t *values = theirs->values.at + b->row * VECTOR_BLOCK;
	uint8_t packed[VECTOR_BLOCK] = {0}, scale = (uint8_t)b->theirs;
	uint32_t ours[VECTOR_BLOCK];
	const struct mxfp_blocks blocks = mxfp_blocks_at(vectors_format(b->c), 1, VECTOR_BLOCK, packed, &scale);
	const struct mxfp_result decoded = mxfp_to_numbers(MXFP_FORMAT_F32, ours);

	for (size_t bit = 0; bit < VECTOR_BLOCK * b->element->bits; bit++)
		packed[bit / 8] |=
			(uint8_t)((codes[bit / b->element->bits] >> bit % b->element->bits & 1) << bit % 8);
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(&blocks);
	ck_assert_int_eq(mxfp_dequantize(&decoded, &matrix, NULL), MXFP_OK);
	for (size_t i = 0; i < VECTOR_BLOCK; i++) {
		bool nan = (values[i] & ~MXFP_F32_SIGN) > MXFP_F32_INF;
		int excuse = VECTOR_NO_EXCUSE;

		/* 15: "whole block NaN for NaN; FLT_MAX block -> NaN/0xEE under RNE (scale one too high, then
		   2**128)". */
		if (codes[i] == NOT_RUN &&
		    (nan || ((b->x[i] & ~MXFP_F32_SIGN) == 0x7F7FFFFF && (values[i] & ~MXFP_F32_SIGN) == MXFP_F32_INF)))
			excuse = 15;
		/* The notes: codes are found by the number, and -0 has that of the one zero of int8. */
		if (b->element->format == MXFP_FORMAT_INT8 && codes[i] == 0 && values[i] == MXFP_F32_SIGN)
			excuse = VECTOR_NOTES;
		/* 10: a wrapped scale 255 "is NaN in OCP MX but 2^127 in ggml". */
		if (vectors_by_ggml(b->c) && scale == 0xFF && codes[i] == 0 && values[i] == 0)
			excuse = 10;
		vectors_compare(
			b->set, b->c,
			&(struct vector_pair){b->row * VECTOR_BLOCK + i, codes[i], ours[i], values[i], excuse});
	}
}

static void compare_block(struct vector_block *b, const struct vector_outputs *theirs, const uint8_t *packed)
{
	uint32_t agreed[VECTOR_BLOCK];

	b->theirs = theirs->scales.at[b->row];
	int excuse = vectors_excuse_scale(b);
	vectors_compare(b->set, b->c, &(struct vector_pair){b->row, b->amax, b->ours, b->theirs, excuse});
	if (theirs->values.n != 0)
		compare_values(b, theirs);
	/* The codes of a block that is NaN are unspecified. ggml's 255 is a number, and so its codes are
	   compared. */
	if (b->theirs == 0xFF && !vectors_by_ggml(b->c))
		return;
	compare_codes(b, theirs->codes.at + b->row * VECTOR_BLOCK, packed, agreed);
	compare_bytes(b, theirs, agreed);
}

/* 12: "ggml with NaN/Inf in the block: NaN skipped in the maximum (no 0xFF); one Inf -> scale 0 ...; gguf-py
   was fed zeros instead": the block is compared with what the library makes of it with zeros for NaN, or of a
   block of zeros. */
static void compare_block_without_non_finite(struct vector_block *b, const struct vector_outputs *theirs,
                                             const struct mxfp_quantize_options *options)
{
	uint32_t x[VECTOR_BLOCK];
	uint8_t packed[VECTOR_BLOCK / 2], scale;
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 1, VECTOR_BLOCK, packed, &scale);
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, 1, VECTOR_BLOCK, x);
	const struct mxfp_result to = mxfp_to_blocks(&blocks);
	bool all_zero = b->has_inf && vectors_by(b->c, "libggml");

	for (size_t i = 0; i < VECTOR_BLOCK; i++)
		x[i] = all_zero || (b->x[i] & ~MXFP_F32_SIGN) >= MXFP_F32_INF ? 0 : b->x[i];
	ck_assert_int_eq(mxfp_quantize(&to, &source, options, &one_thread), MXFP_OK);
	vectors_load_block(b, x, b->row);
	b->ours = scale;
	b->set->n_excused[12]++;
	compare_block(b, theirs, packed);
}

void vectors_run_mx_block(struct vector_set *set, struct vector_case *c)
{
	struct vector_array input = vectors_input(set, c->input);
	const struct mxfp_quantize_options options = options_of(c);
	const struct mxfp_matrix source = mxfp_numbers(MXFP_FORMAT_F32, input.rows, VECTOR_BLOCK, input.at);
	struct mxfp_blocks blocks = mxfp_blocks_at(vectors_format(c), input.rows, VECTOR_BLOCK, NULL, NULL);
	const struct mxfp_result to = mxfp_to_blocks(&blocks);
	struct vector_outputs theirs = vectors_outputs(set, c);
	struct mxfp_sizes size;
	struct vector_block b = {.set = set, .c = c};

	ck_assert_uint_eq(input.cols, VECTOR_BLOCK);
	ck_assert_int_eq(mxfp_blocks_size(&size, blocks.format, blocks.rows, blocks.cols), MXFP_OK);
	uint8_t *codes = malloc(size.codes_bytes), *scales = malloc(size.scales_bytes);
	blocks.codes = codes;
	blocks.scales = scales;
	ck_assert_int_eq(mxfp_quantize(&to, &source, &options, &one_thread), MXFP_OK);
	b.element = mxfp_format_get_info(mxfp_format_get_info(blocks.format)->element);
	b.rounding =
		(struct mxfp_rounding){.mode = options.round, .no_negative_zero = options.no_negative_zero};
	for (size_t row = 0; row < input.rows; row++) {
		vectors_load_block(&b, input.at + row * VECTOR_BLOCK, row);
		b.ours = scales[row];
		if (vectors_by_ggml(c) && (b.has_nan || b.has_inf))
			compare_block_without_non_finite(&b, &theirs, &options);
		else
			compare_block(&b, &theirs, codes + row * size.codes_row_bytes);
	}
	free(codes);
	free(scales);
	free(input.at);
	vectors_free_outputs(&theirs);
}
