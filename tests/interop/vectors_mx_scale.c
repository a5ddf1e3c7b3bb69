/* SPDX-License-Identifier: MIT */
/* The scales of blocks of 32, and cases of the kind `mx-scale`, which have nothing else. */
#include <check.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"
#include "interop/vectors_mx.h"

bool vectors_by_ggml(const struct vector_case *c)
{
	return vectors_by(c, "libggml") || vectors_by(c, "gguf-py");
}

bool vectors_by_microxcaling(const struct vector_case *c)
{
	return vectors_by(c, "microsoft/microxcaling");
}

bool vectors_by_mlx(const struct vector_case *c)
{
	return vectors_by(c, "ml-explore/mlx");
}

enum mxfp_rule vectors_rule(const struct vector_case *c)
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
		{"RNE", MXFP_RULE_RNE},
		{"LOG_NEAREST", MXFP_RULE_LOG_NEAREST},
	};

	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
		if (strncmp(c->scale_rule, rules[i].theirs, strlen(rules[i].theirs)) == 0)
			return rules[i].ours;
	ck_abort_msg("%s: unknown rule %s", c->name, c->scale_rule);
	return MXFP_RULE_MSE;
}

void vectors_load_block(struct vector_block *b, const uint32_t *x, size_t row)
{
	b->row = row;
	b->x = x;
	b->amax = 0;
	b->has_nan = b->has_inf = false;
	for (size_t i = 0; i < VECTOR_BLOCK; i++) {
		uint32_t magnitude = b->x[i] & ~MXFP_F32_SIGN;

		b->has_nan = b->has_nan || magnitude > MXFP_F32_INF;
		b->has_inf = b->has_inf || magnitude == MXFP_F32_INF;
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
static bool rounds_past_binary32(const struct vector_block *b)
{
	return b->amax < MXFP_F32_INF && b->amax >= MXFP_F32_INF - (UINT32_C(1) << (22 - b->element->significand_bits));
}

static int float32_scale(const struct vector_block *b)
{
	return floor_log2f(b->amax) - b->element->emax + VECTOR_BIAS;
}

/* 9. */
static bool one_too_high(const struct vector_block *b)
{
	return b->theirs == b->ours + 1 && (int)b->theirs == float32_scale(b);
}

static int excuse_ggml_scale(const struct vector_block *b)
{
	/* 10: "ggml/gguf-py do not clamp the MXFP4 scale: amax < 2^-125 wraps modulo 256". */
	if (b->amax != 0 && b->amax < 0x01000000 && b->theirs == (uint8_t)float32_scale(b))
		return 10;
	return one_too_high(b) ? 9 : VECTOR_NO_EXCUSE;
}

/* 21: torchao's RCEIL is "ceil(log2(amax / largest)), quotient and logarithm in float32": one too low where the
   logarithm is rounded down to a whole number. */
static bool log2_rounds_down(const struct vector_block *b)
{
	float amax, largest;
	uint32_t bits = vectors_decode_code(b->element->format, b->element->max_code);

	memcpy(&amax, &b->amax, sizeof amax);
	memcpy(&largest, &bits, sizeof largest);
	float quotient = amax / largest, logarithm = (float)log2((double)quotient);
	return b->theirs + 1 == b->ours && ceilf(logarithm) <= (float)((int)b->theirs - VECTOR_BIAS) &&
	       ceilf(logarithm) >= (float)((int)b->theirs - VECTOR_BIAS);
}

static int excuse_torchao_scale(const struct vector_block *b)
{
	bool rceil = vectors_rule(b->c) == MXFP_RULE_RCEIL;

	if (vectors_rule(b->c) == MXFP_RULE_EVEN && rounds_past_binary32(b) && b->theirs == 0xFF)
		return 13;
	/* 22: "a block with Inf, without NaN, is scaled as one of amax 2^128, with RCEIL by FE". */
	if (b->has_inf && !b->has_nan && (int)b->theirs == (rceil ? 0xFE : 128 - b->element->emax + VECTOR_BIAS))
		return 22;
	return rceil && log2_rounds_down(b) ? 21 : VECTOR_NO_EXCUSE;
}

/* The quotient of amax and the largest element, as binary32 has it. */
static float quotient_of(const struct vector_block *b)
{
	float amax, largest;
	uint32_t bits = vectors_decode_code(b->element->format, b->element->max_code);

	memcpy(&amax, &b->amax, sizeof amax);
	memcpy(&largest, &bits, sizeof largest);
	return amax / largest;
}

static int excuse_mlx_scale(const struct vector_block *b)
{
	float quotient = quotient_of(b);
	int n;

	/* 27: "a block of zeros, or whose quotient is 0, has scale 7F". */
	if (quotient <= 0)
		return b->theirs == VECTOR_BIAS ? 27 : VECTOR_NO_EXCUSE;
	if (vectors_rule(b->c) == MXFP_RULE_RCEIL)
		n = frexpf(quotient, &n) > 0.5F ? n : n - 1;
	else
		n = isfinite(quotient) ? (int)roundf(log2f(quotient)) : INT_MIN; /* what x86 converts Inf and NaN to */
	if (b->theirs != (uint8_t)(n + VECTOR_BIAS))
		return VECTOR_NO_EXCUSE;
	/* 26: "not clamped, scales below 2^-127 wrap modulo 256"; 28: "the quotient is subnormal and rounded". */
	return n < -VECTOR_BIAS ? 26 : quotient < 0x1p-126F ? 28 : VECTOR_NO_EXCUSE;
}

int vectors_excuse_scale(const struct vector_block *b)
{
	if (vectors_by_ggml(b->c))
		return excuse_ggml_scale(b);
	if (vectors_by_microxcaling(b->c)) {
		/* 14: "Zero block: microxcaling shared exponent 1". */
		if (b->element->format == MXFP_FORMAT_INT8 && b->amax == 0 && b->theirs == 1)
			return 14;
		return one_too_high(b) ? 9 : VECTOR_NO_EXCUSE;
	}
	if (vectors_by_mlx(b->c))
		return excuse_mlx_scale(b);
	return vectors_by(b->c, "pytorch/ao") ? excuse_torchao_scale(b) : VECTOR_NO_EXCUSE;
}

/* Only scales, as float32 exponents that have not been clamped. "Blocks whose amax is 0/NaN/Inf were run with
   amax=1." */
void vectors_run_mx_scale(struct vector_set *set, struct vector_case *c)
{
	struct vector_array input = vectors_input(set, c->input), values = vectors_output(set, c, "values");
	const struct mxfp_format_info *format = mxfp_format_get_info(vectors_format(c));
	struct vector_block b = {.set = set, .c = c, .element = mxfp_format_get_info(format->element)};

	for (size_t row = 0; row < input.rows; row++) {
		float theirs;
		int excuse = VECTOR_NO_EXCUSE;

		vectors_load_block(&b, input.at + row * VECTOR_BLOCK, row);
		memcpy(&theirs, &values.at[row], sizeof theirs);
		uint32_t amax = b.amax == 0 || b.amax >= MXFP_F32_INF ? 0x3F800000 : b.amax;
		uint32_t ours = (uint32_t)(mxfp_ref_scale(vectors_rule(c), b.element, amax) + VECTOR_BIAS);
		/* 13: 1.75 * 2^127 and more, which "rounds to 2^128", has no finite exponent. Subnormals,
		   which the item gives -inf, and other small numbers get the lowest byte here. */
		if (amax >= 0x7F600000 && isinf(theirs) && theirs > 0)
			excuse = 13;
		uint32_t clamped = theirs < 0 ? 0 : theirs < 255 ? (uint32_t)theirs : 255;
		/* 8: from 2^-127 + 1 ulp on "ml_dtypes and torch 01, we the nearest", and "0: ml_dtypes FF", which a
		   quotient may round to. */
		const float quotient = quotient_of(&b);
		if (vectors_rule(c) == MXFP_RULE_RNE &&
		    ((quotient > 0x1p-127F && quotient < 0x1p-126F && clamped == 1) || (quotient <= 0 && clamped == 0xFF)))
			excuse = 8;
		ck_assert_msg(isinf(theirs) || memcmp(&theirs, &(float){truncf(theirs)}, sizeof theirs) == 0,
		              "%s[%zu]: %.9g is no whole number", c->name, row, (double)theirs);
		vectors_compare(set, c, &(struct vector_pair){row, amax, ours, clamped, excuse});
	}
	free(input.at);
	free(values.at);
}
