/* SPDX-License-Identifier: MIT */
/*
 * Nothing undefined in blocks: no access out of bounds, no overflow, no shift too far, whatever the numbers, codes, scales and options.
 * The arrays have just the bytes that they need. What minifloat.c, f32.c and philox.c return is anything here: prove.sh removes
 * these functions, whose own proofs are in format.c and below. -DFORMAT=MXFP4 names the format, -DRECIPE=MXFP_RECIPE_TE the recipe,
 * -DCOLS=33 the length of the row.
 */
#include "f32.h"
#include "ref.h"
#include "spec.h"

#define JOINED(a, b) a##b
#define NUMBER(id) JOINED(MXFP_FORMAT_, id)

#ifdef FORMAT

#define LENGTH (NUMBER(FORMAT) == MXFP_FORMAT_NVFP4 ? MXFP_NVFP4_BLOCK : MXFP_MX_BLOCK)
#define BITS (NUMBER(FORMAT) == MXFP_FORMAT_NVFP4 || NUMBER(FORMAT) == MXFP_FORMAT_MXFP4 ? 4 : \
	      NUMBER(FORMAT) == MXFP_FORMAT_MXFP6_E3M2 || NUMBER(FORMAT) == MXFP_FORMAT_MXFP6_E2M3 ? 6 : 8)
#define BLOCKS ((COLS + LENGTH - 1) / LENGTH)

static float numbers[COLS];
static uint8_t codes[BLOCKS * LENGTH * BITS / 8], scales[BLOCKS];

void quantize(void)
{
	struct mxfp_counts counts = {0};
	int mode = nondet_int(), rule = nondet_int();

	ASSUME(mode >= MXFP_ROUND_RNE && mode <= MXFP_ROUND_SR);
	ASSUME(rule >= MXFP_RULE_MSE && rule <= MXFP_RULE_LOG_NEAREST);
	for (int i = 0; i < COLS; i++) {
		uint32_t x = nondet_word();

		memcpy(&numbers[i], &x, sizeof x);
	}
	struct mxfp_quantize_job job = {
		.format = NUMBER(FORMAT), .src_format = MXFP_FORMAT_F32, .rows = 1, .cols = COLS, .src = numbers, .src_stride = COLS,
		.codes = codes, .scales = scales, .codes_stride = sizeof codes, .scales_stride = sizeof scales,
		.rounding = {.mode = (enum mxfp_round)mode, .no_negative_zero = nondet_bool()}, .rule = (enum mxfp_rule)rule,
		.recipe = RECIPE, .saturate_inf = nondet_bool(), .via_bf16 = nondet_bool(),
		.tensor_amax = nondet_word(), .counts = &counts};

	if (NUMBER(FORMAT) == MXFP_FORMAT_NVFP4)
		mxfp_quantize_nvfp4_ref(&job);
	else
		mxfp_quantize_mx_ref(&job);
	REACHED();
}

void dequantize(void)
{
	for (unsigned i = 0; i < sizeof codes; i++)
		codes[i] = nondet_byte();
	for (int i = 0; i < BLOCKS; i++)
		scales[i] = nondet_byte();
	struct mxfp_dequantize_job job = {
		.format = NUMBER(FORMAT), .dst_format = MXFP_FORMAT_F32, .rows = 1, .cols = COLS, .codes = codes, .scales = scales,
		.codes_stride = sizeof codes, .scales_stride = sizeof scales, .tensor_scale = nondet_word(),
		.tensor_scale_divides = nondet_bool(), .dst = numbers, .dst_stride = COLS};

	if (NUMBER(FORMAT) == MXFP_FORMAT_NVFP4)
		mxfp_dequantize_nvfp4_ref(&job);
	else
		mxfp_dequantize_mx_ref(&job);
	REACHED();
}

#else

/* Every exact result that arithmetic may hand to rounding. */
void f32_round(void)
{
	struct mxfp_exact v = {nondet_bool(), nondet_int(), (uint64_t)nondet_word() << 32 | nondet_word()};

	ASSUME(v.significand != 0 && v.exponent >= -1000 && v.exponent <= 1000);
	(void)mxfp_f32_round(v);
	REACHED();
}

/* mxfp_f32_unpack() keeps its promise, and what is rounded is in the range of f32_round(). */
struct mxfp_exact any_unpacked(uint32_t x)
{
	uint32_t fraction = nondet_word();
	int exponent = nondet_int();

	ASSUME(fraction < 0x800000 && exponent >= -172 && exponent <= 104);
	return (struct mxfp_exact){x >> 31, exponent, 0x800000 | fraction};
}

uint32_t any_rounded(struct mxfp_exact v)
{
	PROVE(v.significand != 0 && v.exponent >= -1000 && v.exponent <= 1000, "what is rounded is not 0, and its exponent small");
	return nondet_word();
}

void f32_arithmetic(void)
{
	uint32_t a = nondet_word(), b = nondet_word(), c = nondet_word();
	int exponent = nondet_int();

	ASSUME(exponent >= -254 && exponent <= 254);
	(void)mxfp_f32_add(a, b);
	(void)mxfp_f32_sub(a, b);
	(void)mxfp_f32_mul(a, b);
	(void)mxfp_f32_div(a, b);
	(void)mxfp_f32_fma(a, b, c);
	(void)mxfp_f32_scale(a, exponent);
	REACHED();
}

/* In the place of mxfp_f32_div(): any quotient of two numbers that are not negative. */
uint32_t any_quotient(uint32_t a, uint32_t b)
{
	PROVE(a >> 31 == 0 && b >> 31 == 0, "neither is negative");
	return nondet_word() & 0x7FFFFFFF;
}

/* ggml's scale, whose shift depends on the sum of two numbers: nothing of this is replaced but the quotient by 6. */
void ggml(void)
{
	const struct mxfp_nvfp4_tensor tensor = {0};

	(void)mxfp_nvfp4_block_scale_ref(MXFP_RECIPE_GGML, &tensor, nondet_word() & 0x7FFFFFFF);
	REACHED();
}

#endif
