/* SPDX-License-Identifier: MIT */
/* mxfp advise: measures which format and rule suit each layer. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/advise.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "io/facts.h"
#include "io/json.h"
#include "io/output.h"
#include "model/layout.h"
#include "model/model_output.h"

struct settings {
	const char *in, *out, *formats, *rules, *recipes, *bits;
	struct select select;
	int layout; /* an index of layouts[] */
	unsigned threads;
	bool json, force, quiet;
};

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"advise IN [-o FILE.json --bits B] [options]",
		"Measures the error of every layer of a model, a .safetensors file or a model\n"
		"directory, in each format with each scale rule, and prints the mixture of\n"
		"formats with the least error for each average number of bits. Only weights are\n"
		"measured.",
		"  mxfp advise model/\n"
		"  mxfp advise model/ --bits 5 -o recipe.json",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "FILE.json", "write the mixture chosen by --bits as a recipe",
		 &s->out},
		{"bits", 'b', OPTION_STRING, "B", "choose the best mixture of at most B bits per weight, scales included", &s->bits},
		{"formats", 0, OPTION_STRING, "FORMAT,...", "formats to choose from (default those of mxfp4, nvfp4, mxfp6-e2m3 and "
		 "mxfp8-e4m3 that the layout holds)", &s->formats},
		{"rules", 0, OPTION_STRING, "RULE,...", "scale rules to try for MX formats (default mse,floor,even,rceil for "
		 "mxfp4 and mse for the others)", &s->rules},
		{"nvfp4-recipe", 0, OPTION_STRING, "RECIPE,...", "recipes to try for NVFP4 (default that of the layout)", &s->recipes},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "the layout that the recipe is for: what its loaders do not take "
		 "quantized is left out", &s->layout},
		{"include", 0, OPTION_LIST, "PATTERN", "also measure matching tensors; may be repeated", &s->select.include},
		{"ignore", 0, OPTION_LIST, "PATTERN", "skip matching tensors; may be repeated", &s->select.ignore},
		{"threads", 0, OPTION_THREADS, "N", "use at most this many threads, 0: one per processor", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace FILE.json if it exists", &s->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of tables", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &s->quiet},
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
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

static int check(const struct settings *s, struct variants *variants, double *bits, struct error *error)
{
	const struct layout *layout = layouts[s->layout];
	char formats[DEFAULT_FORMATS_TEXT], *end = "";

	if (s->out != NULL && s->bits == NULL)
		return fail(error, EXIT_USAGE, "advise: -o writes the mixture of --bits; give --bits, such as --bits 5");
	*bits = s->bits != NULL ? strtod(s->bits, &end) : 0;
	if (s->bits != NULL && (end == s->bits || *end != '\0' || !(*bits > 0 && *bits <= 64)))
		return fail(error, EXIT_USAGE, "advise: invalid --bits '%s': expected a number, for example 5 or 4.75",
		            s->bits);
	int code = variants_parse(variants, s->formats != NULL ? s->formats : default_formats(layout, formats), s->rules,
	                          s->recipes, error);
	for (size_t v = 0; v < variants->n && code == EXIT_OK; v++) {
		if (s->recipes == NULL)
			variants->items[v].recipe = layout->recipe;
		code = check_variant(layout, &variants->items[v], error);
	}
	return code;
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

static int advise(const struct settings *s, const struct model *model, struct output *output, struct error *error)
{
	struct progress progress;
	struct measure_options options = {.noise_only = true, .threads = s->threads, .advance = advance,
	                                  .context = &progress};
	struct advice advice = {.model = model, .select = &s->select, .layout = layouts[s->layout], .options = &options};
	struct advise_mix mix = {0};
	double bits = 0;
	int code = check(s, &options.variants, &bits, error);

	if (code == EXIT_OK)
		code = measure(&advice, &progress, s, error);
	if (code == EXIT_OK && bits != 0)
		code = choose(&mix, &advice, bits, error);
	if (code == EXIT_OK && s->out != NULL)
		code = write_recipe(output, &advice, &mix, error);
	if (code == EXIT_OK)
		code = (s->json ? advise_json : advise_text)(&advice, bits != 0 ? &mix : NULL, error);
	free(mix.formats);
	advise_free(&advice);
	return code;
}

static int open_and_advise(struct settings *s, struct error *error)
{
	struct model model;
	struct output output = {0};
	int code = select_compile(&s->select, error);

	if (code == EXIT_OK)
		code = model_open(&model, s->in, error);
	if (code != EXIT_OK)
		return code;
	if (model_quantized_by(&model) != NULL)
		code = fail(error, EXIT_INPUT, "%s: is already quantized: %s; give the original", s->in,
		            model_quantized_by(&model));
	if (code == EXIT_OK && s->out != NULL)
		code = model_output_check_apart(&model, s->out, error);
	/* As the layout has them, so that the recipe names them. */
	if (code == EXIT_OK && layouts[s->layout]->one_expert_each)
		code = model_split_experts(&model, error);
	if (code == EXIT_OK && s->out != NULL)
		code = output_begin_file(&output, s->out, s->force, error);
	if (code == EXIT_OK)
		code = advise(s, &model, &output, error);
	output_abandon(&output);
	model_close(&model);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct settings settings = {0};
	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = open_and_advise(&settings, error);
	select_free(&settings.select);
	return code;
}

const struct command command_advise = {"advise", "choose a format and a scale rule for each layer", run};
