/* SPDX-License-Identifier: MIT */
/* mxfp report: measures what quantization does to a model's weights and to products with them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/suffix.h"
#include "cli/calibrated.h"
#include "cli/commands.h"
#include "cli/profile_limits.h"
#include "io/descriptor.h"
#include "io/json.h"
#include "io/output.h"
#include "model/carry.h"
#include "model/model.h"
#include "model/model_output.h"
#include "report/evaluation.h"
#include "report/report.h"

enum {
	TOKENS_MAX = 4096,   /* activations are held in memory, tokens times row length */
	TOKENS_SEEDED = 16,
	TOKENS_OF_FILE = 512 /* as many as rows of W */
};

/* The command line. */
struct settings {
	const char *in, *out, *formats, *rules, *recipes, *against, *activation_file, *sparsity, *eval, *tries, *calibrate, *loader;
	struct corpus_options corpus;
	enum mxfp_format activations;
	int activation_rule, round, acc;
	uint64_t tokens, product_rows, seed, pass_k;
	unsigned threads;
	struct select select;
	struct string_list fail_under;
	bool has_activations, has_acc, has_pass_k, profile, pad_tail, json, force, quiet;
};

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"report IN [options]",
		"Quantizes a model's weights in memory, in several formats and with several scale\n"
		"rules, and reports the errors relative to binary32 of the weights and of\n"
		"products y = x W^T, both with exact and with quantized activations x. IN is a\n"
		".safetensors file or a model directory. Without -o a summary is printed. FILE.md\n"
		"lists every tensor; FILE.json contains all results; FILE.html is a page for a\n"
		"browser with all results and charts.",
		"  mxfp report model.safetensors\n"
		"  mxfp report model.safetensors --formats mxfp4,nvfp4 --rules mse -o report.html",
	};
	const struct option_spec options[] = {
		{"formats", 0, OPTION_STRING, "FORMAT,...", "block formats (default mxfp4,nvfp4,mxfp8-e4m3,"
		 "mxfp6-e2m3,mxint8)", &s->formats},
		{"rules", 0, OPTION_STRING, "RULE,...", "scale rules for the MX formats (default mse; for mxfp4 "
		 "mse,floor,even,rceil)", &s->rules},
		{"nvfp4-recipe", 0, OPTION_STRING, "RECIPE,...", "recipes for NVFP4 (default that of mxfp quantize)", &s->recipes},
		{"sparsity", 0, OPTION_STRING, "N:M", "also measure weights pruned to N of every M, such as 4:16, alone and "
		 "before quantization", &s->sparsity},
		{"against", 0, OPTION_STRING, "MODEL", "measure the weights of this output of mxfp quantize instead", &s->against},
		{"for", 0, OPTION_STRING, TARGET_NAMES, "recommend what this program loads (default: vllm, or llama.cpp for a GGUF file)",
		 &s->loader},
		{"output", 'o', OPTION_STRING, "FILE", "write to FILE.md, FILE.json or FILE.html", &s->out},
		{"force", 'f', OPTION_FLAG, NULL, "replace FILE if it exists", &s->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &s->json},
		{"fail-under", 0, OPTION_LIST, "LIMIT", "exit with 1 if the SQNR of some tensor is under N dB in any variant "
		 "(SQNR=N), or that of all tensors together (total-SQNR=N); may be repeated", &s->fail_under},
		{"activations", 'a', OPTION_BLOCK, "FORMAT", "format of quantized activations", &s->activations},
		{"activation-rule", 0, OPTION_RULE, "RULE", "scale rule of activations", &s->activation_rule},
		{"activation-file", 0, OPTION_STRING, "FILE", ".safetensors or .npy file of activations: one tensor "
		 "per layer, with its name, or one for every layer whose shape it fits", &s->activation_file},
		{"activation-rows", 0, OPTION_UNSIGNED, "N", "rows of activations, at most 4096 (default 16; of a file all up to 512)",
		 &s->tokens},
		{"eval", 0, OPTION_STRING, "FILE", "also run the language model that IN is on a file of token ids (.json, .npy, "
		 ".u16, .u32, .bin) or a text, as it is and quantized, as mxfp eval --by-layer does", &s->eval},
		{"try", 0, OPTION_STRING, "TRIAL,...", "also run it in these ways, one row each, as mxfp eval --try does (default: "
		 "what the program of --for loads, and MXFP6)", &s->tries},
		{"acc", 0, OPTION_ACC, "SUMS", "also run it as it is, or in the ways of --try, with products of weights summed in this way, slowly, as "
		 "mxfp eval --acc does", &s->acc},
		{"pass-k", 0, OPTION_UNSIGNED, "N", "elements of K per pass: 512 (default, for a machine none), 256 or 128", &s->pass_k},
		{"calibrate", 0, OPTION_STRING, "FILE", "run the ways of four bits also with weights that mxfp calibrate chooses on this file "
		 "of tokens or text", &s->calibrate},
		{"tokenizer", 0, OPTION_STRING, "FILE", "the vocabulary of these texts (default: the model's)", &s->corpus.tokenizer},
		{"context", 'c', OPTION_UNSIGNED, "N", "cut them into windows of at most this many tokens", &s->corpus.context},
		{"sequences", 0, OPTION_UNSIGNED, "N", "take only the first N sequences, or windows of a text", &s->corpus.sequences},
		{"profile", 0, OPTION_FLAG, NULL, "report where the time of these runs went, too", &s->profile},
		{"product-rows", 0, OPTION_UNSIGNED, "N", "measure products of at most N rows of a tensor, evenly spaced, "
		 "0: of all", &s->product_rows},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of the activations and of stochastic rounding", &s->seed},
		{"round", 0, OPTION_ROUND, "MODE", "rounding of weights", &s->round},
		{"include", 0, OPTION_LIST, "PATTERN", "also measure matching tensors; may be repeated", &s->select.include},
		{"ignore", 0, OPTION_LIST, "PATTERN", "skip matching tensors; may be repeated", &s->select.ignore},
		{"pad-tail", 0, OPTION_FLAG, NULL,
		 "also measure tensors whose rows are not a multiple of the block, padded with zeros", &s->pad_tail},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
	const struct option_use uses[] = {
		{"activation-rule", !mxfp_format_get_info(s->activations)->tensor_scale, "MX activations"},
		{"seed", s->activation_file == NULL || s->round == MXFP_ROUND_SR, "--round sr beside --activation-file"},
		{"try", s->eval != NULL, "--eval"},
		{"acc", s->eval != NULL, "--eval"},
		{"pass-k", options_given("acc"), "--acc"},
		{"calibrate", s->eval != NULL && s->against == NULL, "--eval, not for --against"},
		{"tokenizer", (s->eval != NULL && !tokens_is_file(s->eval)) || (s->calibrate != NULL && !tokens_is_file(s->calibrate)),
		 "--eval with a text"},
		{"context", s->eval != NULL, "--eval"},
		{"sequences", s->eval != NULL, "--eval"},
		{"profile", s->eval != NULL, "--eval"},
		{"force", s->out != NULL, "--output"},
		{"json", s->out == NULL, "what is printed; the name of FILE tells its form"},
		{"round", s->against == NULL, "weights that are quantized here, not for --against"},
		{NULL, true, NULL},
	};
	if (parsed == PARSED_RUN && options_check_used(uses, error) != EXIT_OK)
		return PARSED_ERROR;
	s->has_activations = parsed == PARSED_RUN && options_given("activations");
	s->has_acc = parsed == PARSED_RUN && options_given("acc");
	s->has_pass_k = parsed == PARSED_RUN && options_given("pass-k");
	return parsed;
}

static bool has_suffix(const struct settings *s, const char *suffix)
{
	return s->out != NULL && suffix_stem(s->out, suffix) != 0;
}

/* Checks what the option table cannot, and makes the variants and the limits. */
static int check(const struct settings *s, struct variants *variants, struct report_limits *limits,
                 struct error *error)
{
	struct mxfp_sparsity sparsity;

	if (s->against != NULL && (s->formats != NULL || s->rules != NULL || s->recipes != NULL || s->sparsity != NULL))
		return fail(error, EXIT_USAGE, "--against: what it names has its format, rule and sparsity; leave "
		            "--formats, --rules, --nvfp4-recipe and --sparsity out");
	int code = variants_parse(variants, s->formats, s->rules, s->recipes, error);
	if (code == EXIT_OK && s->sparsity != NULL)
		code = sparsity_parse(s->sparsity, "--sparsity", &sparsity, error);
	if (code == EXIT_OK && s->sparsity != NULL)
		code = variants_prune(variants, sparsity, error);
	if (code == EXIT_OK)
		code = report_limits_parse(limits, &s->fail_under, error);
	if (code != EXIT_OK)
		return code;
	if (s->calibrate != NULL && s->round != MXFP_ROUND_RNE)
		return fail(error, EXIT_USAGE, "--calibrate: chooses weights, which rounds to nearest; leave --round out");
	if (s->tokens == 0 || s->tokens > TOKENS_MAX)
		return fail(error, EXIT_USAGE, "--activation-rows: %llu is out of range; give 1 to %d",
		            (unsigned long long)s->tokens, (int)TOKENS_MAX);
	if (s->out != NULL && !has_suffix(s, ".md") && !has_suffix(s, ".json") && !has_suffix(s, ".html"))
		return fail(error, EXIT_USAGE, "%s: the name tells no form; end it with .md, .json or .html", s->out);
	if (has_suffix(s, ".html") && !report_html_is_built())
		return fail(error, EXIT_USAGE, "%s: this mxfp was built without Chart.js, which a page takes (Debian: "
		            "libjs-chart.js); end the name with .md or .json", s->out);
	for (size_t v = 0; v < variants->n; v++)
		if (variant_has_recipe(&variants->items[v]) && variants->items[v].recipe == MXFP_RECIPE_GGML &&
		    s->round != MXFP_ROUND_RNE)
			return fail(error, EXIT_USAGE, "--round: recipe ggml has its own; leave --round out");
	return EXIT_OK;
}

static int write_report(const struct report *report, const struct settings *s, FILE *file, struct error *error)
{
	int code;

	json_prepare();
	if (has_suffix(s, ".html"))
		return report_html(report, file, error);
	if (!s->json && !has_suffix(s, ".json"))
		return report_markdown(report, file, s->out != NULL, error);
	code = report_json(report, file, REPORT_JSON, error);
	putc('\n', file);
	return code;
}

static int write_file(struct output *output, const struct report *report, const struct settings *s,
                      struct error *error)
{
	const char *path = output_build(output);
	FILE *file = fopen(path, "wx");

	if (file == NULL)
		return fail_errno(error, path, "cannot create");
	int code = write_report(report, s, file, error);
	if (code == EXIT_OK && (fflush(file) != 0 || ferror(file)))
		code = fail_errno(error, path, "cannot write");
	if (code == EXIT_OK)
		code = descriptor_sync(fileno(file), path, error);
	if (fclose(file) != 0 && code == EXIT_OK)
		code = fail_errno(error, path, "cannot write");
	return code == EXIT_OK ? output_commit(output, error) : code;
}

static void advance(void *context, uint64_t bytes)
{
	progress_add(context, bytes);
}

static int measure(struct report *report, const struct settings *s, struct measure_options *options,
                   struct error *error)
{
	struct progress progress;
	int code = report_select(report, &s->select, s->pad_tail, error);

	if (code != EXIT_OK)
		return code;
	progress_start(&progress, "measuring", measure_readings(options) * report_bytes(report), s->quiet);
	options->advance = advance;
	options->context = &progress;
	code = report_measure(report, error);
	progress_end(&progress);
	return code;
}

/* Runs the model in the variant that the verdict will be about. */
static int evaluate(struct report_evaluation *evaluation, const struct report *report, struct error *error)
{
	const size_t variant = report_judged(report);
	char way[REPORT_CELL];
	int code = report_evaluation_run(evaluation, report, variant,
	                                 report_way(way, report, &report->totals[variant].variant), error);

	for (size_t i = 0; i < evaluation->evaluation.n_results && code == EXIT_OK; i++)
		profile_add_limits(&evaluation->evaluation.results[i].profile, evaluation->settings.threads);
	return code;
}

/* Runs once the model and the activations are open and the output has begun. */
static int run_open(const struct settings *s, struct measure_options *options, const struct report_limits *limits,
                    const struct model *model, struct report_evaluation *evaluation, struct output *output,
                    struct error *error)
{
	struct report report = {.model = model, .options = options, .limits = *limits, .target = evaluation->target};

	if (has_suffix(s, ".html"))
		report.kept = REPORT_KEEP_WORST;
	else if (s->out != NULL || s->json)
		report.kept = REPORT_KEEP_ALL;
	int code = measure(&report, s, options, error);
	if (code == EXIT_OK && s->eval != NULL) {
		code = evaluate(evaluation, &report, error);
		report.evaluation = evaluation;
	}
	if (code == EXIT_OK)
		code = report_judge(&report, error);
	/* A failed write leaves its mark on stdout, which main() looks at. */
	if (code == EXIT_OK)
		code = s->out != NULL ? write_file(output, &report, s, error) : write_report(&report, s, stdout, error);
	if (code == EXIT_OK)
		code = report_check_limits(&report, error);
	report_free(&report);
	return code;
}

static int open_source(struct model *model, const struct settings *s, struct error *error)
{
	int code = meaning_open(model, s->in, MEANING_DECODES, error);

	if (code == EXIT_OK && model_quantized_by(model) != NULL)
		code = fail(error, EXIT_INPUT, "%s: is already quantized: %s; give the original, and this with --against",
		            s->in, model_quantized_by(model));
	return code;
}

/* Starts the output file, which must not be one of the inputs. */
static int begin_output(struct output *output, const struct settings *s, const struct model *model,
                        const struct measure_options *options, struct error *error)
{
	int code = model_output_check_apart(model, s->out, error);

	if (code == EXIT_OK && options->against != NULL)
		code = model_output_check_apart(options->against, s->out, error);
	if (code == EXIT_OK && s->activation_file != NULL)
		code = output_check_apart(s->out, s->activation_file, error);
	if (code == EXIT_OK && s->eval != NULL)
		code = output_check_apart(s->out, s->eval, error);
	if (code == EXIT_OK && s->calibrate != NULL)
		code = output_check_apart(s->out, s->calibrate, error);
	return code == EXIT_OK ? output_begin_file(output, s->out, s->force, error) : code;
}

static int run_settings(const struct settings *s, struct error *error)
{
	struct measure_options options = {
		.input = {
			.variant = {.format = s->activations, .rule = (enum mxfp_rule)s->activation_rule},
			.tokens = (size_t)s->tokens,
			.seed = s->seed,
			.threads = s->threads,
		},
		.product_rows = s->product_rows,
		.round = (enum mxfp_round)s->round,
		.seed = s->seed,
		.threads = s->threads,
	};
	struct report_evaluation evaluation = {
		.source = s->eval,
		.corpus_options = s->corpus,
		.settings = {.command = "report", .batch = EVALUATE_BATCH, .threads = s->threads, .profile = s->profile, .quiet = s->quiet},
		.options = {
			.command = "report",
			.activations = s->has_activations ? mxfp_format_get_info(s->activations)->name : NULL,
			.weights = OPTION_FORMAT_NONE,
			.nvfp4_recipe = (int)layouts[0]->recipe,
			.activation_rule = s->activation_rule,
			.select = &s->select,
			.pad_tail = s->pad_tail,
			.kv_cache = OPTION_FORMAT_NONE,
			.has_acc = s->has_acc,
			.has_pass_k = s->has_pass_k,
			.acc = s->acc,
			.pass_k = s->pass_k,
			.threads = s->threads,
		},
		.sums_tries = s->tries != NULL,
		.tries = s->tries,
		.tries_usual = s->tries == NULL && s->against == NULL,
	};
	struct model model = {0}, against = {0};
	struct file activations = {0};
	struct output output = {0};
	struct report_limits limits;
	int code = check(s, &options.variants, &limits, error);

	if (code == EXIT_OK)
		code = target_find(&evaluation.target, "report: --for", s->loader, s->in, error);
	calibrated_set(&evaluation.chosen, s->in, s->calibrate, &s->corpus, s->threads);
	if (code == EXIT_OK)
		code = trial_check_sums(&evaluation.options, error);
	if (code == EXIT_OK)
		code = open_source(&model, s, error);
	if (code == EXIT_OK && s->against != NULL) {
		options.against = &against;
		code = meaning_open(&against, s->against, MEANING_READS, error);
		if (code == EXIT_OK)
			code = model_split_like(&model, &against, error);
		if (code == EXIT_OK)
			code = report_against_variant(&options.variants, &model, &against, error);
	}
	if (code == EXIT_OK && s->activation_file != NULL) {
		code = file_open(&activations, s->activation_file, error);
		if (code == EXIT_OK)
			code = file_check_rows(&activations, error);
		options.input.file = &activations;
	}
	if (code == EXIT_OK && s->eval != NULL)
		code = report_evaluation_open(&evaluation, s->in, error);
	if (code == EXIT_OK && s->out != NULL)
		code = begin_output(&output, s, &model, &options, error);
	if (code == EXIT_OK)
		code = run_open(s, &options, &limits, &model, &evaluation, &output, error);
	if (code == EXIT_OK)
		code = carry_warn(&model, stderr, error);
	if (code == EXIT_OK && options.against != NULL)
		code = carry_warn(&against, stderr, error);
	output_abandon(&output);
	report_evaluation_close(&evaluation);
	file_close(&activations);
	model_close(&against);
	model_close(&model);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct settings settings = {
		.activations = MXFP_FORMAT_MXFP8_E4M3,
		.activation_rule = MXFP_RULE_RCEIL,
		.acc = OPTION_CHOICE_NONE,
		.pass_k = OPTION_UNSIGNED_NONE,
		.tokens = UINT64_MAX,
		.product_rows = 512,
		.corpus = {.context = CORPUS_ALL, .sequences = CORPUS_ALL},
	};

	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	if (settings.tokens == UINT64_MAX)
		settings.tokens = settings.activation_file != NULL ? TOKENS_OF_FILE : TOKENS_SEEDED;
	int code = select_compile(&settings.select, error);
	if (code == EXIT_OK)
		code = run_settings(&settings, error);
	select_free(&settings.select);
	return code;
}

const struct command command_report = {"report", "measure the errors of quantized weights and products", run};
