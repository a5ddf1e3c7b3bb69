/* SPDX-License-Identifier: MIT */
/* mxfp quantize: quantizes weights to a block format, in the layout of a loader. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/suffix.h"
#include "cli/commands.h"
#include "io/file_gguf.h"
#include "model/choices.h"
#include "quantize/preset.h"
#include "quantize/quantize.h"
#include "quantize/ranks.h"

/* Options that are read further after parsing. */
struct texts {
	const char *activations, *block, *sparsity, *preset, *recipe, *bits, *shard_size, *memory, *part, *rate_disk, *rate_net;
	const char *usual_activations; /* used if no option gives them */
	int layout; /* an index of layouts[] */
	bool mixed;
};

static enum parsed parse(int argc, char **argv, struct quantize_settings *s, struct texts *texts, struct error *error)
{
	static const struct usage usage = {
		"quantize IN -o OUT [options]",
		"Quantizes the linear layers of a model along their rows and copies all other\n"
		"tensors. IN is a .safetensors file or a model directory. OUT is a directory:\n"
		"weights in the layout given by --layout, and config.json with\n"
		"quantization_config; tokenizer and other files of a model directory are copied.\n"
		"If IN is one file and OUT ends in .safetensors, OUT is that file alone. If OUT\n"
		"ends in .gguf, IN must be a GGUF file; weights become ggml's blocks of mxfp4 or\n"
		"nvfp4, and key-values are copied. A table lists what was done to each tensor and\n"
		"why. A PATTERN is a glob that matches whole tensor names ('*.q_proj.weight') or,\n"
		"after re:, a regular expression as in Python's re.match() ('re:.*\\.q_').",
		"  mxfp quantize model.safetensors -o model-mxfp4\n"
		"  mxfp quantize model/ -o model-w8 --weights mxfp8-e4m3 --ignore '*.o_proj.*'",
	};
	const struct option_spec options[] = {
		{.kind = OPTION_HEADING, .help = "Output"},
		{"output", 'o', OPTION_STRING, "OUT", "directory, .safetensors or .gguf file to write", &s->out},
		{"weights", 'w', OPTION_BLOCK, "FORMAT", "format of the weights", &s->choice.format},
		{"activations", 'a', OPTION_STRING, "FORMAT|none",
		 "format to which config.json tells loaders to quantize activations", &texts->activations},
		{"preset", 0, OPTION_STRING, PRESET_NAMES, "initial settings, which other options override (default w4a8)",
		 &texts->preset},
		{"bits", 0, OPTION_STRING, "B", "for w4a8-mixed: average bits per weight, scales included, up to which "
		 "layers with the largest error become MXFP8", &texts->bits},
		{"recipe", 0, OPTION_STRING, "FILE.json", "take the choice of tensors and formats from a mxfp-recipe(5)",
		 &texts->recipe},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "tensor names, element order and config.json of the output",
		 &texts->layout},
		{"sparsity", 0, OPTION_STRING, "N:M", "keep the N largest of every M weights along a row, such as 4:16",
		 &texts->sparsity},
		{.kind = OPTION_HEADING, .help = "Tensors"},
		{"include", 0, OPTION_LIST, "PATTERN", "also quantize matching tensors; may be repeated",
		 &s->select.include},
		{"ignore", 0, OPTION_LIST, "PATTERN", "do not quantize matching tensors; may be repeated", &s->select.ignore},
		{"pad-tail", 0, OPTION_FLAG, NULL,
		 "also quantize tensors whose rows are not a multiple of the block: rows are padded with zeros, "
		 "and their length is recorded", &s->pad_tail},
		{.kind = OPTION_HEADING, .help = "Rounding and scales"},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule of MX weights", &s->choice.rule},
		{"block", 0, OPTION_STRING, "1x32|32x32", "rows and columns of MX weights that share a scale", &texts->block},
		{"activation-rule", 0, OPTION_RULE, "RULE", "scale rule of activations, which is only recorded",
		 &s->activation_rule},
		{"nvfp4-recipe", 0, OPTION_RECIPE, "RECIPE",
		 "how NVFP4 scales are computed; the layouts modelopt, mlx and gguf have defaults of their own", &s->choice.recipe},
		{"fuse", 0, OPTION_FLAG, NULL, "give NVFP4 weights that loaders fuse (q, k, v; gate, up) one tensor scale, as "
		 "--preset nvfp4 does",
		 &s->fuse},
		{"round", 0, OPTION_ROUND, "MODE", "rounding of elements", &s->round},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed of stochastic rounding", &s->seed},
		{"non-finite", 0, OPTION_NON_FINITE, "POLICY", "treatment of NaN and Inf", &s->non_finite},
		{.kind = OPTION_HEADING, .help = "Execution"},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists, and discard an interrupted run", &s->force},
		{"dry-run", 'n', OPTION_FLAG, NULL, "print what would be done without writing anything", &s->dry_run},
		{"resume", 0, OPTION_FLAG, NULL, "resume the interrupted run in OUT.partial", &s->resume},
		{"shard-size", 0, OPTION_STRING, "BYTES",
		 "split the output into files of at most this many bytes of tensors, such as 5G (default: the files of the source)",
		 &texts->shard_size},
		{"part", 0, OPTION_STRING, "I/N",
		 "write only part I of N, to share the work among N machines; mxfp merge merges the parts", &texts->part},
		{"machines", 0, OPTION_UNSIGNED, "N",
		 "with --dry-run: print what each of N machines would read and write, and how long it would take", &s->machines},
		{"rate-disk", 0, OPTION_STRING, "BYTES", "bytes per second of a machine's disk (default: measured)",
		 &texts->rate_disk},
		{"rate-net", 0, OPTION_STRING, "BYTES", "bytes per second of a machine's network (default: not counted)",
		 &texts->rate_net},
		{"mem", 0, OPTION_STRING, "BYTES", "the most memory to use; does not affect the output",
		 &texts->memory},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of the table", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or the table, but what is lost, on stderr", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
}

/* Refuses options that this run would ignore, once it is known what it quantizes. A dry run takes those of the run that it
   shows. */
static int check_used(const struct quantize_settings *s, struct error *error)
{
	struct recipe_uses weights = recipe_uses(s->recipe, &s->choice);

	weights.pad_tail &= s->layout != &layout_gguf;
	const struct option_use uses[] = {
		{"seed", s->round == MXFP_ROUND_SR, "--round sr"},
		{"machines", s->dry_run, "--dry-run"},
		{"rate-disk", s->machines > 0, "--machines"},
		{"rate-net", s->machines > 0, "--machines"},
		{"part", s->machines == 0, "one machine, and --machines shows all"},
		{"quiet", s->machines == 0, "the table, and --machines prints another"},
		{"activation-rule", s->activations != OPTION_FORMAT_NONE && !mxfp_format_get_info(s->activations)->tensor_scale,
		 "MX activations"},
		{NULL, true, NULL},
	};
	const int code = options_check_used(uses, error);

	return code == EXIT_OK ? options_check_weights(&weights, error) : code;
}

/* Sets the activations. Those of the preset that nobody asked for are left out, and the summary says so, if the layout cannot
   express them. */
static int set_activations(struct quantize_settings *s, const struct texts *texts, struct error *error)
{
	static const char where[] = "quantize: --activations";
	const struct layout_form *form = layout_form(s->layout, s->choice.format, false);
	const uint32_t held = form != NULL ? form->activations : 0;
	const char *name = texts->activations;
	char known[LAYOUT_FORMATS_TEXT];
	int value;

	s->activations = OPTION_FORMAT_NONE;
	if (strcmp(name, RECIPE_NONE) == 0)
		return EXIT_OK;
	if (!choice_find(OPTION_BLOCK, name, &value))
		return choice_fail(OPTION_BLOCK, where, name, error);
	if ((held >> value & 1) != 0)
		s->activations = (enum mxfp_format)value;
	else if (name == texts->usual_activations && texts->preset == NULL)
		s->activations_lost = name;
	else if (name == texts->usual_activations)
		return fail(error, EXIT_USAGE, "quantize: --preset %s: config.json cannot say its activations '%s' of %s in layout %s; "
		            "give --activations %s, or another --layout", texts->preset, name,
		            mxfp_format_get_info(s->choice.format)->name, s->layout->name, layout_formats_text(held, RECIPE_NONE, known));
	else
		return fail(error, EXIT_USAGE, "%s: config.json cannot say '%s' of %s in layout %s; give %s", where, name,
		            mxfp_format_get_info(s->choice.format)->name, s->layout->name,
		            layout_formats_text(held, RECIPE_NONE, known));
	return EXIT_OK;
}

/* Checks that the layout can hold what a choice makes. */
static int check_choice(const struct quantize_settings *s, const struct quantize_choice *choice, const char *where,
                        struct error *error)
{
	const char *format = mxfp_format_get_info(choice->format)->name, *recipe = choice_name(OPTION_RECIPE, choice->recipe);
	const int own = (int)s->layout->recipe;
	char known[LAYOUT_FORMATS_TEXT];

	if (layout_form(s->layout, choice->format, false) == NULL)
		return fail(error, EXIT_USAGE, "%s: layout %s holds no %s; give --weights %s, or another --layout", where,
		            s->layout->name, format, layout_formats_text(layout_formats(s->layout), NULL, known));
	if (quantize_in_squares(choice) && choice->sparsity.m != 0)
		return fail(error, EXIT_USAGE, "%s: squares of " LAYOUT_SQUARES " are for dense weights, whose transpose they "
		            "serve; leave out the sparsity, or give --block 1x32", where);
	if (quantize_layout(s->layout, choice).form == NULL)
		return fail(error, EXIT_USAGE, "%s: layout %s holds no sparse weights; leave out the sparsity, or give "
		            "--layout %s", where, s->layout->name, layouts[0]->name);
	if (!mxfp_format_get_info(choice->format)->tensor_scale)
		return EXIT_OK;
	if (!layout_holds_recipe(s->layout, (enum mxfp_recipe)choice->recipe) && !layout_holds_tensor_scale(s->layout))
		return fail(error, EXIT_USAGE, "%s: --nvfp4-recipe %s: it has a tensor scale, for which layout %s has no place; "
		            "give torchao-1 or ggml", where, recipe, s->layout->name);
	if (!layout_holds_recipe(s->layout, (enum mxfp_recipe)choice->recipe))
		return fail(error, EXIT_USAGE, "%s: --nvfp4-recipe %s: its tensor scale %s, and that of layout %s %s; "
		            "give %s%storchao-1 or ggml", where, recipe, s->layout->divides ? "multiplies" : "divides",
		            s->layout->name, s->layout->divides ? "divides" : "multiplies",
		            own == MXFP_RECIPE_GGML ? "" : choice_name(OPTION_RECIPE, own), own == MXFP_RECIPE_GGML ? "" : ", ");
	if (choice->recipe == MXFP_RECIPE_GGML && s->round != MXFP_ROUND_RNE)
		return fail(error, EXIT_USAGE,
			    "%s: --nvfp4-recipe %s has a rounding of its own; leave out --round", where, recipe);
	return EXIT_OK;
}

/* Whether the output is a GGUF file, which has a layout of its own. */
static bool is_gguf(const struct quantize_settings *s)
{
	return s->out != NULL && suffix_stem(s->out, file_gguf.suffix) != 0;
}

static int check(const struct quantize_settings *s, struct error *error)
{
	const struct file_format *named = s->out != NULL ? file_format_named(s->out) : NULL;
	struct quantize_choice promoted = s->choice;
	char where[1024];

	if (s->out == NULL && !s->dry_run)
		return fail(error, EXIT_USAGE, "quantize: no output given; -o OUT names a directory");
	if (s->layout == &layout_gguf && s->out != NULL && !is_gguf(s))
		return fail(error, EXIT_USAGE, "quantize: %s: layout gguf is that of a file; give it a name that ends in "
		            ".gguf", s->out);
	if (named != NULL && named != s->layout->file_format)
		return fail(error, EXIT_USAGE, "quantize: %s: layout %s is for %s files; name one, or a directory", s->out,
		            s->layout->name, s->layout->file_format->suffix);
	int code = check_choice(s, &s->choice, "quantize", error);
	promoted.format = PRESET_PROMOTED;
	if (code == EXIT_OK && s->bits != 0)
		code = check_choice(s, &promoted, "quantize: --bits", error);
	for (size_t i = 0; s->recipe != NULL && i < s->recipe->n_rules && code == EXIT_OK; i++) {
		struct quantize_choice choice = s->choice;

		recipe_apply(&s->recipe->rules[i].change, &choice);
		snprintf(where, sizeof where, "%.700s: rules[%zu]", s->recipe->path, i);
		code = check_choice(s, &choice, where, error);
	}
	return code;
}

static int plan_and_run(const struct quantize_settings *settings, const struct model *model, struct error *error)
{
	struct quantize_plan plan;
	int code = quantize_plan(&plan, settings, model, error);

	if (code == EXIT_OK && !settings->dry_run)
		code = quantize_check_any(&plan, error);
	if (code == EXIT_OK && !settings->dry_run)
		code = quantize_run(&plan, error);
	if (code == EXIT_OK && settings->machines > 0)
		code = quantize_machines(&plan, error);
	bool shown = settings->machines == 0 && (settings->json || !settings->quiet) && ranks_own() == 0;
	if (code == EXIT_OK && shown)
		code = quantize_summary(&plan, error);
	else if (code == EXIT_OK && settings->machines == 0 && !settings->dry_run && ranks_own() == 0)
		quantize_losses(&plan);
	/* A dry run fails as the run would, after it has told of each tensor why. */
	if (code == EXIT_OK && settings->dry_run)
		code = quantize_check_any(&plan, error);
	quantize_plan_free(&plan);
	return code;
}

/* Sets what the options then change: the settings of the preset, the recipe and the layout that `texts` names, and in
   `texts` what they say about activations. */
static int set_base(struct quantize_settings *s, struct texts *texts, struct recipe *recipe, struct error *error)
{
	const struct layout *layout = is_gguf(s) ? &layout_gguf : layouts[texts->layout];
	const struct preset *preset;
	int code = preset_find(&preset, "quantize: --preset", texts->preset, error);

	if (code == EXIT_OK && texts->preset != NULL && texts->recipe != NULL)
		code = fail(error, EXIT_USAGE, "quantize: --preset and --recipe: give one of them");
	if (code == EXIT_OK && options_given("layout") && layout != layouts[texts->layout])
		code = fail(error, EXIT_USAGE, "quantize: --layout %s: a .gguf file is in layout gguf; name a directory",
		            layouts[texts->layout]->name);
	if (code != EXIT_OK)
		return code;
	*s = (struct quantize_settings){
		.layout = layout,
		.choice = {.format = preset->weights, .recipe = (int)layout->recipe},
		.fuse = preset->fuse && !layout_recipe_unscaled(layout->recipe),
		.activation_rule = MXFP_RULE_RCEIL,
		.non_finite = MXFP_NON_FINITE_ERROR,
	};
	const char *path = texts->recipe;
	*texts = (struct texts){
		.activations = preset->activations,
		.usual_activations = preset->activations,
		.memory = "64M",
		.mixed = preset->mixed,
	};
	if (path == NULL)
		return EXIT_OK;
	code = recipe_read(recipe, path, error);
	s->recipe = recipe;
	s->select.recipe = &recipe->include;
	recipe_apply(&recipe->by_default, &s->choice);
	s->fuse = recipe->fuse;
	if (recipe->activations != NULL)
		texts->activations = recipe->activations;
	return code;
}

/* Parses --bits, which is required by a mixed preset and refused with any other. */
static int set_bits(struct quantize_settings *s, const struct texts *texts, struct error *error)
{
	char *end;

	if (texts->mixed && texts->bits == NULL)
		return fail(error, EXIT_USAGE, "quantize: --preset %s needs --bits, such as --bits 5", texts->preset);
	if (!texts->mixed && texts->bits != NULL)
		return fail(error, EXIT_USAGE, "quantize: --bits is for --preset w4a8-mixed");
	if (!texts->mixed)
		return EXIT_OK;
	s->bits = strtod(texts->bits, &end);
	if (end == texts->bits || *end != '\0' || !(s->bits > 0 && s->bits <= 64))
		return fail(error, EXIT_USAGE, "quantize: invalid --bits '%s': expected a number, for example 5 or 4.75",
		            texts->bits);
	return EXIT_OK;
}

/* Reads what the options name and runs. */
static int run_settings(struct quantize_settings *settings, const struct texts *texts, struct error *error)
{
	struct model model;
	int code = EXIT_OK;

	if (texts->block != NULL)
		code = quantize_block(&settings->choice.squares, texts->block, "quantize: --block", error);
	if (code == EXIT_OK && texts->sparsity != NULL)
		code = sparsity_parse(texts->sparsity, "quantize: --sparsity", &settings->choice.sparsity, error);
	if (code == EXIT_OK)
		code = byte_size_parse(texts->memory, "quantize: --mem", &settings->memory_bytes, error);
	if (code == EXIT_OK && texts->rate_disk != NULL)
		code = byte_size_parse(texts->rate_disk, "quantize: --rate-disk", &settings->rate_disk, error);
	if (code == EXIT_OK && texts->rate_net != NULL)
		code = byte_size_parse(texts->rate_net, "quantize: --rate-net", &settings->rate_net, error);
	if (code == EXIT_OK && settings->machines > PARTS_MAX)
		code = fail(error, EXIT_USAGE, "quantize: --machines: at most %d", PARTS_MAX);
	if (code == EXIT_OK && texts->part != NULL)
		code = part_parse(texts->part, "quantize: --part", &settings->part, error);
	if (code == EXIT_OK && texts->shard_size != NULL)
		code = byte_size_parse(texts->shard_size, "quantize: --shard-size", &settings->shard_bytes, error);
	if (code == EXIT_OK)
		code = set_bits(settings, texts, error);
	if (code == EXIT_OK)
		code = check(settings, error);
	if (code == EXIT_OK)
		code = set_activations(settings, texts, error);
	if (code == EXIT_OK)
		code = check_used(settings, error);
	if (code == EXIT_OK)
		code = select_compile(&settings->select, error);
	if (code == EXIT_OK)
		code = meaning_open(&model, settings->in, MEANING_DECODES, error);
	if (code != EXIT_OK)
		return code;
	if (settings->layout->one_expert_each)
		code = select_split_experts(&settings->select, &model, error);
	if (code == EXIT_OK)
		code = plan_and_run(settings, &model, error);
	model_close(&model);
	return code;
}

/* Runs one process, which may be one of several ranks. */
static int run_rank(int argc, char **argv, struct error *error)
{
	struct quantize_settings settings = {0};
	struct recipe recipe = {0};
	struct texts texts = {0};

	set_base(&settings, &texts, &recipe, error);
	const enum parsed parsed = parse(argc, argv, &settings, &texts, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	/* Now that the preset and the recipe are known, the options change what they say. */
	int code = set_base(&settings, &texts, &recipe, error);
	if (code == EXIT_OK && parse(argc, argv, &settings, &texts, error) != PARSED_RUN)
		code = EXIT_USAGE;
	if (code == EXIT_OK)
		code = run_settings(&settings, &texts, error);
	select_free(&settings.select);
	recipe_free(&recipe);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	int code = ranks_begin(error);

	if (code == EXIT_OK)
		code = ranks_share(run_rank(argc, argv, error), error);
	return ranks_end(code);
}

const struct command command_quantize = {"quantize", "quantize a model's weights to a block format", run};
