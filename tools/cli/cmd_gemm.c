/* SPDX-License-Identifier: MIT */
/* mxfp gemm: multiplies two matrices from files. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "analyse/multiply.h"
#include "base/printable.h"
#include "base/sparsity.h"
#include "base/suffix.h"
#include "cli/commands.h"
#include "io/facts.h"
#include "io/output.h"
#include "model/choices.h"
#include "model/layout.h"
#include "model/model_output.h"

static const char no_format[] = "none";

/* The command line. */
struct settings {
	const char *operands[2], *out, *a_format, *bias, *accumulate;
	enum mxfp_format w_format, c_format, psum;
	int rule, a_rule, recipe, acc, psum_round;
	uint64_t pass_k, seed;
	unsigned threads;
	bool transpose_a, transpose_w, check, force, json, quiet;
};

/* Refuses options that this run would ignore, as far as the command line tells; check_matrices_used() sees the matrices too. */
static int check_used(const struct settings *s, struct error *error)
{
	const bool rounds = s->psum != MXFP_FORMAT_F32;
	const bool has_rule = s->w_format != OPTION_FORMAT_NONE && !mxfp_format_get_info(s->w_format)->tensor_scale;
	const struct option_use uses[] = {
		{"rule", has_rule, "--w-format with an MX format"},
		{"psum-round", rounds, "--psum bf16"},
		{"seed", rounds && s->psum_round == MXFP_ROUND_SR, "--psum bf16 --psum-round sr"},
		{NULL, true, NULL},
	};

	return options_check_used(uses, error);
}

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"gemm A W -o OUT [options]",
		"Computes C = A W^T, with every bit defined, and writes it to OUT.npy or\n"
		"OUT.safetensors. A and W are given as FILE or FILE:TENSOR, a .npy or\n"
		".safetensors file or a model directory, and have K as the last dimension.\n"
		"Tensors written by mxfp quantize keep their codes. With MXFP4 weights, A is\n"
		"quantized to mxfp8-e4m3 by default, which is W4A8.",
		"  mxfp gemm x.npy model-mxfp4:model.layers.0.up_proj.weight -o y.npy\n"
		"  mxfp gemm x.npy w.npy --w-format mxfp8-e4m3 --a-format mxfp8-e4m3 -o y.npy",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "OUT", "file to write, .npy or .safetensors", &s->out},
		{"w-format", 0, OPTION_BLOCK, "FORMAT", "quantize W to this block format first", &s->w_format},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule for W", &s->rule},
		{"a-format", 0, OPTION_STRING, "FORMAT|none", "block format to which A is quantized (default "
		 "mxfp8-e4m3 if W is mxfp4, else none)", &s->a_format},
		{"a-rule", 0, OPTION_RULE, "RULE", "scale rule for A", &s->a_rule},
		{"nvfp4-recipe", 0, OPTION_RECIPE, "RECIPE", "how NVFP4 scales of A and W are computed", &s->recipe},
		{"transpose-a", 0, OPTION_FLAG, NULL, "A is stored transposed, with K rows", &s->transpose_a},
		{"transpose-w", 0, OPTION_FLAG, NULL, "W is stored transposed, with K rows", &s->transpose_w},
		{"acc", 0, OPTION_ACC, "SUMS", "how products are summed: as here, or as on a machine", &s->acc},
		{"pass-k", 0, OPTION_UNSIGNED, "N", "elements of K per pass: 512 (default, for a machine none), "
		 "256 or 128", &s->pass_k},
		{"c-format", 0, OPTION_ELEMENT, "f32|bf16", "format of C", &s->c_format},
		{"psum", 0, OPTION_ELEMENT, "f32|bf16", "format to which C is rounded after each pass", &s->psum},
		{"psum-round", 0, OPTION_ROUND, "rne|sr", "rounding mode for --psum", &s->psum_round},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of --psum-round sr", &s->seed},
		{"accumulate", 0, OPTION_STRING, "MATRIX", "add the product to this matrix, FILE or FILE:TENSOR",
		 &s->accumulate},
		{"bias", 0, OPTION_STRING, "VECTOR", "add this vector to every row, FILE or FILE:TENSOR", &s->bias},
		{"check", 0, OPTION_FLAG, NULL, "also compute C with the slow reference and compare every bit", &s->check},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &s->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print the summary", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	enum parsed parsed = options_parse(argc, argv, options, &usage, 2, 2, s->operands, error);
	if (parsed == PARSED_RUN && check_used(s, error) != EXIT_OK)
		return PARSED_ERROR;
	return parsed;
}

/* Checks what the option table cannot. */
static int check(const struct settings *s, struct error *error)
{
	if (s->out == NULL)
		return fail(error, EXIT_USAGE, "gemm: no output given; -o OUT names a file");
	if (suffix_stem(s->out, ".npy") == 0 && suffix_stem(s->out, ".safetensors") == 0)
		return fail(error, EXIT_USAGE, "%s: the name tells no form; end it with .npy or .safetensors", s->out);
	if (s->pass_k != OPTION_UNSIGNED_NONE && s->pass_k != 512 && s->pass_k != 256 && s->pass_k != 128)
		return fail(error, EXIT_USAGE, "gemm: --pass-k %llu: give 512, 256 or 128",
		            (unsigned long long)s->pass_k);
	return EXIT_OK;
}

static bool is_block(enum mxfp_format format)
{
	return mxfp_format_get_info(format)->kind == MXFP_KIND_BLOCK;
}

/* Sets x->options.a_format, with A and W in memory. */
static int choose_a_format(struct multiplication *x, const struct settings *s, struct error *error)
{
	int format;

	x->options.a_format = MXFP_FORMAT_F32;
	if (s->a_format == NULL) {
		if (!is_block(x->a.matrix.format) && x->w.matrix.format == MXFP_FORMAT_MXFP4)
			x->options.a_format = MXFP_FORMAT_MXFP8_E4M3;
		return EXIT_OK;
	}
	if (strcmp(s->a_format, no_format) == 0)
		return EXIT_OK;
	if (!choice_find(OPTION_BLOCK, s->a_format, &format))
		return choice_fail(OPTION_BLOCK, "gemm: --a-format", s->a_format, error);
	if (is_block(x->a.matrix.format))
		return fail(error, EXIT_USAGE, "%s: is quantized already, to %s; leave --a-format out", s->operands[0],
		            mxfp_format_get_info(x->a.matrix.format)->name);
	x->options.a_format = (enum mxfp_format)format;
	return EXIT_OK;
}

static int quantize_w(struct multiplication *x, const struct settings *s, struct error *error)
{
	const struct mxfp_quantize_options options = {
		.size = sizeof options, .rule = (enum mxfp_rule)s->rule,
		.recipe = (enum mxfp_recipe)s->recipe,
	};

	if (s->w_format == OPTION_FORMAT_NONE)
		return EXIT_OK;
	if (mxfp_format_get_info(x->w.matrix.format)->bits == 8)
		return fail(error, EXIT_USAGE, "%s: is %s; leave --w-format out", s->operands[1],
		            mxfp_format_get_info(x->w.matrix.format)->name);
	if (is_block(x->w.matrix.format))
		return fail(error, EXIT_USAGE, "%s: is quantized already, to %s; leave --w-format out", s->operands[1],
		            mxfp_format_get_info(x->w.matrix.format)->name);
	return operand_quantize(&x->w, s->w_format, &options, s->threads, error);
}

/* Refuses options that these matrices have no use for. */
static int check_matrices_used(const struct multiplication *x, struct error *error)
{
	const bool a_has_recipe = mxfp_format_get_info(multiply_a_format(x))->tensor_scale;
	const bool w_has_recipe = mxfp_format_get_info(x->w.matrix.format)->tensor_scale;
	const bool a_quantized = multiply_quantizes_a(x);
	const bool blocks = is_block(multiply_a_format(x)) && is_block(x->w.matrix.format);
	const struct option_use uses[] = {
		{"a-rule", a_quantized && !a_has_recipe, "an A that is quantized here, to an MX format"},
		{"nvfp4-recipe", (a_quantized && a_has_recipe) || (x->w.on_the_fly && w_has_recipe),
		 "a matrix that is quantized here, to nvfp4"},
		{"acc", multiply_acc(x) == x->options.acc && (x->options.acc != MXFP_ACC_CHAIN || blocks), "two block formats"},
		{NULL, true, NULL},
	};

	return options_check_used(uses, error);
}

static int read_inputs(struct multiplication *x, const struct settings *s, struct error *error)
{
	const enum operand_order a_order = s->transpose_a ? OPERAND_TRANSPOSED : OPERAND_ANY;
	const enum operand_order w_order = s->transpose_w ? OPERAND_TRANSPOSED : OPERAND_KEPT;
	int code = operand_read(&x->a, s->operands[0], a_order, "multiplied", error);

	if (code == EXIT_OK)
		code = operand_read(&x->w, s->operands[1], w_order, "multiplied", error);
	if (code == EXIT_OK)
		code = multiply_begin(x, s->operands[0], s->operands[1], error);
	if (code == EXIT_OK)
		code = quantize_w(x, s, error);
	if (code == EXIT_OK)
		code = choose_a_format(x, s, error);
	if (code == EXIT_OK)
		code = check_matrices_used(x, error);
	if (code == EXIT_OK)
		code = multiply_check(x, error);
	if (code == EXIT_OK && s->bias != NULL)
		code = multiply_read_bias(x, s->bias, error);
	if (code == EXIT_OK && s->accumulate != NULL)
		code = multiply_read_given(x, s->accumulate, error);
	return code;
}

static double gflops(const struct multiplication *x)
{
	return x->seconds > 0 ? 2e-9 * (double)x->m * (double)x->n * (double)x->k / x->seconds : 0;
}

static void print_matrix(char letter, const struct operand *operand, enum mxfp_format format, const char *rule)
{
	char pattern[SPARSITY_TEXT];

	printf("%c: ", letter);
	print_printable(stdout, operand->model.path);
	fputs(": ", stdout);
	print_printable(stdout, operand->tensor->name);
	printf(", %zu x %zu, %s", operand->matrix.rows, operand->matrix.cols, mxfp_format_get_info(format)->name);
	if (operand->matrix.sparsity.m != 0)
		printf(" %s", sparsity_text(operand->matrix.sparsity, pattern));
	if (rule != NULL)
		printf(" by %s from %s", rule, dtype_info(operand->tensor->dtype)->name);
	putchar('\n');
}

/* Returns the name of the rule or recipe by which numbers were quantized here. */
static const char *rule_of(const struct settings *s, enum mxfp_format format, int rule)
{
	if (mxfp_format_get_info(format)->tensor_scale)
		return choice_name(OPTION_RECIPE, s->recipe);
	return choice_name(OPTION_RULE, rule);
}

static void print_text(const struct multiplication *x, const struct settings *s)
{
	enum mxfp_format a = multiply_a_format(x), w = x->w.matrix.format;

	print_matrix('A', &x->a, a, multiply_quantizes_a(x) ? rule_of(s, a, s->a_rule) : NULL);
	print_matrix('W', &x->w, w, x->w.on_the_fly ? rule_of(s, w, s->rule) : NULL);
	printf("C: ");
	print_printable(stdout, s->out);
	printf(", %zu x %zu, %s\n", x->m, x->n, mxfp_format_get_info(s->c_format)->name);
	printf("sums: %s", choice_name(OPTION_ACC, (int)multiply_acc(x)));
	if (multiply_pass(x) != 0)
		printf(", passes of %u", multiply_pass(x));
	if (s->psum != MXFP_FORMAT_F32)
		printf(", psum %s (%s)", mxfp_format_get_info(s->psum)->name, choice_name(OPTION_ROUND, s->psum_round));
	printf("\n%.3g ms, %.4g GFLOP/s\n", 1e3 * x->seconds, gflops(x));
	if (s->check)
		printf("equal to the reference: %zu numbers\n", x->m * x->n);
}

static json_t *matrix_facts(const struct operand *operand, enum mxfp_format format, const char *rule)
{
	char pattern[SPARSITY_TEXT];

	sparsity_text(operand->matrix.sparsity, pattern);
	return json_pack("{s:o, s:o, s:s, s:[I,I], s:s, s:s?, s:s?}", "path", facts_text(operand->model.path), "tensor",
	                 facts_text(operand->tensor->name), "dtype", dtype_info(operand->tensor->dtype)->name,
	                 "shape", (json_int_t)operand->matrix.rows, (json_int_t)operand->matrix.cols, "format",
	                 mxfp_format_get_info(format)->name, "sparsity",
	                 operand->matrix.sparsity.m != 0 ? pattern : NULL, "rule", rule);
}

static int print_json(const struct multiplication *x, const struct settings *s, struct error *error)
{
	enum mxfp_format a = multiply_a_format(x), w = x->w.matrix.format;
	const char *a_rule = multiply_quantizes_a(x) ? rule_of(s, a, s->a_rule) : NULL;
	const char *w_rule = x->w.on_the_fly ? rule_of(s, w, s->rule) : NULL;
	bool rounds = s->psum != MXFP_FORMAT_F32;
	json_t *sums = json_pack("{s:s, s:i, s:s, s:s?, s:I}", "rule",
	                         choice_name(OPTION_ACC, (int)multiply_acc(x)), "pass",
	                         (int)multiply_pass(x), "psum", mxfp_format_get_info(s->psum)->name, "psum_round",
	                         rounds ? choice_name(OPTION_ROUND, s->psum_round) : NULL, "seed", (json_int_t)s->seed);

	return facts_print(stdout, json_pack("{s:o, s:o, s:{s:o, s:[I,I], s:s}, s:o, s:f, s:f, s:b}", "a",
	                                     matrix_facts(&x->a, a, a_rule), "w", matrix_facts(&x->w, w, w_rule),
	                                     "c", "path", facts_text(s->out), "shape", (json_int_t)x->m,
	                                     (json_int_t)x->n, "format", mxfp_format_get_info(s->c_format)->name,
	                                     "sums", sums, "seconds", x->seconds, "gflops", gflops(x), "checked",
	                                     (int)s->check), error);
}

/* Starts the output, which must be neither A nor W. */
static int begin_output(struct output *output, const struct multiplication *x, const struct settings *s,
                        struct error *error)
{
	int code = model_output_check_apart(&x->a.model, s->out, error);

	if (code == EXIT_OK)
		code = model_output_check_apart(&x->w.model, s->out, error);
	return code == EXIT_OK ? output_begin_file(output, s->out, s->force, error) : code;
}

static int multiply(struct multiplication *x, const struct settings *s, struct error *error)
{
	struct output output = {0};
	int code = read_inputs(x, s, error);

	if (code == EXIT_OK)
		code = begin_output(&output, x, s, error);
	if (code == EXIT_OK)
		code = multiply_run(x, s->check, error);
	if (code == EXIT_OK)
		code = multiply_write(x, output_build(&output), suffix_stem(s->out, ".npy") != 0, error);
	if (code == EXIT_OK)
		code = output_commit(&output, error);
	output_abandon(&output);
	if (code != EXIT_OK || (s->quiet && !s->json))
		return code;
	if (s->json)
		return print_json(x, s, error);
	print_text(x, s);
	return EXIT_OK;
}

static int run(int argc, char **argv, struct error *error)
{
	struct settings s = {
		.w_format = OPTION_FORMAT_NONE,
		.c_format = MXFP_FORMAT_F32,
		.psum = MXFP_FORMAT_F32,
		.a_rule = MXFP_RULE_RCEIL,
		.recipe = (int)layouts[0]->recipe,
		.pass_k = OPTION_UNSIGNED_NONE,
	};

	const enum parsed parsed = parse(argc, argv, &s, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = check(&s, error);
	if (code != EXIT_OK)
		return code;
	const struct mxfp_quantize_options a_quantize = {
		.size = sizeof a_quantize, .rule = (enum mxfp_rule)s.a_rule,
		.recipe = (enum mxfp_recipe)s.recipe,
	};
	struct multiplication x = {.out = s.out, .c_format = s.c_format, .threads = s.threads, .options = {
		.size = sizeof x.options,
		.acc = (enum mxfp_acc)s.acc,
		.pass_k = s.pass_k != OPTION_UNSIGNED_NONE ? (unsigned)s.pass_k : 0,
		.psum = s.psum,
		.psum_round = (enum mxfp_round)s.psum_round,
		.seed = s.seed,
		.a_quantize = &a_quantize,
	}};
	code = multiply(&x, &s, error);
	multiply_end(&x);
	return code;
}

const struct command command_gemm = {"gemm", "multiply two matrices, with every bit defined", run};
