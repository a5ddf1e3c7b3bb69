/* SPDX-License-Identifier: MIT */
/* mxfp calibrate: chooses weights that a block format holds by what a model does with tokens or a text, or with given inputs of
   its layers. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/suffix.h"
#include "base/word.h"
#include "calibrate/calibrate.h"
#include "cli/commands.h"
#include "eval/corpus.h"
#include "io/output.h"
#include "model/decoded.h"
#include "model/layout.h"
#include "quantize/preset.h"
#include "quantize/ranks.h"

struct options {
	struct calibrate_settings settings;
	struct corpus_options corpus;
	struct trial_options trial;
	struct select select;
	const char *activation_file, *damping, *memory;
	int layout; /* an index of layouts[] */
};

static enum parsed parse(int argc, char **argv, struct options *o, struct error *error)
{
	static const struct usage usage = {
		"calibrate MODEL --tokens FILE | --text FILE -o OUT [options]",
		"Chooses the weights of a model's linear layers among the numbers that a block\n"
		"format holds, so that its outputs on a calibration set change least (GPTQ, and\n"
		"SparseGPT with --sparsity). mxfp quantize to that format then loses nothing\n"
		"more; the man page says with which options. MODEL is a .safetensors file or a\n"
		"model directory. OUT is a directory, or a file if MODEL is one and OUT ends in\n"
		".safetensors. A table has the signal-to-noise ratio of each layer's outputs,\n"
		"with weights rounded to nearest and as written. With --activation-file no model\n"
		"runs: each tensor is calibrated on its inputs in that file, so MODEL may be of\n"
		"any kind. The bytes of OUT do not depend on threads, memory, instruction set or\n"
		"the ranks of mpirun, which share the work on tokens.",
		"  mxfp calibrate model/ --text train.txt -o model-calibrated\n"
		"  mxfp quantize model-calibrated/ -o model-w4a8\n"
		"  mpirun -n 4 mxfp-mpi calibrate model/ --text train.txt -o model-calibrated",
	};
	const struct option_spec options[] = {
		{.kind = OPTION_HEADING, .help = "Output"},
		{"output", 'o', OPTION_STRING, "OUT", "directory or .safetensors file to write", &o->settings.out},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &o->settings.force},
		{"resume", 0, OPTION_FLAG, NULL, "resume the interrupted run in OUT.partial", &o->settings.resume},
		{.kind = OPTION_HEADING, .help = "Tokens"},
		{"tokens", 0, OPTION_STRING, "FILE", "calibrate on sequences of ids: .json, .npy, .u16, .u32 or .bin",
		 &o->corpus.tokens},
		{"text", 0, OPTION_STRING, "FILE", "calibrate on a text, cut into windows; a shorter last one is left out",
		 &o->corpus.text},
		{"tokenizer", 0, OPTION_STRING, "FILE", "the vocabulary: tokenizer.json, a GGUF file or that of llama2.c "
		 "(default: the model's)", &o->corpus.tokenizer},
		{"context", 'c', OPTION_UNSIGNED, "N", "cut sequences into windows of at most this many tokens", &o->corpus.context},
		{"sequences", 0, OPTION_UNSIGNED, "N", "take only the first N sequences, or windows of a text", &o->corpus.sequences},
		{.kind = OPTION_HEADING, .help = "Inputs of layers, instead of tokens"},
		{"activation-file", 0, OPTION_STRING, "FILE", "calibrate on inputs in a .safetensors or .npy file: rows in one tensor per "
		 "layer, with its name, or in one for every layer whose shape it fits", &o->activation_file},
		{.kind = OPTION_HEADING, .help = "Formats"},
		{"weights", 'w', OPTION_BLOCK, "FORMAT", "block format of the weights", &o->trial.weights},
		{"activations", 'a', OPTION_STRING, "FORMAT|none", "format of the inputs that weights are chosen for (default: as the "
		 "preset or the recipe says)", &o->trial.activations},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "take the tensors that mxfp quantize takes in this layout: gpt-oss holds experts in "
		 "one tensor", &o->layout},
		{"preset", 0, OPTION_STRING, "w4a8|mxfp8|nvfp4", "take formats as mxfp quantize does (default: w4a8)", &o->trial.preset},
		{"recipe", 0, OPTION_STRING, "FILE.json", "take the choice of tensors and formats from a mxfp-recipe(5)",
		 &o->trial.recipe},
		{"sparsity", 0, OPTION_STRING, "N:M", "keep N of every M weights along a row, such as 4:16, as mxfp quantize does",
		 &o->trial.sparsity},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule of MX weights", &o->trial.rule},
		{"nvfp4-recipe", 0, OPTION_RECIPE, "RECIPE", "how NVFP4 scales are computed; mxfp quantize needs the same",
		 &o->trial.nvfp4_recipe},
		{"activation-rule", 0, OPTION_RULE, "RULE", "scale rule of MX activations", &o->trial.activation_rule},
		{"include", 0, OPTION_LIST, "PATTERN", "also calibrate matching tensors; may be repeated", &o->select.include},
		{"ignore", 0, OPTION_LIST, "PATTERN", "leave out matching tensors; may be repeated", &o->select.ignore},
		{"fuse", 0, OPTION_FLAG, NULL, "give NVFP4 weights that loaders fuse (q, k, v; gate, up) one tensor scale, as mxfp "
		 "quantize --fuse does", &o->trial.fuse},
		{"pad-tail", 0, OPTION_FLAG, NULL, "also calibrate tensors whose rows are not a multiple of the block",
		 &o->trial.pad_tail},
		{"damping", 0, OPTION_STRING, "PART", "add this part of the mean square of a layer's inputs to the square of each: more keeps "
		 "weights nearer to what they were", &o->damping},
		{.kind = OPTION_HEADING, .help = "Execution"},
		{"mem", 0, OPTION_STRING, "BYTES", "the most memory to use; does not affect the output", &o->memory},
		{"threads", 0, OPTION_THREADS, "N", "use at most this many threads, 0: one per processor; does not affect the output",
		 &o->trial.threads},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of the table", &o->settings.json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or the table, but what is lost, on stderr", &o->settings.quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};
	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &o->settings.in, error);
	const struct option_use uses[] = {
		{"tokenizer", o->corpus.text != NULL, "--text"},
		{"context", o->activation_file == NULL, "--tokens or --text"},
		{"sequences", o->activation_file == NULL, "--tokens or --text"},
		{NULL, true, NULL},
	};

	if (parsed == PARSED_RUN && options_check_used(uses, error) != EXIT_OK)
		return PARSED_ERROR;
	o->trial.has_nvfp4_recipe = parsed == PARSED_RUN && options_given("nvfp4-recipe");
	o->trial.has_rule = parsed == PARSED_RUN && options_given("rule");
	return parsed;
}

static int check(struct options *o, struct error *error)
{
	char *end;

	if (o->settings.out == NULL)
		return fail(error, EXIT_USAGE, "calibrate: no output given; -o OUT names a directory or a .safetensors file");
	if ((o->corpus.tokens != NULL) + (o->corpus.text != NULL) + (o->activation_file != NULL) != 1)
		return fail(error, EXIT_USAGE, "calibrate: --tokens, --text and --activation-file: give one of them");
	if (o->trial.preset != NULL && o->trial.recipe != NULL)
		return fail(error, EXIT_USAGE, "calibrate: --preset and --recipe: give one of them");
	o->settings.damping = strtod(o->damping, &end);
	if (end == o->damping || *end != '\0' || !(o->settings.damping >= 1e-6 && o->settings.damping <= 1e6))
		return fail(error, EXIT_USAGE, "calibrate: invalid --damping '%s': expected a number from 1e-6 to 1e6, for example "
		            "0.01", o->damping);
	return o->memory == NULL ? EXIT_OK : byte_size_parse(o->memory, "calibrate: --mem", &o->settings.memory_bytes, error);
}

static int open_inputs(struct file *inputs, const struct options *o, struct error *error)
{
	int code = output_check_apart(o->settings.out, o->activation_file, error);

	if (code == EXIT_OK)
		code = file_open(inputs, o->activation_file, error);
	return code == EXIT_OK ? file_check_rows(inputs, error) : code;
}

static int open_corpus(struct corpus *corpus, const struct model *model, const struct options *o, struct error *error)
{
	const int code = corpus_open(corpus, model, &o->corpus, error);

	return code == EXIT_OK ? corpus_read(corpus, &o->corpus, error) : code;
}

/* "DIR-quantized" of "DIR/" and of "DIR.safetensors". */
static char *quantized_name(const char *out)
{
	const size_t stem = suffix_stem(out, ".safetensors"), room = strlen(out) + sizeof "-quantized";
	size_t n = stem != 0 ? stem : strlen(out);
	char *name = malloc(room);

	while (n > 1 && out[n - 1] == '/')
		n--;
	if (name != NULL)
		snprintf(name, room, "%.*s-quantized", (int)n, out);
	return name;
}

/* The command that quantizes what was written, with what says the same there. */
static void print_next(FILE *file, const struct options *o, const char *quantized)
{
	const struct {
		const char *name, *value;
	} options[] = {
		{"preset", options_given("preset") ? o->trial.preset : NULL},
		{"recipe", o->trial.recipe},
		{"weights", o->trial.weights != OPTION_FORMAT_NONE ? mxfp_format_get_info(o->trial.weights)->name : NULL},
		{"activations", o->trial.activations},
		{"layout", o->layout != 0 ? layouts[o->layout]->name : NULL},
		{"sparsity", o->trial.sparsity},
		{"rule", o->trial.has_rule ? mxfp_option_name(MXFP_OPTION_RULE, o->trial.rule) : NULL},
		{"nvfp4-recipe", o->trial.has_nvfp4_recipe ? mxfp_option_name(MXFP_OPTION_RECIPE, o->trial.nvfp4_recipe) : NULL},
		{"activation-rule", options_given("activation-rule") ? mxfp_option_name(MXFP_OPTION_RULE, o->trial.activation_rule) : NULL},
	};
	const struct string_list *lists[] = {&o->select.include, &o->select.ignore};

	fputs("mxfp quantize ", file);
	word_print_path(file, o->settings.out);
	fputs(" -o ", file);
	word_print_path(file, quantized);
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		if (options[i].value != NULL)
			word_print_option(file, options[i].name, options[i].value);
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			word_print_option(file, k == 0 ? "include" : "ignore", lists[k]->items[i]);
	fputs(o->trial.fuse ? " --fuse" : "", file);
	fputs(o->trial.pad_tail ? " --pad-tail" : "", file);
	allow_print(file);
}

static int make_next(char **command, const struct options *o, struct error *error)
{
	char *quantized = quantized_name(o->settings.out);
	size_t n = 0;
	FILE *file = quantized != NULL ? open_memstream(command, &n) : NULL;

	if (file != NULL)
		print_next(file, o, quantized);
	free(quantized);
	return file != NULL && fclose(file) == 0 ? EXIT_OK : fail_memory(error);
}

static int calibrate(struct options *o, const struct model *model, const struct trial *trial, struct error *error)
{
	struct calibration done = {0};
	struct corpus corpus = {0};
	struct file inputs = {0};
	char *command = NULL;
	int code = o->activation_file != NULL ? open_inputs(&inputs, o, error) : open_corpus(&corpus, model, o, error);

	o->settings.trial = trial;
	o->settings.tokens = &corpus.tokens;
	o->settings.inputs = o->activation_file != NULL ? &inputs : NULL;
	o->settings.threads = o->trial.threads;
	if (code == EXIT_OK)
		code = make_next(&command, o, error);
	o->settings.command = command;
	if (code == EXIT_OK)
		code = calibrate_run(&done, &o->settings, model, error);
	if (code == EXIT_OK && (o->settings.json || !o->settings.quiet) && ranks_own() == 0)
		code = calibrate_print(&done, &o->settings, model, error);
	else if (code == EXIT_OK && ranks_own() == 0) {
		decoded_print(stderr, "mxfp: ", model);
		carry_losses(&done.carry, stderr);
	}
	calibrate_free(&done);
	corpus_close(&corpus);
	file_close(&inputs);
	free(command);
	return code;
}

/* Refuses options that the trial does not take. */
static int check_trial_used(const struct trial *trial, struct error *error)
{
	const struct option_use uses[] = {
		{"activation-rule", trial_has_activation_rule(trial), "MX activations"}, {NULL, true, NULL},
	};
	const int code = options_check_used(uses, error);

	return code == EXIT_OK ? options_check_weights(&trial->uses, error) : code;
}

/* Has weights chosen for the inputs that mxfp quantize will have config.json say: none, where the layout cannot say those of the
   preset. Options may ask for others. */
static int set_activations(struct trial *trial, const struct options *o, struct error *error)
{
	const struct quantize_settings *s = &trial->settings;

	if (o->trial.activations != NULL || o->trial.recipe != NULL || trial->activations == s->activations)
		return EXIT_OK;
	if (options_given("preset"))
		return fail(error, EXIT_USAGE, "calibrate: --preset %s: config.json cannot say its activations '%s' of %s in layout %s; give "
		            "--activations, none as mxfp quantize will have it or another, or another --layout", o->trial.preset,
		            mxfp_format_get_info(trial->activations)->name, mxfp_format_get_info(s->choice.format)->name, s->layout->name);
	trial->activations = OPTION_FORMAT_NONE;
	return EXIT_OK;
}

static int run_options(struct options *o, struct error *error)
{
	struct trial trial = {0};
	struct model model = {0};
	int code = check(o, error);

	if (code == EXIT_OK)
		code = select_compile(&o->select, error);
	o->trial.select = &o->select;
	o->trial.layout = layouts[o->layout];
	if (!o->trial.has_nvfp4_recipe)
		o->trial.nvfp4_recipe = (int)o->trial.layout->recipe;
	if (o->trial.preset == NULL && o->trial.recipe == NULL)
		o->trial.preset = "w4a8";
	if (code == EXIT_OK)
		code = trial_of_options(&trial, &o->trial, error);
	if (code == EXIT_OK)
		code = set_activations(&trial, o, error);
	if (code == EXIT_OK)
		code = check_trial_used(&trial, error);
	if (code == EXIT_OK)
		code = meaning_open(&model, o->settings.in, MEANING_DECODES, error);
	if (code == EXIT_OK)
		code = calibrate(o, &model, &trial, error);
	model_close(&model);
	trial_free(&trial);
	return code;
}

/* Runs one process, which may be one of several ranks. */
static int run_rank(int argc, char **argv, struct error *error)
{
	struct options o = {
		.trial = {.command = "calibrate", .weights = OPTION_FORMAT_NONE, .activation_rule = MXFP_RULE_RCEIL,
		          .nvfp4_recipe = (int)layouts[0]->recipe, .kv_cache = OPTION_FORMAT_NONE},
		.corpus = {.context = CORPUS_ALL, .sequences = CORPUS_ALL},
		.damping = "0.01",
	};
	const enum parsed parsed = parse(argc, argv, &o, error);
	const int code = parsed == PARSED_RUN ? run_options(&o, error) : parsed_code(parsed);

	select_free(&o.select);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	int code = ranks_begin(error);

	if (code == EXIT_OK)
		code = ranks_share(run_rank(argc, argv, error), error);
	return ranks_end(code);
}

const struct command command_calibrate = {"calibrate", "choose weights of a format on a calibration set", run};
