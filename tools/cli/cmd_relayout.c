/* SPDX-License-Identifier: MIT */
/* mxfp relayout: writes a quantized model in another layout, without quantizing it again. */
#include "config.h"

#include "cli/commands.h"
#include "cli/options.h"
#include "gguf/from_gguf.h"
#include "gguf/to_gguf.h"
#include "io/file_gguf.h"
#include "io/file_npy.h"
#include "rewrite/relayout.h"

static enum parsed parse(int argc, char **argv, struct relayout_settings *s, int *layout, struct error *error)
{
	static const struct usage usage = {
		"relayout IN -o OUT [options]",
		"Converts a quantized model to the layout of another program. Codes and block\n"
		"scales are moved bit for bit. A tensor scale that divides in one layout and\n"
		"multiplies in the other is replaced by its reciprocal; if that is not exact,\n"
		"--allow-rounding is required. A table lists what was done to each tensor. IN is\n"
		"a file or a model directory in any supported layout. OUT is a directory, or a\n"
		"file if it is named like one: OUT.gguf if IN is a GGUF file, or a directory of a\n"
		"model that mxfp eval runs; OUT.npy for one array of unquantized numbers.",
		"  mxfp relayout model-mxfp4 -o model-quark --layout quark",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "OUT", "file or directory to write", &s->out},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "tensor names, element order and config.json of the output",
		 layout},
		{"to", 't', OPTION_ELEMENT, "f32|bf16|f16",
		 "decode formats that the layout does not support, which are an error otherwise", &s->to},
		{"allow-rounding", 0, OPTION_FLAG, NULL,
		 "round the reciprocals of tensor scales; the originals are recorded", &s->allow_rounding},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &s->force},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of the table", &s->json},
		{"resume", 0, OPTION_FLAG, NULL, "resume the interrupted run in OUT.partial", &s->resume},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or the table", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
}

/* One array of plain numbers. */
static const struct layout layout_npy = {.name = "npy", .file_format = &file_npy, .order = &layout_rows};

/* Returns the layout of --layout; if it is not given, the layout that OUT's name implies, if any. */
static const struct layout *layout_of(const char *out, int layout)
{
	const struct file_format *named = file_format_named(out);

	if (options_given("layout") || (named != &file_gguf && named != &file_npy))
		return layouts[layout];
	return named == &file_gguf ? &layout_gguf : &layout_npy;
}

/* OUT is one file if it is named like one of the layout's. */
static int check(const struct relayout_settings *s, struct error *error)
{
	const struct file_format *format = s->layout->file_format, *named = file_format_named(s->out);

	if (named == NULL && format == &file_gguf)
		return fail(error, EXIT_USAGE, "%s: layout %s is that of a file; give it a name that ends in %s", s->out,
		            s->layout->name, format->suffix);
	if (named == NULL || named == format)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: layout %s is for %s files; name one, or a directory", s->out, s->layout->name,
	            format->suffix);
}

static int relayout(const struct relayout_settings *settings, const struct model *model, struct error *error)
{
	struct relayout_plan plan;
	int code = relayout_plan(&plan, settings, model, error);

	if (code == EXIT_OK)
		code = relayout_run(&plan, error);
	if (code == EXIT_OK && (settings->json || !settings->quiet))
		code = relayout_summary(&plan, error);
	relayout_plan_free(&plan);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct relayout_settings settings = {.to = OPTION_FORMAT_NONE};
	struct model model;
	int layout = 0;

	const enum parsed parsed = parse(argc, argv, &settings, &layout, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	if (settings.out == NULL)
		return fail(error, EXIT_USAGE, "relayout: no output given; -o OUT names a directory or a file");
	settings.layout = layout_of(settings.out, layout);
	int code = check(&settings, error);
	if (code == EXIT_OK)
		code = meaning_open(&model, settings.in, MEANING_MOVES, error);
	if (code != EXIT_OK)
		return code;
	const struct to_gguf_settings gguf = {settings.in, settings.out, settings.threads, settings.allow_rounding, settings.force,
	                                      settings.json, settings.resume, settings.quiet};
	const bool to = to_gguf_wanted(settings.out, &model), from = from_gguf_wanted(settings.out, &model);
	if ((to || from) && settings.to != OPTION_FORMAT_NONE)
		code = fail(error, EXIT_USAGE, "relayout: --to: a model keeps its formats on the way to GGUF and back; mxfp dequantize it first");
	else
		code = to ? to_gguf(&gguf, &model, error) : from ? from_gguf(&gguf, settings.layout, &model, error)
		                                                 : relayout(&settings, &model, error);
	model_close(&model);
	return code;
}

const struct command command_relayout = {"relayout", "convert a quantized model to another layout", run};
