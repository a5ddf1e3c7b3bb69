/* SPDX-License-Identifier: MIT */
/* The cases that are timed, which are conversion, quantization, dequantization, the search for the largest magnitude,
   functions of one number and row operations in the modes that differ in work, and their targets. */
#include "config.h"

#include "bench.h"

#include <stdio.h>

const char *const bench_op_names[] = {"convert", "quantize", "dequantize", "scan", "apply", "rows", "fake", "gemm"};
const char *const bench_place_names[] = {"L2", "DRAM"};

const char *const bench_group_texts[] = {
#define BENCH_GROUP(id, text) text,
#include "target.def"
};

const char *const bench_unit_texts[] = {"GB/s", "of limit", "of steps"};

static const char *const row_op_names[] = {"softmax", "rms-norm", "layer-norm"};

/* Blocks of results that are quantized in the same call. */
static const enum mxfp_format result_blocks[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP4};

enum { N_RESULT_BLOCKS = sizeof result_blocks / sizeof result_blocks[0] };

const struct bench_target bench_targets[] = {
#define BENCH_TARGET(group, place, unit, at_least) {BENCH_##group, BENCH_##place, BENCH_UNIT_##unit, at_least},
#include "target.def"
};
const size_t bench_n_targets = sizeof bench_targets / sizeof bench_targets[0];

struct visit {
	int (*call)(const struct bench_case *c, void *context);
	void *context;
};

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

static enum bench_group convert_group(const struct bench_case *c)
{
	const unsigned dst_bytes = mxfp_format_get_info(c->dst)->storage_bytes;

	if (c->round != MXFP_ROUND_RNE || c->dst == c->src)
		return BENCH_OTHER;
	if (c->dst == MXFP_FORMAT_F32)
		return mxfp_format_get_info(c->src)->storage_bytes == 1 ? BENCH_WIDEN_8 : BENCH_WIDEN_16;
	if (c->src != MXFP_FORMAT_F32)
		return BENCH_OTHER;
	return dst_bytes == 1 ? BENCH_NARROW_8 : dst_bytes == 2 ? BENCH_NARROW_16 : BENCH_NARROW_TF32;
}

/* In stochastic rounding, one format of each width stands for the others. */
static bool convert_usual(const struct bench_case *c)
{
	if (c->round == MXFP_ROUND_RNE)
		return convert_group(c) != BENCH_OTHER ||
		       (c->src == MXFP_FORMAT_BF16 && c->dst == MXFP_FORMAT_E4M3);
	return c->round == MXFP_ROUND_SR && c->src == MXFP_FORMAT_F32 &&
	       (c->dst == MXFP_FORMAT_BF16 || c->dst == MXFP_FORMAT_E4M3 || c->dst == MXFP_FORMAT_E2M1);
}

static int converts_from(enum mxfp_format src, const struct visit *visit)
{
	int stop = 0;

	for (int dst = 0; mxfp_format_get_info((enum mxfp_format)dst) != NULL && stop == 0; dst++) {
		struct bench_case c = {.op = BENCH_CONVERT, .dst = (enum mxfp_format)dst, .src = src};
		for (int round = 0; mxfp_option_name(MXFP_OPTION_ROUND, round) != NULL && stop == 0; round++) {
			c.round = (enum mxfp_round)round;
			c.group = convert_group(&c);
			c.usual = convert_usual(&c);
			/* Conversions that do not round are timed in one mode. */
			bool rounds = src == MXFP_FORMAT_F32 && c.dst != src;
			if (!is_block(c.dst) && (rounds || round == MXFP_ROUND_RNE))
				stop = visit->call(&c, visit->context);
		}
	}
	return stop;
}

static enum bench_group quantize_group(const struct bench_case *c)
{
	if (c->squares)
		return BENCH_SQUARES;
	if (c->src != MXFP_FORMAT_F32)
		return BENCH_OTHER;
	if (mxfp_format_get_info(c->dst)->tensor_scale)
		return c->recipe == MXFP_RECIPE_TE ? BENCH_NVFP4_TE
		       : c->recipe == MXFP_RECIPE_4OVER6 ? BENCH_NVFP4_4OVER6 : BENCH_OTHER;
	if (c->round == MXFP_ROUND_SR)
		return BENCH_SR;
	if (c->rule == MXFP_RULE_MSE)
		return BENCH_MSE;
	return c->dst == MXFP_FORMAT_MXFP4 ? BENCH_MXFP4 : BENCH_MX;
}

/* Every rule for mxfp4; for the others mse and rceil, which stands for the closed-form rules. */
static bool quantize_usual(const struct bench_case *c)
{
	const bool two = c->rule == MXFP_RULE_MSE || c->rule == MXFP_RULE_RCEIL;

	if (mxfp_format_get_info(c->dst)->tensor_scale)
		return quantize_group(c) != BENCH_OTHER;
	if (c->src == MXFP_FORMAT_F32)
		return two || (c->dst == MXFP_FORMAT_MXFP4 && c->round == MXFP_ROUND_RNE);
	return c->src == MXFP_FORMAT_BF16 && c->dst == MXFP_FORMAT_MXFP4 && two && c->round == MXFP_ROUND_RNE;
}

/* Squares, to nearest even, in two formats that stand for the others by their width. */
static int squares(const struct bench_case *blocks_of_row, const struct visit *visit)
{
	struct bench_case c = *blocks_of_row;

	if (c.src != MXFP_FORMAT_F32 || (c.dst != MXFP_FORMAT_MXFP8_E4M3 && c.dst != MXFP_FORMAT_MXFP4) ||
	    (c.rule != MXFP_RULE_FLOOR && c.rule != MXFP_RULE_MSE))
		return 0;
	c.squares = c.usual = true;
	c.group = quantize_group(&c);
	return visit->call(&c, visit->context);
}

/* Visits all rules, to nearest even and stochastic, or all recipes. */
static int quantizations(enum mxfp_format src, enum mxfp_format dst, const struct visit *visit)
{
	const bool recipes = mxfp_format_get_info(dst)->tensor_scale;
	const enum mxfp_option choice = recipes ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE;
	struct bench_case c = {.op = BENCH_QUANTIZE, .dst = dst, .src = src};
	int stop = 0;

	for (int i = 0; mxfp_option_name(choice, i) != NULL && stop == 0; i++) {
		c.rule = recipes ? c.rule : (enum mxfp_rule)i;
		c.recipe = recipes ? (enum mxfp_recipe)i : c.recipe;
		c.round = MXFP_ROUND_RNE;
		c.group = quantize_group(&c);
		c.usual = quantize_usual(&c);
		stop = visit->call(&c, visit->context);
		if (stop != 0 || recipes)
			continue;
		stop = squares(&c, visit);
		if (stop != 0)
			continue;
		c.round = MXFP_ROUND_SR;
		c.group = quantize_group(&c);
		c.usual = quantize_usual(&c);
		stop = visit->call(&c, visit->context);
	}
	return stop;
}

static int blocks(enum mxfp_format format, const struct visit *visit)
{
	static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	struct bench_case c = {.op = BENCH_DEQUANTIZE, .src = format};
	int stop = 0;

	for (size_t i = 0; i < sizeof sources / sizeof sources[0] && stop == 0; i++)
		stop = quantizations(sources[i], format, visit);
	for (size_t i = 0; i < sizeof sources / sizeof sources[0] && stop == 0; i++) {
		c.dst = sources[i];
		c.group = c.dst == MXFP_FORMAT_F32 ? BENCH_DEQUANTIZE_F32 : BENCH_OTHER;
		c.usual = c.group != BENCH_OTHER || (format == MXFP_FORMAT_MXFP4 && c.dst == MXFP_FORMAT_BF16);
		stop = visit->call(&c, visit->context);
	}
	return stop;
}

static int scans(const struct visit *visit)
{
	static const enum mxfp_format sources[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	int stop = 0;

	for (size_t i = 0; i < sizeof sources / sizeof sources[0] && stop == 0; i++) {
		const struct bench_case c = {
			.op = BENCH_SCAN, .dst = sources[i], .src = sources[i], .group = BENCH_OTHER, .usual = true,
		};
		stop = visit->call(&c, visit->context);
	}
	return stop;
}

/* The same with results as blocks. */
static int quantized_results(const struct bench_case *numbers, const struct visit *visit)
{
	struct bench_case c = *numbers;
	int stop = 0;

	c.group = BENCH_QUANTIZED_RESULT;
	for (int i = 0; i < N_RESULT_BLOCKS && stop == 0; i++) {
		c.dst = result_blocks[i];
		c.rule = MXFP_RULE_RCEIL;
		stop = visit->call(&c, visit->context);
	}
	return stop;
}

static int functions(const struct visit *visit)
{
	int stop = 0;

	for (int f = 0; mxfp_option_name(MXFP_OPTION_FUNCTION, f) != NULL && stop == 0; f++) {
		struct bench_case c = {
			.op = BENCH_APPLY, .dst = MXFP_FORMAT_F32, .src = MXFP_FORMAT_F32, .group = BENCH_OTHER, .usual = true,
			.function = (enum mxfp_function)f,
			.positive = f == MXFP_FUNCTION_LOG || f == MXFP_FUNCTION_RSQRT,
		};

		if (f == MXFP_FUNCTION_EXP || f == MXFP_FUNCTION_TANH || f == MXFP_FUNCTION_SIGMOID ||
		    f == MXFP_FUNCTION_SILU || f == MXFP_FUNCTION_GELU)
			c.group = BENCH_FUNCTION;
		stop = visit->call(&c, visit->context);
		if (c.group == BENCH_FUNCTION && stop == 0)
			stop = quantized_results(&c, visit);
	}
	return stop;
}

static int row_operations(const struct visit *visit)
{
	int stop = 0;

	for (int op = 0; op < BENCH_N_ROW_OPS && stop == 0; op++) {
		const struct bench_case c = {
			.op = BENCH_ROWS, .dst = MXFP_FORMAT_F32, .src = MXFP_FORMAT_F32, .usual = true,
			.row_op = (enum bench_row_op)op,
			.group = op == BENCH_LAYER_NORM ? BENCH_OTHER : BENCH_ROW_OPERATION,
		};

		stop = visit->call(&c, visit->context);
		if (stop == 0)
			stop = quantized_results(&c, visit);
	}
	return stop;
}

/* In the default rules. Those of the two calls for NVFP4 look for the largest magnitude first, and so does this. */
static int fake_quantizations(const struct visit *visit)
{
	int stop = 0;

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL && stop == 0; f++) {
		struct bench_case c = {
			.op = BENCH_FAKE, .dst = MXFP_FORMAT_F32, .src = MXFP_FORMAT_F32, .blocks = (enum mxfp_format)f, .usual = true,
			.group = f == MXFP_FORMAT_MXFP4 ? BENCH_FAKE_MXFP4 : BENCH_OTHER,
		};

		if (!is_block(c.blocks))
			continue;
		if (!mxfp_format_get_info(c.blocks)->tensor_scale) {
			c.rule = MXFP_RULE_RCEIL;
			stop = visit->call(&c, visit->context);
			c.rule = MXFP_RULE_MSE;
			c.group = BENCH_OTHER;
		}
		if (stop == 0)
			stop = visit->call(&c, visit->context);
	}
	return stop;
}

int bench_cases(int (*call)(const struct bench_case *c, void *context), void *context)
{
	const struct visit visit = {call, context};
	int stop = 0;

	for (int f = 0; mxfp_format_get_info((enum mxfp_format)f) != NULL && stop == 0; f++)
		stop = is_block((enum mxfp_format)f) ? blocks((enum mxfp_format)f, &visit)
		                                     : converts_from((enum mxfp_format)f, &visit);
	if (stop == 0)
		stop = scans(&visit);
	if (stop == 0)
		stop = functions(&visit);
	if (stop == 0)
		stop = row_operations(&visit);
	return stop != 0 ? stop : fake_quantizations(&visit);
}

void bench_case_name(const struct bench_case *c, char *name, size_t size)
{
	const char *src = mxfp_format_get_info(c->src)->name, *dst = mxfp_format_get_info(c->dst)->name;
	const char *round = mxfp_option_name(MXFP_OPTION_ROUND, (int)c->round);

	if (c->op == BENCH_QUANTIZE)
		snprintf(name, size, "%s -> %s %s%s%s%s", src, dst,
		         mxfp_format_get_info(c->dst)->tensor_scale
		                 ? mxfp_option_name(MXFP_OPTION_RECIPE, (int)c->recipe)
		                 : mxfp_option_name(MXFP_OPTION_RULE, (int)c->rule),
		         c->round != MXFP_ROUND_RNE ? " " : "", c->round != MXFP_ROUND_RNE ? round : "",
		         c->squares ? " 32x32" : "");
	else if (c->op == BENCH_CONVERT && c->src == MXFP_FORMAT_F32)
		snprintf(name, size, "%s -> %s %s", src, dst, round);
	else if (c->op == BENCH_APPLY || c->op == BENCH_ROWS)
		snprintf(name, size, "%s%s%s",
		         c->op == BENCH_ROWS ? row_op_names[c->row_op] : mxfp_option_name(MXFP_OPTION_FUNCTION, (int)c->function),
		         is_block(c->dst) ? " -> " : "", is_block(c->dst) ? dst : "");
	else if (c->op == BENCH_FAKE)
		snprintf(name, size, "%s by %s %s", src, mxfp_format_get_info(c->blocks)->name,
		         mxfp_format_get_info(c->blocks)->tensor_scale
		                 ? mxfp_option_name(MXFP_OPTION_RECIPE, (int)c->recipe)
		                 : mxfp_option_name(MXFP_OPTION_RULE, (int)c->rule));
	else if (c->op == BENCH_SCAN)
		snprintf(name, size, "%s", src);
	else
		snprintf(name, size, "%s -> %s", src, dst);
}
