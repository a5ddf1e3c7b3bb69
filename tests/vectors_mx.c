/* SPDX-License-Identifier: MIT */
/* Cases of the kinds `mx-block` (blocks of 32, elements and scales) and `mx-scale` (scales alone). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "minifloat.h"
#include "scale.h"
#include "vectors.h"

enum { LENGTH = 32, BIAS = 127, NOT_RUN = 0xEE, MAX_BYTES = LENGTH, GGUF_BYTES = 1 + LENGTH / 2 };

#define SIGN UINT32_C(0x80000000)
#define INF UINT32_C(0x7F800000)

/* One block of a case. */
struct block {
	struct vector_set *set;
	struct vector_case *c;
	const struct mxfp_format_info *element;
	struct mxfp_rounding rounding;
	size_t row;
	const uint32_t *x;
	uint32_t amax, ours, theirs; /* the two scales */
	bool has_nan, has_inf;
};

/* What a case gives; n is 0 in what it does not. */
struct outputs {
	struct vector_array codes, scales, packed, values, gguf_blocks;
};

static bool is_ggml(const struct vector_case *c)
{
	return vectors_by(c, "libggml") || vectors_by(c, "gguf-py");
}

static bool is_microxcaling(const struct vector_case *c)
{
	return vectors_by(c, "microsoft/microxcaling");
}

static enum mxfp_rule rule_of(const struct vector_case *c)
{
	static const struct {
		const char *theirs;
		enum mxfp_rule ours;
	} rules[] = {
		{"EVEN with FP4 mantissa", MXFP_RULE_EVEN_M1},
		{"FLOOR", MXFP_RULE_FLOOR},
		{"RCEIL", MXFP_RULE_RCEIL},
		{"CEIL", MXFP_RULE_CEIL},
		{"EVEN", MXFP_RULE_EVEN},
	};

	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
		if (strncmp(c->scale_rule, rules[i].theirs, strlen(rules[i].theirs)) == 0)
			return rules[i].ours;
	ck_abort_msg("%s: unknown rule %s", c->name, c->scale_rule);
	return MXFP_RULE_MSE;
}

/* 11: ggml's ties go to the smaller magnitude, and what rounds to -0 becomes +0; that is our rhz with
   no_negative_zero. */
static struct mxfp_quantize_options options_of(const struct vector_case *c)
{
	return (struct mxfp_quantize_options){
		.rule = rule_of(c),
		.round = is_ggml(c) ? MXFP_ROUND_RHZ : vectors_round(c),
		.no_negative_zero = is_ggml(c),
		.threads = 1,
	};
}

static void load_block(struct block *b, const uint32_t *x, size_t row)
{
	b->row = row;
	b->x = x;
	b->amax = 0;
	b->has_nan = b->has_inf = false;
	for (size_t i = 0; i < LENGTH; i++) {
		uint32_t magnitude = b->x[i] & ~SIGN;

		b->has_nan = b->has_nan || magnitude > INF;
		b->has_inf = b->has_inf || magnitude == INF;
		if (magnitude > b->amax)
			b->amax = magnitude;
	}
}

/* 9: floor(log2f(amax)) is "one too high when amax = 2^k - 1 ulp, for EVERY k except -1, 0, 1, 2". Gives the
   exponent that float32 arrives at. */
static int floor_log2f(uint32_t amax)
{
	/* Below 2^-131 an ulp is too coarse for the logarithm to round up. */
	bool below_power = amax < 0x00800000 ? amax >= 0x0003FFFF && (amax & (amax + 1)) == 0
	                                     : (amax & 0x007FFFFF) == 0x007FFFFF;
	float x;
	int k;

	memcpy(&x, &amax, sizeof x);
	frexpf(x, &k); /* x lies in [2^(k-1), 2^k) */
	return below_power && (k < -1 || k > 2) ? k : k - 1;
}

/* 13: "any amax that rounds to 2^128" at the element's significand width "gets scale 0xFF". */
static bool rounds_past_binary32(const struct block *b)
{
	return b->amax < INF && b->amax >= INF - (UINT32_C(1) << (22 - b->element->significand_bits));
}

static int float32_scale(const struct block *b)
{
	return floor_log2f(b->amax) - b->element->emax + BIAS;
}

/* 9. */
static bool one_too_high(const struct block *b)
{
	return b->theirs == b->ours + 1 && (int)b->theirs == float32_scale(b);
}

static int excuse_ggml_scale(const struct block *b)
{
	/* 10: "ggml/gguf-py do not clamp the MXFP4 scale: amax < 2^-125 wraps modulo 256". */
	if (b->amax != 0 && b->amax < 0x01000000 && b->theirs == (uint8_t)float32_scale(b))
		return 10;
	return one_too_high(b) ? 9 : VECTOR_NO_EXCUSE;
}

static int excuse_scale(const struct block *b)
{
	if (is_ggml(b->c))
		return excuse_ggml_scale(b);
	if (is_microxcaling(b->c)) {
		/* 14: "Zero block: microxcaling shared exponent 1". */
		if (b->element->format == MXFP_FORMAT_INT8 && b->amax == 0 && b->theirs == 1)
			return 14;
		return one_too_high(b) ? 9 : VECTOR_NO_EXCUSE;
	}
	if (vectors_by(b->c, "pytorch/ao") && rule_of(b->c) == MXFP_RULE_EVEN && rounds_past_binary32(b) &&
	    b->theirs == 0xFF)
		return 13;
	return VECTOR_NO_EXCUSE;
}

/* 5: "microxcaling also loses the sign of a negative whose x/2^s underflows float32", and that of -0. */
static bool loses_sign(uint32_t x, float scaled, uint32_t theirs)
{
	return x >= SIGN && scaled >= 0 && scaled <= 0 && theirs == 0;
}

/* Whether a code that differs from round(x / their scale) is what an item says. */
static int excuse_code(const struct block *b, uint32_t x, uint32_t ours, uint32_t theirs)
{
	float scaled;

	memcpy(&scaled, &x, sizeof scaled);
	scaled = ldexpf(scaled, BIAS - (int)b->theirs);
	/* 14: "gfloat uses -128": for all that is nearer to it than to -127/64. */
	if (vectors_by(b->c, "graphcore") && b->element->format == MXFP_FORMAT_INT8 && theirs == 0x80 &&
	    scaled <= -127.5f / 64)
		return 14;
	/* 10: "code 5 for the largest element of an FLT_MAX block (its table entry overflows)". */
	if (is_ggml(b->c) && (x & ~SIGN) == 0x7F7FFFFF && (ours & 7) == 6 && theirs == ours - 1)
		return 10;
	if (!is_microxcaling(b->c))
		return VECTOR_NO_EXCUSE;
	if (loses_sign(x, scaled, theirs))
		return 5;
	/* 15: "FLT_MAX block -> NaN/0xEE under RNE (scale one too high, then 2**128)". */
	if (theirs == NOT_RUN && (x & ~SIGN) == 0x7F7FFFFF)
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
static void compare_codes(struct block *b, const uint32_t *theirs, const uint8_t *packed, uint32_t *agreed)
{
	struct mxfp_counts counts = {0};

	for (size_t i = 0; i < LENGTH; i++) {
		/* Under another scale than ours the codes must still be right for that scale. */
		uint32_t ours = b->ours == b->theirs
		                        ? unpack(packed, b->element->bits, i)
		                        : mxfp_minifloat_encode(b->element, b->x[i], (int)b->theirs - BIAS,
		                                                &b->rounding, 0, &counts);
		int excuse = excuse_code(b, b->x[i], ours, theirs[i]);

		agreed[i] = excuse != VECTOR_NO_EXCUSE ? theirs[i] : ours;
		vectors_compare(b->set, b->c,
		                &(struct vector_pair){b->row * LENGTH + i, b->x[i], ours, theirs[i], excuse});
	}
}

/* 4-bit codes in bytes: element 2i in the low nibble; in GGUF, behind the scale, element i below and i + 16
   above. */
static void compare_bytes(struct block *b, const struct outputs *theirs, const uint32_t *codes)
{
	size_t half = LENGTH / 2, packed_at = b->row * half, gguf_at = b->row * GGUF_BYTES;

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
static void compare_values(struct block *b, const struct outputs *theirs)
{
	const uint32_t *codes = theirs->codes.at + b->row * LENGTH;
	const uint32_t *values = theirs->values.at + b->row * LENGTH;
	uint8_t packed[LENGTH] = {0}, scale = (uint8_t)b->theirs;
	uint32_t ours[LENGTH];
	struct mxfp_blocks blocks = {
		.format = vectors_format(b->c), .rows = 1, .cols = LENGTH, .codes = packed, .scales = &scale};

	for (size_t bit = 0; bit < LENGTH * b->element->bits; bit++)
		packed[bit / 8] |=
			(uint8_t)((codes[bit / b->element->bits] >> bit % b->element->bits & 1) << bit % 8);
	ck_assert_int_eq(mxfp_dequantize(&blocks, ours, MXFP_FORMAT_F32, 0, NULL), MXFP_OK);
	for (size_t i = 0; i < LENGTH; i++) {
		bool nan = (values[i] & ~SIGN) > INF;
		int excuse = VECTOR_NO_EXCUSE;

		/* 15: "whole block NaN for NaN; FLT_MAX block -> NaN/0xEE under RNE (scale one too high, then
		   2**128)". */
		if (codes[i] == NOT_RUN &&
		    (nan || ((b->x[i] & ~SIGN) == 0x7F7FFFFF && (values[i] & ~SIGN) == INF)))
			excuse = 15;
		/* The notes: codes are found by the number, and -0 has that of the one zero of int8. */
		if (b->element->format == MXFP_FORMAT_INT8 && codes[i] == 0 && values[i] == SIGN)
			excuse = VECTOR_NOTES;
		/* 10: a wrapped scale 255 "is NaN in OCP MX but 2^127 in ggml". */
		if (is_ggml(b->c) && scale == 0xFF && codes[i] == 0 && values[i] == 0)
			excuse = 10;
		vectors_compare(
			b->set, b->c,
			&(struct vector_pair){b->row * LENGTH + i, codes[i], ours[i], values[i], excuse});
	}
}

static void compare_block(struct block *b, const struct outputs *theirs, const uint8_t *packed)
{
	uint32_t agreed[LENGTH];

	b->theirs = theirs->scales.at[b->row];
	int excuse = excuse_scale(b);
	vectors_compare(b->set, b->c, &(struct vector_pair){b->row, b->amax, b->ours, b->theirs, excuse});
	if (theirs->values.n != 0)
		compare_values(b, theirs);
	/* The codes of a block that is NaN are unspecified. ggml's 255 is a number, and so its codes are
	   compared. */
	if (b->theirs == 0xFF && !is_ggml(b->c))
		return;
	compare_codes(b, theirs->codes.at + b->row * LENGTH, packed, agreed);
	compare_bytes(b, theirs, agreed);
}

/* 12: "ggml with NaN/Inf in the block: NaN skipped in the maximum (no 0xFF); one Inf -> scale 0 ...; gguf-py
   was fed zeros instead": the block is compared with what the library makes of it with zeros for NaN, or of a
   block of zeros. */
static void compare_block_without_non_finite(struct block *b, const struct outputs *theirs,
                                             const struct mxfp_quantize_options *options)
{
	uint32_t x[LENGTH];
	uint8_t packed[LENGTH / 2], scale;
	struct mxfp_blocks blocks = {
		.format = MXFP_FORMAT_MXFP4, .rows = 1, .cols = LENGTH, .codes = packed, .scales = &scale};
	bool all_zero = b->has_inf && vectors_by(b->c, "libggml");

	for (size_t i = 0; i < LENGTH; i++)
		x[i] = all_zero || (b->x[i] & ~SIGN) >= INF ? 0 : b->x[i];
	ck_assert_int_eq(mxfp_quantize(&blocks, x, MXFP_FORMAT_F32, 0, options), MXFP_OK);
	load_block(b, x, b->row);
	b->ours = scale;
	b->set->n_excused[12]++;
	compare_block(b, theirs, packed);
}

static struct outputs load_outputs(const struct vector_set *set, const struct vector_case *c)
{
	return (struct outputs){
		.codes = vectors_output(set, c, "codes"),
		.scales = vectors_output(set, c, "scales"),
		.packed = vectors_output(set, c, "packed"),
		.values = vectors_output(set, c, "values"),
		.gguf_blocks = vectors_output(set, c, "gguf_blocks"),
	};
}

static void free_outputs(struct outputs *o)
{
	free(o->codes.at);
	free(o->scales.at);
	free(o->packed.at);
	free(o->values.at);
	free(o->gguf_blocks.at);
}

void vectors_run_mx_block(struct vector_set *set, struct vector_case *c)
{
	struct vector_array input = vectors_input(set, c->input);
	const struct mxfp_quantize_options options = options_of(c);
	struct mxfp_blocks blocks = {.format = vectors_format(c), .rows = input.rows, .cols = LENGTH};
	struct outputs theirs = load_outputs(set, c);
	struct mxfp_sizes size;
	struct block b = {.set = set, .c = c};

	ck_assert_uint_eq(input.cols, LENGTH);
	ck_assert_int_eq(mxfp_blocks_size(blocks.format, blocks.rows, blocks.cols, &size), MXFP_OK);
	uint8_t *codes = malloc(size.codes_bytes), *scales = malloc(size.scales_bytes);
	blocks.codes = codes;
	blocks.scales = scales;
	ck_assert_int_eq(mxfp_quantize(&blocks, input.at, MXFP_FORMAT_F32, 0, &options), MXFP_OK);
	b.element = mxfp_format_info(mxfp_format_info(blocks.format)->element);
	b.rounding =
		(struct mxfp_rounding){.mode = options.round, .no_negative_zero = options.no_negative_zero};
	for (size_t row = 0; row < input.rows; row++) {
		load_block(&b, input.at + row * LENGTH, row);
		b.ours = scales[row];
		if (is_ggml(c) && (b.has_nan || b.has_inf))
			compare_block_without_non_finite(&b, &theirs, &options);
		else
			compare_block(&b, &theirs, codes + row * size.codes_row_bytes);
	}
	free(codes);
	free(scales);
	free(input.at);
	free_outputs(&theirs);
}

/* Only scales, as float32 exponents that have not been clamped. "Blocks whose amax is 0/NaN/Inf were run with
   amax=1." */
void vectors_run_mx_scale(struct vector_set *set, struct vector_case *c)
{
	struct vector_array input = vectors_input(set, c->input), values = vectors_output(set, c, "values");
	const struct mxfp_format_info *format = mxfp_format_info(vectors_format(c));
	struct block b = {.set = set, .c = c, .element = mxfp_format_info(format->element)};

	for (size_t row = 0; row < input.rows; row++) {
		float theirs;
		int excuse = VECTOR_NO_EXCUSE;

		load_block(&b, input.at + row * LENGTH, row);
		memcpy(&theirs, &values.at[row], sizeof theirs);
		uint32_t amax = b.amax == 0 || b.amax >= INF ? 0x3F800000 : b.amax;
		uint32_t ours = (uint32_t)(mxfp_ref_scale(rule_of(c), b.element, amax) + BIAS);
		/* 13: 1.75 * 2^127 and more, which "rounds to 2^128", has no finite exponent. Subnormals,
		   which the item gives -inf, and other small numbers get the lowest byte here. */
		if (amax >= 0x7F600000 && isinf(theirs) && theirs > 0)
			excuse = 13;
		uint32_t clamped = theirs < 0 ? 0 : theirs < 255 ? (uint32_t)theirs : 255;
		vectors_compare(set, c, &(struct vector_pair){row, amax, ours, clamped, excuse});
	}
	free(input.at);
	free(values.at);
}
