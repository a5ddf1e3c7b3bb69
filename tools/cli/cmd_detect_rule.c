/* SPDX-License-Identifier: MIT */
/* mxfp detect-rule: finds which scale rule and rounding made a quantized model. */
#include "config.h"

#include "analyse/detect.h"
#include "cli/commands.h"
#include "model/carry.h"

static enum parsed parse(int argc, char **argv, struct detect_settings *s, struct error *error)
{
	static const struct usage usage = {
		"detect-rule QUANTIZED --ref SOURCE [options]",
		"Finds the scale rule (NVFP4: the recipe) and the rounding by which QUANTIZED was\n"
		"made from SOURCE; both are files or model directories. Quantizes pieces of each\n"
		"tensor by every method that mxfp knows, also through bf16 or f16 and without -0,\n"
		"and compares scales and codes. Tensors are matched by name, those of GGUF files\n"
		"and of others by what llama.cpp calls them. Exits with 1 if no method reproduces\n"
		"a tensor.",
		"  mxfp detect-rule model-mxfp4 --ref model.safetensors",
	};
	const struct option_spec options[] = {
		{"ref", 0, OPTION_STRING, "SOURCE", "the unquantized model", &s->source},
		{"all", 0, OPTION_FLAG, NULL, "compare every element, not 64 pieces of each tensor", &s->all},
		{"seed", 0, OPTION_UNSIGNED, "N", "seed passed to mxfp quantize, for stochastic rounding", &s->seed},
		{"json", 0, OPTION_FLAG, NULL, "print JSON, including every method", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->quantized, error);
}

static int detect_and_print(const struct model *quantized, const struct model *source,
                            const struct detect_settings *settings, struct error *error)
{
	struct detection detection = {0};
	int code = detect(&detection, quantized, source, settings, error);

	if (code == EXIT_OK && settings->json)
		code = detect_print_json(&detection, settings, error);
	else if (code == EXIT_OK)
		code = detect_print_text(&detection, error);
	if (code == EXIT_OK && !detect_all_exact(&detection))
		code = EXIT_CHECK;
	detection_free(&detection);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct detect_settings settings = {0};
	struct model quantized = {0}, source = {0};

	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	if (settings.source == NULL)
		return fail(error, EXIT_USAGE, "detect-rule: no source given; --ref SOURCE names the model that was "
		            "quantized");
	int code = meaning_open(&quantized, settings.quantized, MEANING_READS, error);
	if (code == EXIT_OK)
		code = meaning_open(&source, settings.source, MEANING_READS, error);
	if (code == EXIT_OK)
		code = model_split_like(&source, &quantized, error);
	if (code == EXIT_OK)
		code = detect_and_print(&quantized, &source, &settings, error);
	if (code == EXIT_OK)
		code = carry_warn(&quantized, stderr, error);
	model_close(&quantized);
	model_close(&source);
	return code;
}

const struct command command_detect_rule = {"detect-rule", "find the scale rule and rounding of a quantized model",
                                            run};
