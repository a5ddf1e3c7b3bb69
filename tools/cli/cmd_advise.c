/* SPDX-License-Identifier: MIT */
/* mxfp advise: measures which format and rule suit each layer. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/advise.h"
#include "base/printable.h"
#include "base/progress.h"
#include "base/suffix.h"
#include "base/word.h"
#include "cli/calibrated.h"
#include "cli/commands.h"
#include "eval/corpus.h"
#include "eval/judge.h"
#include "eval/mixture.h"
#include "io/facts.h"
#include "io/file_gguf.h"
#include "io/json.h"
#include "io/output.h"
#include "model/carry.h"
#include "model/choices.h"
#include "model/layout.h"
#include "model/model_output.h"
#include "model/target.h"
#include "quantize/preset.h"

enum { BATCH_MAX = 1 << 16 };

struct settings {
	const char *in, *out, *formats, *rules, *recipes, *bits, *eval, *activations, *calibrate, *loader;
	struct select select;
	int layout; /* an index of layouts[] */
	enum target target;
	int activation_rule;
	struct corpus_options corpus;
	uint64_t skip, batch;
	unsigned threads;
	bool pad_tail, json, force, quiet;
};

/* Sets the program, and its layout where none is given; a layout may be for any. */
static int set_target(struct settings *s, struct error *error)
{
	const bool has_layout = options_given("layout");

	s->target = TARGET_ANY;
	int code = has_layout && s->loader == NULL ? EXIT_OK : target_find(&s->target, "advise: --for", s->loader, s->in, error);
	s->loader = target_name(s->target);
	for (int i = 0; code == EXIT_OK && !has_layout && layouts[i] != NULL; i++)
		if (layouts[i] == target_layout(s->target))
			s->layout = i;
	return code;
}

static int check_activations(const struct settings *s, struct error *error)
{
	int format;

	if (s->activations == NULL || strcmp(s->activations, "none") == 0 || choice_find(OPTION_BLOCK, s->activations, &format))
		return EXIT_OK;
	return choice_fail(OPTION_BLOCK, "advise: --activations", s->activations, error);
}

static int check_used(const struct settings *s, struct error *error)
{
	const bool runs = s->eval != NULL;
	enum mxfp_format activations;
	const bool has_rule = s->activations == NULL || (mxfp_format_from_name(&activations, s->activations) == MXFP_OK &&
	                                                 !mxfp_format_get_info(activations)->tensor_scale);
	const struct option_use uses[] = {
		{"calibrate", runs, "--eval"},
		{"tokenizer", s->corpus.text != NULL || (s->calibrate != NULL && !tokens_is_file(s->calibrate)), "--eval with a text"},
		{"context", runs, "--eval"},
		{"skip", runs, "--eval"},
		{"sequences", runs, "--eval"},
		{"batch", runs, "--eval"},
		{"activations", runs, "--eval"},
		{"activation-rule", runs, "--eval"},
		{"activation-rule", has_rule, "MX activations"},
		{"force", s->out != NULL, "--output"},
		{"pad-tail", layouts[s->layout] != &layout_gguf, "layouts that hold padded rows"},
		{NULL, true, NULL},
	};
	int code = options_check_used(uses, error);

	if (code == EXIT_OK)
		code = check_activations(s, error);
	if (code != EXIT_OK || !runs)
		return code;
	if (s->layout != 0 && options_given("layout"))
		return fail(error, EXIT_USAGE, "advise: --eval runs the model as layout %s has it; leave --layout out",
		            layouts[0]->name);
	if (suffix_stem(s->in, ".gguf") != 0)
		return fail(error, EXIT_USAGE, "advise: --eval runs the model as layout %s has it; mxfp convert %s -o MODEL makes a directory: give that",
		            layouts[0]->name, s->in);
	if (s->layout != 0)
		return fail(error, EXIT_USAGE, "advise: --eval runs the model as layout %s has it, which %s does not load; leave --eval out, or "
		            "give --for any", layouts[0]->name, target_program(s->target));
	if (s->batch < 1 || s->batch > BATCH_MAX)
		return fail(error, EXIT_USAGE, "advise: --batch: %" PRIu64 " rows; give 1 to %d", s->batch, BATCH_MAX);
	return EXIT_OK;
}

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"advise IN [-o FILE.json --bits B] [options]",
		"Measures the error of every layer of a model, a .safetensors file or a model\n"
		"directory, in each format with each scale rule, and prints the mixture of\n"
		"formats with the least error for each average number of bits. Only weights are\n"
		"measured; or with --eval, what the predictions of a language model lose if each\n"
		"layer alone is quantized, weights and activations.",
		"  mxfp advise model/\n"
		"  mxfp advise model/ --bits 5 -o recipe.json\n"
		"  mxfp advise model/ --bits 5 -o recipe.json --eval wiki.test.raw",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "FILE.json", "write the mixture chosen by --bits as a recipe",
		 &s->out},
		{"bits", 0, OPTION_STRING, "B", "choose the best mixture of at most B bits per weight, scales included", &s->bits},
		{"formats", 0, OPTION_STRING, "FORMAT,...", "formats to choose from (default those of mxfp4, nvfp4, mxfp6-e2m3 and "
		 "mxfp8-e4m3 that the layout holds)", &s->formats},
		{"rules", 0, OPTION_STRING, "RULE,...", "scale rules to try for MX formats (default mse,floor,even,rceil for "
		 "mxfp4 and mse for the others; mse with --eval)", &s->rules},
		{"nvfp4-recipe", 0, OPTION_STRING, "RECIPE,...", "recipes to try for NVFP4 (default that of the layout)", &s->recipes},
		{"for", 0, OPTION_STRING, TARGET_NAMES, "choose from what this program loads (default: vllm, llama.cpp for a GGUF file, or any with --layout)",
		 &s->loader},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "the layout that the recipe is for: what its loaders do not take "
		 "quantized is left out", &s->layout},
		{"include", 0, OPTION_LIST, "PATTERN", "also measure matching tensors; may be repeated", &s->select.include},
		{"ignore", 0, OPTION_LIST, "PATTERN", "skip matching tensors; may be repeated", &s->select.ignore},
		{"pad-tail", 0, OPTION_FLAG, NULL, "also measure tensors whose rows are not a multiple of the block; give it to what "
		 "takes the recipe, too", &s->pad_tail},
		{.kind = OPTION_HEADING, .help = "Evaluation"},
		{"eval", 0, OPTION_STRING, "FILE", "choose by the divergence of predictions: run the model once for each layer and format "
		 "on a file of token ids (.json, .npy, .u16, .u32, .bin) or a text", &s->eval},
		{"calibrate", 0, OPTION_STRING, "FILE", "run what has four bits also with weights that mxfp calibrate chooses on this file of "
		 "tokens or text", &s->calibrate},
		{"tokenizer", 0, OPTION_STRING, "FILE", "the vocabulary of these texts: tokenizer.json, a GGUF file or that of llama2.c "
		 "(default: the model's)", &s->corpus.tokenizer},
		{"context", 'c', OPTION_UNSIGNED, "N", "cut sequences into windows of at most this many tokens", &s->corpus.context},
		{"skip", 0, OPTION_UNSIGNED, "N", "do not score the first N predictions of each window", &s->skip},
		{"sequences", 0, OPTION_UNSIGNED, "N", "take only the first N sequences, or windows of a text", &s->corpus.sequences},
		{"activations", 'a', OPTION_STRING, "FORMAT|none", "quantize the inputs of products with quantized weights (default: as "
		 "mxfp quantize)", &s->activations},
		{"activation-rule", 0, OPTION_RULE, "RULE", "scale rule of MX activations", &s->activation_rule},
		{"batch", 'b', OPTION_UNSIGNED, "N", "rows that run at once; does not affect the output", &s->batch},
		{.kind = OPTION_HEADING, .help = "Execution"},
		{"threads", 0, OPTION_THREADS, "N", "use at most this many threads, 0: one per processor", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace FILE.json if it exists", &s->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of tables", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
	if (s->eval != NULL)
		corpus_set_file(&s->corpus, s->eval);
	return parsed == PARSED_RUN && (set_target(s, error) != EXIT_OK || check_used(s, error) != EXIT_OK) ? PARSED_ERROR : parsed;
}

enum { DEFAULT_FORMATS_TEXT = 128 };

/* The formats to choose from if none are given: of those that loaders of compressed-tensors know, what the layout holds. */
static const char *default_formats(const struct layout *layout, char text[DEFAULT_FORMATS_TEXT])
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP4, MXFP_FORMAT_NVFP4, MXFP_FORMAT_MXFP6_E2M3,
	                                           MXFP_FORMAT_MXFP8_E4M3};
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if (layout_form(layout, formats[i], false) != NULL)
			used += (size_t)snprintf(text + used, DEFAULT_FORMATS_TEXT - used, "%s%s", used == 0 ? "" : ",",
			                         mxfp_format_get_info(formats[i])->name);
	return text;
}

/* Checks that the layout can hold what a variant makes, so that mxfp quantize takes the recipe. */
static int check_variant(const struct layout *layout, const struct variant *variant, struct error *error)
{
	char known[LAYOUT_FORMATS_TEXT];

	if (layout_form(layout, variant->format, false) == NULL)
		return fail(error, EXIT_USAGE, "advise: --formats: layout %s holds no %s; give %s, or another --layout",
		            layout->name, mxfp_format_get_info(variant->format)->name,
		            layout_formats_text(layout_formats(layout), NULL, known));
	if (variant_has_recipe(variant) && !layout_holds_recipe(layout, variant->recipe))
		return fail(error, EXIT_USAGE, "advise: --nvfp4-recipe: layout %s holds no tensor scale of %s; give %s, or "
		            "another --layout", layout->name, variant_choice(variant),
		            mxfp_option_name(MXFP_OPTION_RECIPE, (int)layout->recipe));
	return EXIT_OK;
}

/* The activations that config.json will say: those that are given, else as mxfp quantize has them if the program loads some of these
   weights with them, else none. */
static enum mxfp_format activations_of(const struct settings *s, const struct variants *variants)
{
	enum mxfp_format format;

	if (s->activations != NULL)
		return mxfp_format_from_name(&format, s->activations) == MXFP_OK ? format : OPTION_FORMAT_NONE;
	for (size_t v = 0; v < variants->n; v++)
		if (target_loads_in(s->target, layouts[s->layout], variants->items[v].format, MXFP_FORMAT_MXFP8_E4M3))
			return MXFP_FORMAT_MXFP8_E4M3;
	return OPTION_FORMAT_NONE;
}

/* Leaves what the program loads with one kind of activations, and notes the formats that it does not. */
static int keep_loaded(struct variants *variants, struct settings *s, struct advice *advice, struct error *error)
{
	const enum mxfp_format x = activations_of(s, variants);
	const char *activations = x == OPTION_FORMAT_NONE ? "none" : mxfp_format_get_info(x)->name;
	char known[LAYOUT_FORMATS_TEXT];
	uint32_t lost = 0;
	size_t n = 0;

	for (size_t v = 0; v < variants->n; v++) {
		const enum mxfp_format format = variants->items[v].format;

		if (target_loads_in(s->target, layouts[s->layout], format, x))
			variants->items[n++] = variants->items[v];
		else
			lost |= UINT32_C(1) << format;
	}
	if (n == 0)
		return fail(error, EXIT_USAGE, "advise: %s does not load %s in layout %s with activations %s; give other --formats, or --for any",
		            target_program(s->target), layout_formats_text(lost, NULL, known), layouts[s->layout]->name, activations);
	variants->n = n;
	advice->not_loaded = lost;
	advice->program = target_program(s->target);
	advice->program_activations = activations;
	if (x == OPTION_FORMAT_NONE && s->target != TARGET_ANY)
		s->activations = "none";
	return EXIT_OK;
}

/* Leaves one rule for each format, since each variant of a layer takes a run of the model. */
static void keep_mse(struct variants *variants)
{
	size_t n = 0;

	for (size_t v = 0; v < variants->n; v++)
		if (variant_has_recipe(&variants->items[v]) || variants->items[v].rule == MXFP_RULE_MSE)
			variants->items[n++] = variants->items[v];
	variants->n = n;
}

static int check(struct settings *s, struct variants *variants, struct advice *advice, double *bits, struct error *error)
{
	const struct layout *layout = layouts[s->layout];
	char formats[DEFAULT_FORMATS_TEXT], *end = "";

	if (s->out != NULL && s->bits == NULL)
		return fail(error, EXIT_USAGE, "advise: --output writes the mixture of --bits; give --bits, such as --bits 5");
	*bits = s->bits != NULL ? strtod(s->bits, &end) : 0;
	if (s->bits != NULL && (end == s->bits || *end != '\0' || !(*bits > 0 && *bits <= 64)))
		return fail(error, EXIT_USAGE, "advise: invalid --bits '%s': expected a number, for example 5 or 4.75",
		            s->bits);
	int code = variants_parse(variants, s->formats != NULL ? s->formats : default_formats(layout, formats),
	                          s->rules, s->recipes, error);
	if (s->eval != NULL && s->rules == NULL)
		keep_mse(variants);
	for (size_t v = 0; v < variants->n && code == EXIT_OK; v++) {
		if (s->recipes == NULL)
			variants->items[v].recipe = layout->recipe;
		code = check_variant(layout, &variants->items[v], error);
	}
	return code == EXIT_OK ? keep_loaded(variants, s, advice, error) : code;
}

/* Chooses the mixture for --bits. */
static int choose(struct advise_mix *mix, const struct advice *advice, double bits, struct error *error)
{
	int code = advise_mix(mix, advice, bits, error);
	double least = weight_error_bits(&mix->total);

	if (code != EXIT_OK || least <= bits)
		return code;
	return fail(error, EXIT_USAGE, "%s: --bits %g: no mixture of these formats has fewer than %.4f bits a weight",
	            advice->model->path, bits, ceil(least * 1e4) / 1e4);
}

static int write_recipe(struct output *output, const struct advice *advice, const struct advise_mix *mix,
                        struct error *error)
{
	json_t *recipe = advise_recipe(advice, mix);
	char *text = recipe == NULL ? NULL : json_dumps(recipe, JSON_INDENT(1));
	int code = text == NULL ? fail_memory(error) : EXIT_OK;

	if (code == EXIT_OK)
		code = output_write_file(output_build(output), text, strlen(text), error);
	if (code == EXIT_OK)
		code = output_commit(output, error);
	json_release(text);
	json_decref(recipe);
	return code;
}

static int measure(struct advice *advice, struct progress *progress, const struct settings *s, struct error *error)
{
	int code = advise_select(advice, error);

	if (code != EXIT_OK)
		return code;
	progress_start(progress, "measuring", advise_bytes(advice) * measure_readings(advice->options), s->quiet);
	code = advise_measure(advice, error);
	progress_end(progress);
	return code;
}

static void advance(void *context, uint64_t bytes)
{
	progress_add(context, bytes);
}

/* With --eval: what the model is run on, and the mixtures. */
struct evaluating {
	struct corpus corpus;
	struct evaluate_settings settings;
	struct evaluation evaluation;
	struct mixtures mixtures;
	char *command; /* as that of the mixtures */
};

/* Reads the tokens and checks the options, before anything is measured. */
static int begin_evaluating(struct evaluating *e, const struct settings *s, struct advice *advice, struct error *error)
{
	const struct preset *usual;
	int code = preset_find(&usual, "", NULL, error);

	if (code == EXIT_OK)
		code = corpus_open(&e->corpus, advice->model, &s->corpus, error);
	if (code == EXIT_OK)
		code = corpus_read(&e->corpus, &s->corpus, error);
	if (code != EXIT_OK)
		return code;
	e->settings = (struct evaluate_settings){
		.command = "advise",
		.tokens = &e->corpus.tokens,
		.context = e->corpus.context,
		.skip = (size_t)s->skip,
		.batch = (size_t)s->batch,
		.threads = s->threads,
		.note = tokenizer_note(e->corpus.tokenizer),
		.quiet = s->quiet,
	};
	e->mixtures = (struct mixtures){
		.advice = advice,
		.evaluation = &e->evaluation,
		.options = {
			.command = "advise",
			.activations = s->activations != NULL ? s->activations : usual->activations,
			.weights = OPTION_FORMAT_NONE,
			.activation_rule = s->activation_rule,
			.nvfp4_recipe = (int)layouts[0]->recipe,
			.select = &s->select,
			.pad_tail = s->pad_tail,
			.kv_cache = OPTION_FORMAT_NONE,
			.threads = s->threads,
		},
	};
	calibrated_set(&e->mixtures.chosen, s->in, s->calibrate, &s->corpus, s->threads);
	code = evaluate_begin(&e->evaluation, &e->settings, error);
	return code == EXIT_OK ? mixtures_begin(&e->mixtures, error) : code;
}

/* Weights that are NaN or Inf do not become blocks: better said before anything is run. */
static int check_finite(const struct advice *advice, struct error *error)
{
	for (size_t i = 0; i < advice->n_layers; i++) {
		const struct advise_layer *layer = &advice->layers[i];

		if (layer->non_finite > 0)
			return fail_tensor(error, layer->file->path, layer->tensor->name, "%" PRIu64 " weights are NaN or Inf, which mxfp "
			                   "quantize refuses; repair the model, or --ignore the layer", layer->non_finite);
	}
	return EXIT_OK;
}

/* About how many mixtures will be run. */
static size_t count_more(const struct evaluating *e, const struct advice *advice, double bits)
{
	const size_t n = advice->n_formats + (bits != 0 ? 2 : MIXTURES_SEARCHED / 2);

	return e->mixtures.chosen.in == NULL ? n : n + mixtures_count_few_bits(&e->mixtures) + (bits != 0);
}

/* Chooses by divergences, the mixture for --bits unless `bits` is 0, and runs that, what the errors of weights choose, and
   each format alone; without bits mixtures that tell which is the smallest that is fine. */
static int evaluate(struct evaluating *e, struct advice *advice, double bits, struct error *error)
{
	struct advise_mix by_weights = {0}, mix = {0};
	int code = check_finite(advice, error);

	if (code == EXIT_OK && bits != 0)
		code = choose(&by_weights, advice, bits, error);
	if (code == EXIT_OK)
		code = mixtures_measure(&e->mixtures, count_more(e, advice, bits), error);
	if (code == EXIT_OK && bits != 0)
		code = choose(&mix, advice, bits, error);
	if (code == EXIT_OK && bits != 0) {
		code = mixtures_run(&e->mixtures, &mix, "chosen", error);
		mix.formats = NULL;
	}
	if (code == EXIT_OK && bits != 0) {
		advise_make_mix(&by_weights, advice, by_weights.formats);
		code = mixtures_run(&e->mixtures, &by_weights, "chosen by SQNR", error);
		by_weights.formats = NULL;
	}
	if (code == EXIT_OK)
		code = mixtures_run_uniform(&e->mixtures, error);
	if (code == EXIT_OK && bits == 0)
		code = mixtures_search(&e->mixtures, error);
	if (code == EXIT_OK)
		code = mixtures_run_calibrated(&e->mixtures, bits != 0, error);
	progress_end(&e->evaluation.progress);
	free(by_weights.formats);
	free(mix.formats);
	return code;
}

/* Whether a mixture has one format. */
static bool is_uniform(const struct advice *advice, const struct advise_mix *mix)
{
	for (size_t u = 1; u < advice->units.n; u++)
		if (mix->formats[u] != mix->formats[0])
			return false;
	return true;
}

static void print_number(FILE *file, const char *option, uint64_t n, uint64_t usual)
{
	if (n != usual)
		fprintf(file, " --%s %" PRIu64, option, n);
}

static void print_text(FILE *file, const char *option, const char *value)
{
	if (value != NULL)
		word_print_option(file, option, value);
}

/* What mxfp quantize and this command share. */
static void print_selection(FILE *file, const struct settings *s)
{
	if (s->pad_tail)
		fputs(" --pad-tail", file);
	for (size_t i = 0; i < s->select.include.n; i++)
		print_text(file, "include", s->select.include.items[i]);
	for (size_t i = 0; i < s->select.ignore.n; i++)
		print_text(file, "ignore", s->select.ignore.items[i]);
	allow_print(file);
}

/* What this command again has of its own options. */
static void print_own(FILE *file, const struct settings *s, double bits)
{
	fputs("mxfp advise ", file);
	word_print_path(file, s->in);
	fprintf(file, " --bits %g -o recipe.json", bits);
	if (options_given("for"))
		print_text(file, "for", s->loader);
	if (options_given("layout"))
		print_text(file, "layout", layouts[s->layout]->name);
}

/* Whether a mixture is the one that errors of weights choose, and no other. */
static bool is_by_weights(const struct evaluating *e, const struct settings *s, size_t item)
{
	return s->bits != NULL && item == 1 && !mixtures_are_same(&e->mixtures, 0, 1);
}

/* This command again, to choose at these bits by errors of weights, among the variants that were run. */
static void print_again_by_weights(FILE *file, const struct settings *s, const struct advice *advice, double bits)
{
	bool has_rules = false;

	for (size_t v = 0; v < advice->options->variants.n; v++)
		has_rules |= !variant_has_recipe(&advice->options->variants.items[v]);
	print_own(file, s, bits);
	print_text(file, "formats", s->formats);
	if (s->rules != NULL || (has_rules && s->eval != NULL))
		print_text(file, "rules", s->rules != NULL ? s->rules : mxfp_option_name(MXFP_OPTION_RULE, MXFP_RULE_MSE));
	print_text(file, "nvfp4-recipe", s->recipes);
	print_selection(file, s);
}

/* This command again, to choose at these bits. */
static void print_again(FILE *file, const struct settings *s, double bits)
{
	print_own(file, s, bits);
	print_text(file, "eval", s->eval);
	print_text(file, "tokenizer", s->corpus.tokenizer);
	print_number(file, "context", s->corpus.context, CORPUS_ALL);
	print_number(file, "sequences", s->corpus.sequences, CORPUS_ALL);
	print_number(file, "skip", s->skip, 0);
	print_text(file, "formats", s->formats);
	print_text(file, "rules", s->rules);
	print_text(file, "nvfp4-recipe", s->recipes);
	print_text(file, "activations", s->activations);
	if (s->activation_rule != MXFP_RULE_RCEIL)
		print_text(file, "activation-rule", mxfp_option_name(MXFP_OPTION_RULE, s->activation_rule));
	print_selection(file, s);
}

/* What weights become, of mxfp quantize and mxfp calibrate alike: those of a mixture of one format, or what a recipe says. */
static void print_made(FILE *file, const struct settings *s, const struct advice *advice, const struct advise_mix *uniform,
                       const char *recipe)
{
	if (uniform == NULL) {
		fputs(" --recipe ", file);
		word_print_path(file, recipe);
		if (s->pad_tail)
			fputs(" --pad-tail", file);
		allow_print(file);
		return;
	}
	const struct variant *variant = &advice->options->variants.items[
		advise_best(advice, &advice->layers[0], advice->formats[uniform->formats[0]])];

	fprintf(file, " --weights %s", mxfp_format_get_info(variant->format)->name);
	if (variant_has_recipe(variant))
		fprintf(file, " --nvfp4-recipe %s --fuse", variant_choice(variant));
	else if (variant->rule != MXFP_RULE_MSE)
		fprintf(file, " --rule %s", variant_choice(variant));
	print_text(file, "activations", s->activations);
	print_selection(file, s);
}

/* The best mixture that was run and can be written, as the number of its result; 0: none. */
static size_t find_best(const struct evaluating *e)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, &e->evaluation);

	for (size_t i = 0; i < n; i++)
		if (e->mixtures.items[order[i] - 1].written)
			return judge(&e->evaluation.results[order[i]].summary) != JUDGE_BROKEN ? order[i] : 0;
	return 0;
}

/* The commands that make it. */
static void print_command(FILE *file, const struct evaluating *e, const struct settings *s, const struct advice *advice)
{
	const size_t best = e->mixtures.made;
	const struct mixture *item = &e->mixtures.items[best - 1];
	const struct advise_mix *mix = &item->mix;
	const bool uniform = is_uniform(advice, mix) && advice->options->variants.n == advice->n_formats;
	const bool written = s->out != NULL && mixtures_are_same(&e->mixtures, best - 1, 0);
	const char *recipe = written ? s->out : "recipe.json";
	const double bits = ceil(weight_error_bits(&mix->total) * 1e4) / 1e4;
	const bool by_weights = !uniform && is_by_weights(e, s, best - 1);

	if (by_weights)
		print_again_by_weights(file, s, advice, bits);
	else if (!uniform && !written)
		print_again(file, s, bits);
	if (by_weights || (!uniform && !written))
		fputs(" && ", file);
	if (item->calibrated) {
		chosen_print(file, &e->mixtures.chosen);
		print_made(file, s, advice, uniform ? mix : NULL, recipe);
		fputs(" && ", file);
	}
	fputs("mxfp quantize ", file);
	if (item->calibrated)
		fputs("CALIBRATED", file);
	else
		word_print_path(file, s->in);
	fputs(" -o OUT", file);
	print_made(file, s, advice, uniform ? mix : NULL, recipe);
	/* Which that recipe does not say. */
	if (by_weights)
		print_text(file, "activations", s->activations);
}

/* The command that makes what was chosen by errors of weights, or chooses: at half a bit and more over the smallest. */
static int print_next(FILE *file, const struct settings *s, const struct advice *advice, const struct advise_mix *chosen, struct error *error)
{
	const struct layout *layout = layouts[s->layout];
	const bool in_gguf = suffix_stem(s->in, ".gguf") != 0, converts = layout->file_format == &file_gguf && !in_gguf;
	const char *recipe = s->out != NULL ? s->out : "recipe.json";
	struct advise_mix least = {0};
	int code = advise_mix(&least, advice, 0, error);
	const bool uniform = advice->n_formats == 1;
	const double bits = chosen != NULL ? strtod(s->bits, NULL) : floor((weight_error_bits(&least.total) + 0.75) * 4) / 4;

	/* GGUF is made of directories alone. */
	if (converts && advice->model->directory == NULL) {
		free(least.formats);
		return code;
	}
	if (code == EXIT_OK && s->out == NULL && !uniform)
		print_again_by_weights(file, s, advice, bits);
	if (code == EXIT_OK && s->out == NULL && !uniform && chosen != NULL)
		fputs(" && ", file);
	if (code == EXIT_OK && (uniform || chosen != NULL)) {
		fputs("mxfp quantize ", file);
		word_print_path(file, s->in);
		fputs(in_gguf ? " -o OUT.gguf" : " -o OUT", file);
		if (layout != layouts[0] && layout->file_format != &file_gguf)
			print_text(file, "layout", layout->name);
		print_made(file, s, advice, uniform && s->out == NULL ? &least : NULL, recipe);
		if (converts)
			fputs(" && mxfp convert OUT -o OUT.gguf", file);
	}
	free(least.formats);
	return code;
}

static int make_next(char **command, const struct settings *s, const struct advice *advice, const struct advise_mix *chosen,
                     struct error *error)
{
	size_t n = 0;
	FILE *file = open_memstream(command, &n);

	if (file == NULL)
		return fail_memory(error);
	const int code = print_next(file, s, advice, chosen, error);
	const bool whole = !ferror(file);
	return fclose(file) == 0 && whole ? code : fail_memory(error);
}

static int make_command(struct evaluating *e, const struct settings *s, const struct advice *advice, struct error *error)
{
	size_t n = 0;

	e->mixtures.made = find_best(e);
	if (e->mixtures.made == 0)
		return EXIT_OK;
	FILE *file = open_memstream(&e->command, &n);
	if (file == NULL)
		return fail_memory(error);
	print_command(file, e, s, advice);
	const bool whole = !ferror(file);
	if (fclose(file) != 0 || !whole)
		return fail_memory(error);
	make_printable(e->command);
	e->mixtures.command = e->command;
	return EXIT_OK;
}

/* Prints what was chosen by divergences, and writes it. */
static int finish_evaluating(struct evaluating *e, const struct settings *s, const struct advice *advice,
                             struct output *output, struct error *error)
{
	int code = make_command(e, s, advice, error);

	if (code == EXIT_OK && s->out != NULL)
		code = write_recipe(output, advice, &e->mixtures.items[0].mix, error);
	return code == EXIT_OK ? (s->json ? mixtures_json : mixtures_text)(&e->mixtures, s->eval, s->bits != NULL, error) : code;
}

static int advise_by_weights(const struct settings *s, struct advice *advice, double bits, struct output *output,
                             struct error *error)
{
	struct advise_mix mix = {0};
	char *command = NULL;
	int code = bits != 0 ? choose(&mix, advice, bits, error) : EXIT_OK;

	if (code == EXIT_OK)
		code = make_next(&command, s, advice, bits != 0 ? &mix : NULL, error);
	advice->command = command != NULL && *command != '\0' ? command : NULL;
	if (code == EXIT_OK && s->out != NULL)
		code = write_recipe(output, advice, &mix, error);
	if (code == EXIT_OK)
		code = (s->json ? advise_json : advise_text)(advice, bits != 0 ? &mix : NULL, error);
	advice->command = NULL;
	free(command);
	free(mix.formats);
	return code;
}

static int advise(struct settings *s, const struct model *model, struct output *output, struct error *error)
{
	struct progress progress;
	struct measure_options options = {.noise_only = true, .threads = s->threads, .advance = advance,
	                                  .context = &progress};
	struct advice advice = {.model = model, .select = &s->select, .layout = layouts[s->layout], .options = &options,
	                        .pad_tail = s->pad_tail};
	struct evaluating *e = calloc(1, sizeof *e);
	double bits = 0;
	int code = e != NULL ? check(s, &options.variants, &advice, &bits, error) : fail_memory(error);

	advice.activations = s->activations;
	if (code == EXIT_OK && s->eval != NULL)
		code = begin_evaluating(e, s, &advice, error);
	if (code == EXIT_OK)
		code = measure(&advice, &progress, s, error);
	if (code == EXIT_OK && s->eval == NULL)
		code = advise_by_weights(s, &advice, bits, output, error);
	if (code == EXIT_OK && s->eval != NULL)
		code = evaluate(e, &advice, bits, error);
	if (code == EXIT_OK && s->eval != NULL)
		code = finish_evaluating(e, s, &advice, output, error);
	if (e != NULL) {
		mixtures_free(&e->mixtures);
		evaluate_free(&e->evaluation);
		corpus_close(&e->corpus);
	}
	if (e != NULL)
		free(e->command);
	free(e);
	advise_free(&advice);
	return code;
}

static int open_and_advise(struct settings *s, struct error *error)
{
	struct model model;
	struct output output = {0};
	int code = select_compile(&s->select, error);

	if (code == EXIT_OK)
		code = meaning_open(&model, s->in, MEANING_DECODES, error);
	if (code != EXIT_OK)
		return code;
	if (model_quantized_by(&model) != NULL)
		code = fail(error, EXIT_INPUT, "%s: is already quantized: %s; give the original", s->in,
		            model_quantized_by(&model));
	if (code == EXIT_OK && s->out != NULL)
		code = model_output_check_apart(&model, s->out, error);
	if (code == EXIT_OK && s->out != NULL && s->eval != NULL)
		code = output_check_apart(s->out, s->eval, error);
	if (code == EXIT_OK && s->out != NULL && s->calibrate != NULL)
		code = output_check_apart(s->out, s->calibrate, error);
	/* As the layout has them, so that the recipe names them. */
	if (code == EXIT_OK && layouts[s->layout]->one_expert_each)
		code = select_split_experts(&s->select, &model, error);
	if (code == EXIT_OK && s->out != NULL)
		code = output_begin_file(&output, s->out, s->force, error);
	if (code == EXIT_OK)
		code = advise(s, &model, &output, error);
	if (code == EXIT_OK)
		code = carry_warn(&model, stderr, error);
	output_abandon(&output);
	model_close(&model);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct settings settings = {
		.activation_rule = MXFP_RULE_RCEIL,
		.corpus = {.context = CORPUS_ALL, .sequences = CORPUS_ALL},
		.batch = EVALUATE_BATCH,
	};
	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = open_and_advise(&settings, error);
	select_free(&settings.select);
	return code;
}

const struct command command_advise = {"advise", "choose a format and a scale rule for each layer", run};
