/* SPDX-License-Identifier: MIT */
#include "oracle/oracle_nvfp4.h"
#include "oracle/oracle_mx.h"

#include <string.h>

#include "mxfp/philox.h"

/* Any NVFP4 scale that is not NaN is below this. */
enum { SCALE_NAN = 0x7F };

static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE}, rna = {.mode = MXFP_ROUND_RNA};

typedef int mpfr_operation(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

static uint32_t operate(mpfr_operation *operation, uint32_t a, uint32_t b)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);
	MPFR_DECL_INIT(result, 24);

	oracle_set_f32(x, a);
	oracle_set_f32(y, b);
	oracle_f32_begin();
	int ternary = operation(result, x, y, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(result, ternary);
	oracle_f32_end();
	return bits;
}

static uint32_t mul(uint32_t a, uint32_t b)
{
	return operate(mpfr_mul, a, b);
}

static uint32_t div(uint32_t a, uint32_t b)
{
	return operate(mpfr_div, a, b);
}

static uint32_t sub(uint32_t a, uint32_t b)
{
	return operate(mpfr_sub, a, b);
}

static uint32_t add(uint32_t a, uint32_t b)
{
	return operate(mpfr_add, a, b);
}

/* A small rational as binary32: 2688, 1/6, 2^-6. */
static uint32_t number(long numerator, unsigned long denominator)
{
	MPFR_DECL_INIT(x, 24);

	mpfr_set_si(x, numerator, MPFR_RNDN);
	oracle_f32_begin();
	int ternary = mpfr_div_ui(x, x, denominator, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(x, ternary);
	oracle_f32_end();
	return bits;
}

static uint32_t power(int exponent)
{
	MPFR_DECL_INIT(x, 24);

	return oracle_f32_bits(x, mpfr_set_ui_2exp(x, 1, exponent, MPFR_RNDN));
}

/* a < b; false if one is NaN. */
static bool less(uint32_t a, uint32_t b)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(x, a);
	oracle_set_f32(y, b);
	return mpfr_less_p(x, y) != 0;
}

static bool is_zero(uint32_t x)
{
	return (x & ~F32_SIGN) == 0;
}

/* torch.clamp and fminf as their callers here need them: NaN stays. */
static uint32_t clamp(uint32_t x, uint32_t low, uint32_t high)
{
	return less(x, low) ? low : less(high, x) ? high : x;
}

void oracle_nvfp4_init(struct oracle_nvfp4 *o)
{
	oracle_init(&o->e2m1, MXFP_FORMAT_E2M1);
	oracle_init(&o->ue4m3, MXFP_FORMAT_UE4M3);
}

void oracle_nvfp4_clear(struct oracle_nvfp4 *o)
{
	oracle_clear(&o->e2m1);
	oracle_clear(&o->ue4m3);
}

static uint8_t to_scale(const struct oracle_nvfp4 *o, uint32_t x, const struct mxfp_rounding *rounding)
{
	struct mxfp_counts counts = {.size = sizeof counts};

	return (uint8_t)oracle_encode(&o->ue4m3, x, 0, rounding, 0, &counts);
}

static uint32_t value_of_scale(const struct oracle_nvfp4 *o, uint8_t scale)
{
	return oracle_decode(o->ue4m3.format, scale);
}

/* Transformer Engine, compute_global_encode_scaling_factor_FP4(): full_range / amax, at most FLT_MAX; 1 where
   the amax or the result is 0. */
static uint32_t encode_scale(const struct oracle_nvfp4 *o, uint32_t amax)
{
	uint32_t full_range = number(o->recipe == MXFP_RECIPE_4OVER6 ? 6 * 256 : 6 * 448, 1);
	uint32_t scale = is_zero(amax) ? 0 : clamp(div(full_range, amax), 0, F32_MAX);

	return is_zero(scale) ? number(1, 1) : scale;
}

uint32_t oracle_nvfp4_tensor_scale(const struct oracle_nvfp4 *o, uint32_t amax, bool *divides)
{
	uint32_t gs;

	*divides = o->recipe == MXFP_RECIPE_COMPRESSED_TENSORS;
	if (is_zero(amax) || o->recipe == MXFP_RECIPE_TORCHAO_1 || o->recipe == MXFP_RECIPE_GGML)
		return number(1, 1);
	if (o->recipe == MXFP_RECIPE_4OVER6)
		return div(amax, number(1536, 1));
	if (o->recipe == MXFP_RECIPE_MODELOPT_4OVER6)
		return clamp(div(amax, number(1536, 1)), power(-140), F32_MAX);
	if (o->recipe != MXFP_RECIPE_COMPRESSED_TENSORS) {
		uint32_t g = div(amax, number(2688, 1)), least = power(o->recipe == MXFP_RECIPE_TORCHAO ? -121 : -140);
		return o->recipe == MXFP_RECIPE_TE ? g : clamp(g, least, F32_MAX);
	}
	/* compressed-tensors, generate_gparam(): a number over a tensor is the number times the reciprocal;
	   nan_to_num() turns Inf to 1. */
	gs = mul(number(2688, 1), div(number(1, 1), amax));
	return gs == F32_INF ? number(1, 1) : gs;
}

/* ggml_fp32_to_ue4m3(). */
static uint8_t ggml_scale(const struct oracle_nvfp4 *o, uint32_t v)
{
	MPFR_DECL_INIT(units, 24);

	if (!less(v, number(248, 1)))
		return 0x7E;
	if (!less(v, number(1, 64)))
		return to_scale(o, v, &rna);
	oracle_set_f32(units, add(mul(number(512, 1), v), number(1, 2)));
	unsigned long n = mpfr_get_ui(units, MPFR_RNDZ);
	return (uint8_t)(n < 7 ? n : 7);
}

/* The scale byte of a block; 4over6: of the candidate whose largest element becomes 6 (expand false) or 4. */
static uint8_t block_scale(const struct oracle_nvfp4 *o, uint32_t tensor_amax, uint32_t amax, bool expand)
{
	bool divides;
	uint32_t g = oracle_nvfp4_tensor_scale(o, tensor_amax, &divides), six = number(6, 1), x;

	switch (o->recipe) {
	case MXFP_RECIPE_TE:
	case MXFP_RECIPE_4OVER6:
		x = mul(amax, mul(encode_scale(o, tensor_amax), number(1, 6)));
		return to_scale(o, expand ? mul(x, number(3, 2)) : x, &rne);
	case MXFP_RECIPE_TORCHAO:
		return to_scale(o, clamp(div(div(amax, six), g), number(1, 64), number(448, 1)), &rne);
	case MXFP_RECIPE_TORCHAO_1:
		return to_scale(o, clamp(div(amax, six), number(1, 64), number(448, 1)), &rne);
	case MXFP_RECIPE_COMPRESSED_TENSORS:
		x = to_scale(o, mul(g, div(amax, six)), &rne);
		return x == 0 ? to_scale(o, number(1, 8), &rne) : (uint8_t)x;
	case MXFP_RECIPE_MODELOPT:
		x = div(amax, mul(six, g));
		return to_scale(o, is_zero(x) ? number(1, 1) : x, &rne);
	case MXFP_RECIPE_MODELOPT_0_45: /* _cast_per_block_scale_to_fp8() */
		x = div(amax, mul(six, g));
		return to_scale(o, clamp(is_zero(x) ? number(1, 1) : x, number(1, 512), number(448, 1)), &rne);
	case MXFP_RECIPE_MODELOPT_4OVER6: /* get_weights_scaling_factor_from_quantizer(), static: amax was multiplied before */
		x = div(expand ? mul(amax, number(3, 2)) : amax, six);
		x = mul(is_zero(x) ? number(1, 1) : x, number(256, 1));
		/* The package has 256 / 0 for an amax of 0, beside a tensor scale of 0: section 4 has that of a scale of 1. */
		x = div(x, is_zero(tensor_amax) ? number(256, 1) : div(tensor_amax & ~F32_SIGN, six));
		return to_scale(o, clamp(x, number(1, 512), number(448, 1)), &rne);
	case MXFP_RECIPE_GGML:
		break;
	}
	return ggml_scale(o, div(amax, six));
}

/* What is rounded to e2m1. */
static uint32_t quotient(const struct oracle_nvfp4 *o, uint32_t tensor_amax, uint8_t scale, uint32_t x)
{
	bool divides;
	uint32_t g = oracle_nvfp4_tensor_scale(o, tensor_amax, &divides), sf = value_of_scale(o, scale);
	uint32_t one = number(1, 1), q;

	switch (o->recipe) {
	case MXFP_RECIPE_TORCHAO:
		return mul(x, div(div(one, g), sf));
	case MXFP_RECIPE_TORCHAO_1:
		return mul(x, div(one, sf));
	case MXFP_RECIPE_COMPRESSED_TENSORS: /* round(|q|) * sign(q), and sign(-0) is 0 */
		q = div(x, div(sf, g));
		return is_zero(q) ? 0 : q;
	case MXFP_RECIPE_MODELOPT:
	case MXFP_RECIPE_MODELOPT_0_45:
	case MXFP_RECIPE_MODELOPT_4OVER6: /* the sign is q < 0 */
		q = div(x, mul(sf, g));
		return is_zero(q) ? 0 : q;
	default:
		q = div(one, mul(sf, div(one, encode_scale(o, tensor_amax))));
		return mul(x, clamp(q, 0, F32_MAX));
	}
}

/* The first code of the table with the least |code * sf - x|, as binary32 has it. */
static uint8_t ggml_code(const struct oracle_nvfp4 *o, uint8_t scale, uint32_t x)
{
	uint32_t best = F32_INF;
	uint8_t code = 0;

	for (uint8_t i = 0; i < 16; i++) {
		uint32_t product = mul(oracle_decode(o->e2m1.format, i), value_of_scale(o, scale));
		uint32_t distance = sub(product, x) & ~F32_SIGN;

		if (less(distance, best)) {
			best = distance;
			code = i;
		}
	}
	return code;
}

static uint8_t code_of(const struct oracle_nvfp4 *o, uint32_t tensor_amax, uint8_t scale, uint32_t x,
                       const struct mxfp_rounding *rounding, uint32_t random, struct mxfp_counts *counts)
{
	if (o->recipe == MXFP_RECIPE_GGML)
		return ggml_code(o, scale, x);
	return (uint8_t)oracle_encode(&o->e2m1, quotient(o, tensor_amax, scale, x), 0, rounding, random, counts);
}

/* Section 4: y = fl32(x * S_enc), d = fl32(y - code * sf), or of modelopt-4over6 fl32(x - code * (sf * g)), summed as
   section 3 says for a block of 16. */
static uint32_t candidate_error(const struct oracle_nvfp4 *o, uint32_t tensor_amax, uint8_t scale,
                                const uint32_t x[NVFP4_BLOCK])
{
	uint32_t d[NVFP4_BLOCK], s = encode_scale(o, tensor_amax), sf = value_of_scale(o, scale);
	struct mxfp_counts counts = {.size = sizeof counts};
	bool divides;

	if (o->recipe == MXFP_RECIPE_MODELOPT_4OVER6) {
		s = number(1, 1);
		sf = mul(sf, oracle_nvfp4_tensor_scale(o, tensor_amax, &divides));
	}
	for (size_t i = 0; i < NVFP4_BLOCK; i++) {
		uint8_t code = code_of(o, tensor_amax, scale, x[i], &rne, 0, &counts);
		d[i] = sub(mul(x[i], s), mul(oracle_decode(o->e2m1.format, code), sf));
	}
	return oracle_squared_error(d, NVFP4_BLOCK);
}

static uint8_t chosen_scale(const struct oracle_nvfp4 *o, uint32_t tensor_amax, uint32_t amax,
                            const uint32_t x[NVFP4_BLOCK])
{
	uint8_t six = block_scale(o, tensor_amax, amax, false), four;

	if (o->recipe != MXFP_RECIPE_4OVER6 && o->recipe != MXFP_RECIPE_MODELOPT_4OVER6)
		return six;
	four = block_scale(o, tensor_amax, amax, true);
	return less(candidate_error(o, tensor_amax, four, x), candidate_error(o, tensor_amax, six, x)) ? four : six;
}

void oracle_nvfp4_block(struct oracle_nvfp4_block *block, const struct oracle_nvfp4 *o, uint32_t tensor_amax,
                        const uint32_t *x, size_t n, const struct mxfp_quantize_options *options, uint64_t index,
                        struct mxfp_counts *counts)
{
	const struct mxfp_rounding r = {options->round, MXFP_OVERFLOW_SAT, options->no_negative_zero, 0, 0};
	uint32_t in[NVFP4_BLOCK] = {0}, amax = 0;

	memset(block, 0, sizeof *block);
	for (size_t i = 0; i < n; i++) {
		in[i] = x[i];
		counts->nan += (x[i] & ~F32_SIGN) > F32_INF;
		counts->inf += (x[i] & ~F32_SIGN) == F32_INF;
		if (options->non_finite == MXFP_NON_FINITE_SATURATE && (x[i] & ~F32_SIGN) == F32_INF)
			in[i] = (x[i] & F32_SIGN) | F32_MAX;
		amax = (in[i] & ~F32_SIGN) > amax ? in[i] & ~F32_SIGN : amax;
	}
	if (amax >= F32_INF) {
		block->scale = SCALE_NAN;
		return;
	}
	block->scale = chosen_scale(o, tensor_amax, amax, in);
	for (size_t i = 0; i < n; i++) {
		struct mxfp_counts mine = {.size = sizeof mine};
		uint32_t random = options->round == MXFP_ROUND_SR
		                          ? mxfp_philox_word(options->seed, options->stream, index + i)
		                          : 0;
		block->codes[i] = code_of(o, tensor_amax, block->scale, in[i], &r, random, &mine);
		counts->saturated += mine.saturated;
		counts->flushed += !is_zero(in[i]) && (block->codes[i] & 7) == 0;
	}
}

uint32_t oracle_nvfp4_decode(const struct oracle_nvfp4 *o, uint8_t code, uint8_t scale, uint32_t tensor_scale,
                             bool divides)
{
	uint32_t x = mul(oracle_decode(o->e2m1.format, code), value_of_scale(o, scale));

	return divides ? div(x, tensor_scale) : mul(x, tensor_scale);
}
