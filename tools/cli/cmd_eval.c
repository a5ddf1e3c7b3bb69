/* SPDX-License-Identifier: MIT */
/* mxfp eval: runs a model, and says what its weights and activations cost in other formats. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/profile_limits.h"
#include "eval/corpus.h"
#include "eval/evaluate.h"
#include "io/output.h"
#include "model/carry.h"
#include "model/layout_config.h"
#include "model/model_output.h"
#include "model/quantized.h"
#include "model/section.h"
#include "quantize/preset.h"

enum {
	BATCH_MAX = 1 << 16,
	GENERATE_MAX = 1 << 20,
};

struct options {
	const char *model, *compare, *save, *tries, *prompt, *temperature, *block;
	struct corpus_options corpus;
	struct trial_options trial;
	struct select select;
	uint64_t skip, batch, generate, seed;
	bool by_layer, profile, force, json, quiet;
};

/* The run of the command. */
struct job {
	struct options options;
	struct model model, base;       /* what is evaluated, and what it is compared with */
	bool base_is_model;
	struct corpus corpus;
	struct trial stored;
	struct trial trials[EVALUATE_TRIALS];
	size_t n_trials;
	struct evaluate_settings settings;
	struct evaluation evaluation;
	struct output output;           /* of --save-logits */
};

static int check_used(const struct options *o, struct error *error)
{
	static const char single[] = "a single trial, and --try gives several", score[] = "scores";
	const bool scores = o->generate == OPTION_UNSIGNED_NONE;
	const struct option_use uses[] = {
		{"prompt", !scores, "--generate"},
		{"temperature", !scores, "--generate"},
		{"seed", o->temperature != NULL && strtod(o->temperature, NULL) != 0, "--temperature above 0"},
		{"tokens", scores, "scores, and --generate makes text"},
		{"text", scores, "scores, and --generate makes text"},
		{"skip", scores, score},
		{"sequences", scores, score},
		{"compare", scores, score},
		{"save-logits", scores, score},
		{"try", scores, score},
		{"by-layer", scores, score},
		{"force", o->save != NULL, "--save-logits"},
		{"pass-k", o->trial.has_acc, "--acc"},
		{"by-layer", !o->trial.has_acc, "what weights cost, and --acc compares sums"},
		{"save-logits", !o->trial.has_acc || o->tries == NULL || o->compare != NULL, "a single base, and each trial of --acc has its own"},
		{"tokenizer", !scores || o->corpus.text != NULL, "--text and --generate"},
		{"weights", o->tries == NULL, single},
		{"preset", o->tries == NULL, single},
		{"recipe", o->tries == NULL, "a single trial, and --try takes FILE.json"},
		{"by-layer", o->tries == NULL, single},
		{NULL, true, NULL},
	};

	return options_check_used(uses, error);
}

static int check(const struct options *o, struct error *error)
{
	const bool scores = o->generate == OPTION_UNSIGNED_NONE;

	if (o->corpus.tokens != NULL && o->corpus.text != NULL)
		return fail(error, EXIT_USAGE, "eval: --tokens and --text: give one of them");
	if (scores && o->corpus.tokens == NULL && o->corpus.text == NULL)
		return fail(error, EXIT_USAGE, "eval: nothing to run; give --tokens FILE, --text FILE or --generate N");
	if (o->trial.preset != NULL && o->trial.recipe != NULL)
		return fail(error, EXIT_USAGE, "eval: --preset and --recipe: give one of them");
	if (o->batch < 1 || o->batch > BATCH_MAX)
		return fail(error, EXIT_USAGE, "eval: --batch: %" PRIu64 " rows; give 1 to %d", o->batch, BATCH_MAX);
	if (!scores && (o->generate < 1 || o->generate > GENERATE_MAX))
		return fail(error, EXIT_USAGE, "eval: --generate: %" PRIu64 " tokens; give 1 to %d", o->generate, GENERATE_MAX);
	return trial_check_sums(&o->trial, error);
}

static enum parsed parse(int argc, char **argv, struct options *o, struct error *error)
{
	static const struct usage usage = {
		"eval MODEL --tokens FILE | --text FILE | --generate N [options]",
		"Runs a language model through the products of this library and prints its\n"
		"perplexity on tokens or a text, also in other formats: weights are quantized\n"
		"while they are read, as by mxfp quantize, and activations as the model runs.\n"
		"MODEL is a .safetensors or .gguf file or a model directory, quantized or not.\n"
		"Every number is the same on every machine, whatever the threads and batches.\n"
		"A TRIAL is f32 (the model as it is stored), bf16, f16, tf32, e4m3, e5m2, a\n"
		"preset, another block format or a FILE.json, mxfp-recipe(5), then perhaps\n"
		":RULE and /ACTIVATIONS.",
		"  mxfp eval model/ --text wiki.test.raw --try w4a8,nvfp4,mxfp8\n"
		"  mxfp eval model/ --tokens tokens.json --preset w4a8 --by-layer",
	};
	const struct option_spec options[] = {
		{.kind = OPTION_HEADING, .help = "Tokens"},
		{"tokens", 0, OPTION_STRING, "FILE", "run sequences of ids: .json, .npy, .u16, .u32 or .bin", &o->corpus.tokens},
		{"text", 0, OPTION_STRING, "FILE", "run a text, cut into windows; a shorter last one is left out", &o->corpus.text},
		{"tokenizer", 0, OPTION_STRING, "FILE", "the vocabulary: tokenizer.json, a GGUF file or that of llama2.c "
		 "(default: the model's)", &o->corpus.tokenizer},
		{"context", 'c', OPTION_UNSIGNED, "N", "cut sequences into windows of at most this many tokens", &o->corpus.context},
		{"skip", 0, OPTION_UNSIGNED, "N", "do not score the first N predictions of each window", &o->skip},
		{"sequences", 0, OPTION_UNSIGNED, "N", "take only the first N sequences, or windows of a text", &o->corpus.sequences},
		{.kind = OPTION_HEADING, .help = "Formats"},
		{"weights", 'w', OPTION_BLOCK, "FORMAT", "quantize weights (default: they stay as they are stored)",
		 &o->trial.weights},
		{"activations", 'a', OPTION_STRING, "FORMAT|none", "quantize the inputs of products with quantized weights "
		 "(default: as the preset, the recipe or the model says, else none)", &o->trial.activations},
		{"preset", 0, OPTION_STRING, PRESET_NAMES, "take formats as mxfp quantize does", &o->trial.preset},
		{"recipe", 0, OPTION_STRING, "FILE.json", "take the choice of tensors and formats from a mxfp-recipe(5)",
		 &o->trial.recipe},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule of MX weights", &o->trial.rule},
		{"block", 0, OPTION_STRING, "1x32|32x32", "rows and columns of MX weights that share a scale", &o->block},
		{"activation-rule", 0, OPTION_RULE, "RULE", "scale rule of MX activations", &o->trial.activation_rule},
		{"nvfp4-recipe", 0, OPTION_RECIPE, "RECIPE", "how NVFP4 scales are computed", &o->trial.nvfp4_recipe},
		{"include", 0, OPTION_LIST, "PATTERN", "also quantize matching tensors; may be repeated", &o->select.include},
		{"ignore", 0, OPTION_LIST, "PATTERN", "do not quantize matching tensors; may be repeated", &o->select.ignore},
		{"pad-tail", 0, OPTION_FLAG, NULL, "also quantize tensors whose rows are not a multiple of the block",
		 &o->trial.pad_tail},
		{"fuse", 0, OPTION_FLAG, NULL, "give NVFP4 weights that loaders fuse (q, k, v; gate, up) one tensor scale",
		 &o->trial.fuse},
		{"kv-cache", 0, OPTION_BLOCK, "FORMAT", "quantize the KV cache (default: as --attention)", &o->trial.kv_cache},
		{"attention", 0, OPTION_STRING, "FORMAT|none", "quantize queries and probabilities (default: none)",
		 &o->trial.attention},
		{.kind = OPTION_HEADING, .help = "Sums"},
		{"acc", 0, OPTION_ACC, "SUMS", "also sum products with weights in this way, slowly, compared with the same operands summed as "
		 "usual; inputs of f16, bf16, tf32 and FP8 weights are rounded to their format", &o->trial.acc},
		{"pass-k", 0, OPTION_UNSIGNED, "N", "elements of K per pass: 512 (default, for a machine none), 256 or 128", &o->trial.pass_k},
		{.kind = OPTION_HEADING, .help = "Comparison"},
		{"compare", 0, OPTION_STRING, "MODEL", "compare with another model, or a file of saved logits", &o->compare},
		{"try", 0, OPTION_STRING, "TRIAL,...", "one row for each, compared with the model as it is stored", &o->tries},
		{"by-layer", 0, OPTION_FLAG, NULL, "also what each layer and each kind of weights costs alone (default preset: w4a8)",
		 &o->by_layer},
		{"save-logits", 0, OPTION_STRING, "OUT", "save the logits of the first run, for --compare", &o->save},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &o->force},
		{.kind = OPTION_HEADING, .help = "Text"},
		{"generate", 0, OPTION_UNSIGNED, "N", "continue a text by at most N tokens", &o->generate},
		{"prompt", 0, OPTION_STRING, "TEXT", "the text (default: empty)", &o->prompt},
		{"temperature", 0, OPTION_STRING, "T", "draw tokens at random (default: 0, the most probable ones)",
		 &o->temperature},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of the random numbers", &o->seed},
		{.kind = OPTION_HEADING, .help = "Execution"},
		{"batch", 'b', OPTION_UNSIGNED, "N", "rows that run at once; does not affect the output", &o->batch},
		{"threads", 0, OPTION_THREADS, "N", "use at most this many threads, 0: one per processor; does not affect the output",
		 &o->trial.threads},
		{"profile", 0, OPTION_FLAG, NULL, "print where the time went, too, by layer and kind of work, beside the machine's limits",
		 &o->profile},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of tables", &o->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &o->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &o->model, error);
	if (parsed != PARSED_RUN)
		return parsed;
	o->trial.has_rule = options_given("rule");
	o->trial.has_nvfp4_recipe = options_given("nvfp4-recipe");
	o->trial.has_block = o->block != NULL;
	o->trial.has_acc = options_given("acc");
	o->trial.has_pass_k = options_given("pass-k");
	if (o->block != NULL && quantize_block(&o->trial.squares, o->block, "eval: --block", error) != EXIT_OK)
		return PARSED_ERROR;
	if (check(o, error) != EXIT_OK || check_used(o, error) != EXIT_OK)
		return PARSED_ERROR;
	return PARSED_RUN;
}

/* Makes the trials that the options ask for. */
static int make_trials(struct job *job, struct error *error)
{
	struct options *o = &job->options;
	const struct trial_options *t = &o->trial;

	trial_stored(&job->stored, o->compare != NULL ? "base" : NULL);
	if (o->tries == NULL) {
		/* --by-layer is about quantizing. */
		if (o->by_layer && t->preset == NULL && t->recipe == NULL && t->weights == OPTION_FORMAT_NONE)
			o->trial.preset = "w4a8";
		job->n_trials = 1;
		return trial_of_options(&job->trials[0], t, error);
	}
	return trial_parse(job->trials, &job->n_trials, EVALUATE_TRIALS, o->tries, t, error);
}

/* Refuses options of weights and activations that no trial takes. */
static int check_trials_used(const struct job *job, struct error *error)
{
	static const char weights[] = "weights that are quantized here";
	struct recipe_uses taken = {.rule = false};
	bool quantizes = false, activations = false, activation_rule = false, quantized;
	int code = quantized_any(&job->model, &quantized, error);

	if (code != EXIT_OK)
		return code;
	for (size_t i = 0; i < job->n_trials; i++) {
		const struct trial *trial = &job->trials[i];

		quantizes |= trial->quantizes;
		activations |= trial->takes_activations && (trial->quantizes || quantized);
		activation_rule |= trial_has_activation_rule(trial);
		taken.rule |= trial->uses.rule;
		taken.nvfp4_recipe |= trial->uses.nvfp4_recipe;
		taken.block |= trial->uses.block;
		taken.fuse |= trial->uses.fuse;
		taken.pad_tail |= trial->uses.pad_tail;
	}
	const struct option_use uses[] = {
		{"rule", quantizes, weights},
		{"nvfp4-recipe", quantizes, weights},
		{"block", quantizes, weights},
		{"fuse", quantizes, weights},
		{"include", quantizes, weights},
		{"ignore", quantizes, weights},
		{"pad-tail", quantizes, weights},
		{"activations", activations, "products with quantized weights, and a TRIAL that says nothing of them"},
		{"activation-rule", activation_rule, "activations, keys or queries in an MX format"},
		{NULL, true, NULL},
	};
	code = options_check_used(uses, error);
	return code == EXIT_OK ? options_check_weights(&taken, error) : code;
}

static bool any_quantizes(const struct job *job)
{
	for (size_t i = 0; i < job->n_trials; i++)
		if (job->trials[i].quantizes)
			return true;
	return false;
}

/* Has a model that is quantized run with the activations that its config.json tells loaders to quantize, if the options say
   nothing of them. */
static int set_activations(struct job *job, struct error *error)
{
	struct trial *trial = &job->trials[0];
	json_t *config;

	if (job->options.tries != NULL || job->options.trial.activations != NULL || trial->quantizes)
		return EXIT_OK;
	int code = model_config_copy(&job->model, &config, error);
	if (code == EXIT_OK)
		trial->activations = layout_config_activations(section_find(config));
	json_decref(config);
	return code;
}

static void make_settings(struct job *job)
{
	const struct options *o = &job->options;

	job->settings = (struct evaluate_settings){
		.command = "eval",
		.tokens = &job->corpus.tokens,
		.context = job->corpus.context,
		.skip = (size_t)o->skip,
		.batch = (size_t)o->batch,
		.threads = o->trial.threads,
		.note = tokenizer_note(job->corpus.tokenizer),
		.save = o->save,
		.profile = o->profile,
		.quiet = o->quiet,
	};
}

/* Opens the model and what goes with it. */
static int open_model(struct job *job, struct error *error)
{
	struct options *o = &job->options;
	int code = select_compile(&o->select, error);

	o->trial.select = &o->select;
	if (code == EXIT_OK)
		code = make_trials(job, error);
	if (code == EXIT_OK)
		code = meaning_open(&job->model, o->model, MEANING_READS, error);
	if (code == EXIT_OK && any_quantizes(job) && layouts[0]->one_expert_each)
		code = select_split_experts(&o->select, &job->model, error);
	if (code == EXIT_OK)
		code = corpus_open(&job->corpus, &job->model, &o->corpus, error);
	if (code == EXIT_OK)
		code = set_activations(job, error);
	if (code == EXIT_OK)
		code = check_trials_used(job, error);
	make_settings(job);
	for (size_t i = 0; i < job->n_trials && o->trial.has_acc && code == EXIT_OK; i++)
		code = evaluate_check_sums(&job->settings, &job->model, &job->trials[i], &o->trial, error);
	return code;
}

/* Runs the base: saved logits, another model, or this one as it is stored. */
static int run_base(struct job *job, struct error *error)
{
	const struct model *model = job->base_is_model ? &job->base : &job->model;

	if (job->options.compare != NULL && !job->base_is_model)
		return evaluate_open_base(&job->evaluation, job->options.compare, job->corpus.shape.vocabulary, error);
	return evaluate_run(&job->evaluation, model, &job->stored, EVALUATE_BASE, error);
}

/* Runs each trial as usual and by other sums. */
static int run_sums(struct job *job, struct error *error)
{
	int code = EXIT_OK;

	evaluate_expect(&job->evaluation, 2 * job->n_trials);
	for (size_t i = 0; i < job->n_trials && code == EXIT_OK; i++)
		code = evaluate_run_sums(&job->evaluation, &job->model, &job->trials[i], &job->options.trial, error);
	progress_end(&job->evaluation.progress);
	return code;
}

/* Runs everything, the base first if there is one. */
static int run_all(struct job *job, struct error *error)
{
	const struct options *o = &job->options;
	const bool beside = o->compare != NULL || o->tries != NULL || o->by_layer;
	const bool runs_base = beside && (o->compare == NULL || job->base_is_model);
	/* Logits of a run that stands alone are kept like those of a base if they are saved. */
	const enum evaluate_role role = beside ? EVALUATE_BESIDE : o->save != NULL ? EVALUATE_BASE : EVALUATE_ALONE;
	size_t n_parts = 0;
	int code = EXIT_OK;

	if (o->by_layer)
		code = evaluate_count_parts(&job->evaluation, &job->model, &job->trials[0], &n_parts, error);
	evaluate_expect(&job->evaluation, runs_base + job->n_trials + n_parts);
	if (code == EXIT_OK && beside)
		code = run_base(job, error);
	for (size_t i = 0; i < job->n_trials && code == EXIT_OK; i++) {
		const struct trial trial = o->trial.has_acc ? trial_as_summed(&job->trials[i], &o->trial) : job->trials[i];

		/* The model as it is stored has run, if it is the base. */
		if (o->compare == NULL && o->tries != NULL && trial_is_stored(&trial))
			continue;
		code = evaluate_run(&job->evaluation, &job->model, &trial, role, error);
	}
	if (code == EXIT_OK && o->by_layer)
		code = evaluate_by_layer(&job->evaluation, &job->model, &job->trials[0], error);
	progress_end(&job->evaluation.progress);
	return code;
}

/* Saves the logits, and prints once nothing else can fail. */
static int finish(struct job *job, struct error *error)
{
	const struct options *o = &job->options;
	const char *source = o->corpus.text != NULL ? o->corpus.text : o->corpus.tokens;
	int code = EXIT_OK;

	for (size_t i = 0; i < job->evaluation.n_results; i++)
		profile_add_limits(&job->evaluation.results[i].profile, job->settings.threads);
	if (o->save != NULL)
		code = logits_save(&job->evaluation.base, output_build(&job->output), error);
	if (code == EXIT_OK && o->save != NULL)
		code = output_commit(&job->output, error);
	if (code != EXIT_OK)
		return code;
	return o->json ? evaluate_print_json(&job->evaluation, source, error)
	               : evaluate_print_text(&job->evaluation, source, stdout, error);
}

static int score(struct job *job, struct error *error)
{
	const struct options *o = &job->options;
	int code = corpus_read(&job->corpus, &o->corpus, error);

	job->base_is_model = o->compare != NULL && !logits_is_file(o->compare);
	if (code == EXIT_OK && o->save != NULL && o->compare != NULL && !job->base_is_model)
		code = fail(error, EXIT_USAGE, "eval: --save-logits: the first run is %s, which holds saved logits; leave it out",
		            o->compare);
	if (code == EXIT_OK && o->save != NULL)
		code = output_begin_file(&job->output, o->save, o->force, error);
	if (code == EXIT_OK && job->base_is_model)
		code = meaning_open(&job->base, o->compare, MEANING_READS, error);
	if (code == EXIT_OK)
		code = evaluate_begin(&job->evaluation, &job->settings, error);
	if (code == EXIT_OK)
		code = o->trial.has_acc && o->compare == NULL ? run_sums(job, error) : run_all(job, error);
	return code == EXIT_OK ? finish(job, error) : code;
}

static int generate(struct job *job, struct error *error)
{
	const struct options *o = &job->options;
	const char *prompt = o->prompt != NULL ? o->prompt : "";
	struct evaluate_generation generation = {.prompt = &job->corpus.tokens, .n = (size_t)o->generate, .seed = o->seed,
	                                         .stream = o->json ? NULL : stdout};
	int code = EXIT_OK;
	char *end;

	if (o->temperature != NULL) {
		generation.temperature = strtod(o->temperature, &end);
		if (end == o->temperature || *end != '\0' || !(generation.temperature >= 0) || isinf(generation.temperature))
			return fail(error, EXIT_USAGE, "eval: invalid --temperature '%s': expected a number, for example 0.8",
			            o->temperature);
	}
	code = tokenizer_check_text(job->corpus.tokenizer, "eval: --prompt", prompt, strlen(prompt), error);
	if (code == EXIT_OK)
		code = tokenizer_encode(job->corpus.tokenizer, prompt, strlen(prompt), &job->corpus.tokens, error);
	if (code == EXIT_OK && job->corpus.tokens.n_ids == 0)
		code = fail(error, EXIT_USAGE, "eval: the prompt has no tokens, and the tokenizer adds none; give --prompt TEXT");
	if (code == EXIT_OK && o->corpus.context != CORPUS_ALL && job->corpus.tokens.n_ids + o->generate > o->corpus.context)
		code = fail(error, EXIT_USAGE, "eval: --context: a prompt of %zu tokens and %" PRIu64 " more are beyond %" PRIu64
		            "; give a larger one", job->corpus.tokens.n_ids, o->generate, o->corpus.context);
	if (code == EXIT_OK && job->corpus.shape.positions != 0 && job->corpus.tokens.n_ids + o->generate > job->corpus.shape.positions)
		code = fail(error, EXIT_USAGE, "eval: --generate: a prompt of %zu tokens and %" PRIu64 " more are beyond the %zu "
		            "positions of %s; give fewer", job->corpus.tokens.n_ids, o->generate, job->corpus.shape.positions,
		            job->model.path);
	const struct trial trial = o->trial.has_acc ? trial_as_summed(&job->trials[0], &o->trial) : job->trials[0];
	if (code == EXIT_OK)
		code = evaluate_generate(&generation, &job->settings, &job->model, &trial, job->corpus.tokenizer, error);
	profile_add_limits(&generation.result.profile, job->settings.threads);
	profile_add_limits(&generation.added, job->settings.threads);
	if (code == EXIT_OK)
		code = evaluate_print_generation(&generation, o->json, error);
	evaluate_generation_free(&generation);
	return code;
}

static void free_job(struct job *job)
{
	output_abandon(&job->output);
	evaluate_free(&job->evaluation);
	for (size_t i = 0; i < job->n_trials; i++)
		trial_free(&job->trials[i]);
	select_free(&job->options.select);
	corpus_close(&job->corpus);
	model_close(&job->model);
	model_close(&job->base);
	free(job);
}

static int run(int argc, char **argv, struct error *error)
{
	struct job *job = calloc(1, sizeof *job);

	if (job == NULL)
		return fail_memory(error);
	job->options = (struct options){
		.trial = {.command = "eval", .weights = OPTION_FORMAT_NONE, .activation_rule = MXFP_RULE_RCEIL,
		          .nvfp4_recipe = (int)layouts[0]->recipe, .kv_cache = OPTION_FORMAT_NONE, .acc = OPTION_CHOICE_NONE,
		          .pass_k = OPTION_UNSIGNED_NONE},
		.corpus = {.context = CORPUS_ALL, .sequences = CORPUS_ALL},
		.batch = EVALUATE_BATCH,
		.generate = OPTION_UNSIGNED_NONE,
	};
	const enum parsed parsed = parse(argc, argv, &job->options, error);
	int code = parsed_code(parsed);
	if (parsed == PARSED_RUN)
		code = open_model(job, error);
	if (parsed == PARSED_RUN && code == EXIT_OK)
		code = job->options.generate != OPTION_UNSIGNED_NONE ? generate(job, error) : score(job, error);
	if (parsed == PARSED_RUN && code == EXIT_OK)
		code = carry_warn(&job->model, stderr, error);
	if (parsed == PARSED_RUN && code == EXIT_OK && job->base_is_model)
		code = carry_warn(&job->base, stderr, error);
	free_job(job);
	return code;
}

const struct command command_eval = {"eval", "run a model and measure what formats cost it", run};
