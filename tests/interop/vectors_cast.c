/* SPDX-License-Identifier: MIT */
/* Cases of the kinds `cast` (codes) and `cast-values` (the codes' values in binary32): single numbers. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interop/vectors.h"
#include "minifloat.h"

static const struct mxfp_exec one_thread = {.size = sizeof one_thread, .threads = 1};

/* One element of a cast: what is converted, and how. */
struct cast {
	const struct vector_case *c;
	const struct mxfp_format_info *format;
	enum mxfp_round round;
	uint32_t x, ours, theirs; /* x in binary32; the others codes, or values in binary32 */
};

static bool is_nan(uint32_t f32)
{
	return (f32 & ~MXFP_F32_SIGN) > MXFP_F32_INF;
}

static enum mxfp_round round_of(const struct vector_case *c)
{
	/* e8m0: "nearest, ties up" and "ceil". */
	if (strncmp(c->rounding, "nearest", 7) == 0)
		return MXFP_ROUND_RNE;
	if (strcmp(c->rounding, "ceil") == 0)
		return MXFP_ROUND_RTP;
	return vectors_round(c);
}

/* README items 1, 2 and 8 say who overflows where the case has no "saturate". */
static enum mxfp_overflow overflow_of(const struct vector_case *c, enum mxfp_format format)
{
	bool overflows = c->overflows || vectors_by(c, "ml_dtypes") ||
	                 (vectors_by(c, "torch") && format != MXFP_FORMAT_E4M3) ||
	                 (vectors_by(c, "pytorch/ao") && format == MXFP_FORMAT_E8M0);

	return overflows ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT;
}

/* The code the library gives x in the cast's mode. */
static uint32_t code_of(const struct cast *k, uint32_t x)
{
	const struct mxfp_convert_options options = {
		.size = sizeof options, .round = k->round, .overflow = overflow_of(k->c, k->format->format)};
	uint8_t code = 0;

	if (mxfp_convert_array(&code, k->format->format, &x, MXFP_FORMAT_F32, 1, &options, &one_thread) != MXFP_OK)
		ck_abort_msg("%s: cannot convert", k->c->name);
	return code;
}

static float to_float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/* 4: "NaN: e4m3 keeps sign in ml_dtypes and torch, gfloat always 0xff. ... fp6/fp4 have no NaN: ml_dtypes
   gives -0, torchao 0xc / 0xe / 0x3 ... Treat as unspecified." Where the format has a NaN, theirs must be
   one. */
static int excuse_nan_code(const struct cast *k)
{
	if (k->format->special == MXFP_SPECIAL_NONE)
		return 4;
	return is_nan(vectors_decode_code(k->format->format, k->theirs)) ? 4 : VECTOR_NO_EXCUSE;
}

/* The exponent byte of the largest power of two that is at most x > 0, without an end of the range. */
static int exponent_byte(uint32_t x)
{
	int exponent;

	frexpf(to_float(x), &exponent);
	return exponent - 1 + 127;
}

/* 1.5 * 2^k, as normal numbers, and as a subnormal where 2^-127 has a successor. */
static bool is_tie(uint32_t magnitude)
{
	return magnitude >= 0x00800000 ? (magnitude & 0x007FFFFF) == 0x00400000 : magnitude == 0x00600000;
}

/* 8, except ties up, which is rne here too. */
static int excuse_e8m0(const struct cast *k)
{
	uint32_t magnitude = k->x & ~MXFP_F32_SIGN;
	bool torch = vectors_by(k->c, "torch") || vectors_by(k->c, "pytorch/ao");
	bool gfloat = vectors_by(k->c, "graphcore");

	/* "Negative: ml_dtypes 0xff, torch ignores the sign": as |x|, with what else item 8 says of that. */
	if (k->x > MXFP_F32_SIGN && torch && k->ours == 0xFF) {
		const struct cast without_sign = {
			k->c, k->format, k->round, magnitude, code_of(k, magnitude), k->theirs};

		return without_sign.ours == k->theirs ? 8 : excuse_e8m0(&without_sign);
	}
	/* "Zero: ml_dtypes 0xff, torch 0x00." */
	if (magnitude == 0 && vectors_by(k->c, "ml_dtypes") && k->theirs == 0xFF)
		return 8;
	/* "ml_dtypes and torch round what lies between 2^-127 and 1.5*2^-127 up to 0x01." */
	if (magnitude > 0x00400000 && magnitude < 0x00600000 && k->theirs == 0x01 && k->ours == 0x00 &&
	    !gfloat && k->round == MXFP_ROUND_RNE)
		return 8;
	/* "ties 1.5*2^k go ... to the even code in gfloat": the lower code, where that is even. */
	if (gfloat && k->round == MXFP_ROUND_RNE && is_tie(magnitude) && k->theirs % 2 == 0 &&
	    k->theirs + 1 == k->ours)
		return 8;
	/* "Below 2^-127: gfloat encode wraps (2^-149 -> 0xea, a bug)." */
	int low = magnitude != 0 ? exponent_byte(magnitude) : 0;
	if (gfloat && k->x < 0x00400000 && low < 0 &&
	    (k->theirs == (uint8_t)low || k->theirs == (uint8_t)(low + 1)))
		return 8;
	return VECTOR_NO_EXCUSE;
}

/* A finite x that the case's "saturate": true keeps finite in bf16 and f16, and Inf with it: these always
   overflow here. */
static bool saturated_wide(const struct cast *k)
{
	return k->format->storage_bytes == 2 && vectors_by(k->c, "graphcore") && !k->c->overflows &&
	       (k->ours & 0x7FFF) == k->format->max_code + 1 && k->theirs + 1 == k->ours;
}

static int excuse_code(const struct cast *k)
{
	bool gfloat = vectors_by(k->c, "graphcore");

	/* The notes: "0xEE = input NaN/Inf not run", for e8m0 "only positive finite inputs meaningful; 0xEE =
	   not run". */
	bool meaningless = (k->x & ~MXFP_F32_SIGN) >= MXFP_F32_INF ||
	                   (k->format->format == MXFP_FORMAT_E8M0 && (k->x == 0 || k->x >= MXFP_F32_SIGN));
	if (gfloat && meaningless && k->theirs == 0xEE && k->format->bits <= 8)
		return VECTOR_NOT_RUN;
	if (is_nan(k->x))
		return excuse_nan_code(k);
	if (k->format->format == MXFP_FORMAT_E8M0)
		return excuse_e8m0(k);
	if (saturated_wide(k))
		return VECTOR_NOTES;
	/* 4: "gfloat always 0xff", for the NaN that e4m3 overflows to as well. */
	if (gfloat && k->format->format == MXFP_FORMAT_E4M3 && k->ours == 0x7F && k->theirs == 0xFF)
		return 4;
	/* 14: "gfloat uses -128": for all that rounds to it, and past it. */
	if (gfloat && k->format->format == MXFP_FORMAT_INT8 && k->theirs == 0x80 &&
	    to_float(k->x) <= (k->round == MXFP_ROUND_RTN ? nextafterf(-127.0f / 64, -2) : -127.5f / 64))
		return 14;
	return VECTOR_NO_EXCUSE;
}

/* 3: "onnxruntime saturate=0 is wrong between the tie and the next step: e4m3 480..495 -> 448 (should be
   NaN); e5m2 61440..65535 -> NaN (should be Inf)." */
static bool onnxruntime_near_overflow(const struct cast *k)
{
	float x = fabsf(to_float(k->x)), theirs = fabsf(to_float(k->theirs));

	if (!vectors_by(k->c, "onnxruntime") || !k->c->overflows)
		return false;
	if (k->format->format == MXFP_FORMAT_E4M3)
		return x >= 480 && x < 496 && theirs >= 448 && theirs <= 448;
	return x >= 61440 && x < 65536 && is_nan(k->theirs);
}

/* 6, under RNE and RNA: "the float just below half the smallest subnormal rounds UP". */
static bool half_ulp_bug(const struct vector_rounding *r)
{
	float smallest = to_float(vectors_decode_code(r->format->format, 1)), theirs = to_float(r->theirs);

	return r->round != MXFP_ROUND_RTZ && fabsf(r->x) >= nextafterf(smallest / 2, 0) &&
	       fabsf(r->x) < smallest / 2 && theirs >= copysignf(smallest, r->x) &&
	       theirs <= copysignf(smallest, r->x);
}

/* 7: "RTZ: x = 2^k - 1 ulp goes one binade step too low when log2f rounds up": x is cut to the step of the
   next binade. */
static bool next_binade_bug(const struct vector_rounding *r)
{
	uint32_t kept = UINT32_C(0x00800000) - (UINT32_C(1) << (24 - r->format->significand_bits)), x;

	memcpy(&x, &r->x, sizeof x);
	return r->round == MXFP_ROUND_RTZ && (x & 0x007FFFFF) == 0x007FFFFF &&
	       r->theirs == (x & (0xFF800000 | kept));
}

int vectors_excuse_microxcaling(const struct vector_rounding *r)
{
	return half_ulp_bug(r) ? 6 : next_binade_bug(r) ? 7 : VECTOR_NO_EXCUSE;
}

static int excuse_microxcaling(const struct cast *k)
{
	/* The notes: "+-Inf and NaN pass through". */
	if ((k->x & ~MXFP_F32_SIGN) == MXFP_F32_INF && k->theirs == k->x)
		return VECTOR_NOTES;
	/* 7: "FLT_MAX -> NaN (2**128)". */
	if ((k->x & ~MXFP_F32_SIGN) == 0x7F7FFFFF && is_nan(k->theirs))
		return 7;
	return vectors_excuse_microxcaling(
		&(struct vector_rounding){k->format, k->round, to_float(k->x), k->theirs});
}

static int excuse_value(const struct cast *k)
{
	bool microxcaling = vectors_by(k->c, "microsoft/microxcaling");

	if (is_nan(k->x))
		return is_nan(k->theirs) ? 4 : VECTOR_NO_EXCUSE; /* 4: unspecified */
	/* 4 again: the NaN that finite numbers overflow to. */
	if (is_nan(k->ours) && is_nan(k->theirs))
		return 4;
	/* 5: "microxcaling and compressed-tensors return +0 for an input of -0". */
	if (k->x == MXFP_F32_SIGN && k->theirs == 0 && (microxcaling || vectors_by(k->c, "vllm-project")))
		return 5;
	if (onnxruntime_near_overflow(k))
		return 3;
	return microxcaling ? excuse_microxcaling(k) : VECTOR_NO_EXCUSE;
}

/* Converts the input and returns codes widened to 32 bits, or with `values` their values; the caller frees
   them. */
static uint32_t *convert(const struct vector_case *c, const struct vector_array *input, bool values)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(vectors_format(c));
	const struct mxfp_convert_options options = {
		.size = sizeof options, .round = round_of(c), .overflow = overflow_of(c, format->format)};
	uint8_t *codes = malloc(input->n * format->storage_bytes);
	uint32_t *out = calloc(input->n, sizeof *out);

	ck_assert_int_eq(mxfp_convert_array(codes, format->format, input->at, MXFP_FORMAT_F32, input->n, &options, &one_thread),
	                 MXFP_OK);
	if (values)
		ck_assert_int_eq(mxfp_convert_array(out, MXFP_FORMAT_F32, codes, format->format, input->n, NULL, &one_thread),
		                 MXFP_OK);
	for (size_t i = 0; i < input->n && !values; i++) {
		uint16_t half;

		memcpy(&half, codes + i * format->storage_bytes, format->storage_bytes);
		out[i] = format->storage_bytes == 1 ? codes[i] : half;
	}
	free(codes);
	return out;
}

/* Compares the codes of a case's output, or with `values` the values. */
static void compare(struct vector_set *set, struct vector_case *c, struct vector_array output, bool values)
{
	struct vector_array input = vectors_input(set, c->input);
	uint32_t *ours = convert(c, &input, values);
	struct cast cast = {c, mxfp_format_get_info(vectors_format(c)), round_of(c), 0, 0, 0};

	/* Some were run for values on the first 40,000 inputs only, as their notes say. */
	ck_assert_uint_le(output.n, input.n);
	ck_assert(values || output.n == input.n);
	for (size_t i = 0; i < output.n; i++) {
		cast.x = input.at[i];
		cast.ours = ours[i];
		cast.theirs = output.at[i];
		vectors_compare(set, c, &(struct vector_pair){i, cast.x, ours[i], output.at[i],
		                                              values ? excuse_value(&cast) : excuse_code(&cast)});
	}
	free(input.at);
	free(output.at);
	free(ours);
}

void vectors_run_cast(struct vector_set *set, struct vector_case *c)
{
	if (vectors_format(c) == MXFP_FORMAT_UE4M3)
		vectors_run_ue4m3(set, c);
	else
		compare(set, c, vectors_output(set, c, "codes"), false);
}

void vectors_run_cast_values(struct vector_set *set, struct vector_case *c)
{
	compare(set, c, vectors_output(set, c, "values"), true);
}
