/* SPDX-License-Identifier: MIT */
/* mxfp relayout: a quantized model in another layout, without quantizing it again. */
#include "config.h"

#include "cli/commands.h"
#include "cli/options.h"
#include "io/file_gguf.h"
#include "io/file_npy.h"
#include "rewrite/relayout.h"

static enum parsed parse(int argc, char **argv, struct relayout_settings *s, int *layout, struct error *error)
{
	static const struct usage usage = {
		"relayout IN -o OUT [options]",
		"Brings a quantized model into the layout of another program. Codes and block\n"
		"scales are moved as they are; a tensor scale that one layout divides by and the\n"
		"other multiplies with is inverted, and if that has to be rounded it is refused\n"
		"without --allow-rounding. A table says what was done to each tensor. IN is a\n"
		"file or a model directory, in any layout that is known, and need not say which.\n"
		"OUT is a directory, or one file if it is named like one; OUT.gguf is in ggml's\n"
		"blocks, OUT.npy one array of plain numbers.",
		"  mxfp relayout model-mxfp4 -o model-quark --layout quark",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "OUT", "file or directory to write", &s->out},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "names and order of what is written, and what config.json says",
		 layout},
		{"to", 't', OPTION_ELEMENT, "f32|bf16|f16", "decode what the layout does not hold, which is refused else",
		 &s->to},
		{"allow-rounding", 0, OPTION_FLAG, NULL,
		 "round reciprocals of tensor scales; what they were is noted for the way back", &s->allow_rounding},
		{"threads", 0, OPTION_THREADS, "N",
		 "at most this many threads, 0: one a processor; never changes the output", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &s->force},
		{"quiet", 'q', OPTION_FLAG, NULL, "no progress line, and no table", &s->quiet},
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
}

/* One array of plain numbers. */
static const struct layout layout_npy = {.name = "npy", .file_format = &file_npy, .order = &layout_rows};

/* The layout that OUT says by its name, where it does. */
static const struct layout *layout_of(const char *out, int layout)
{
	const struct file_format *named = file_format_named(out);

	if (layout != 0 || (named != &file_gguf && named != &file_npy))
		return layouts[layout];
	return named == &file_gguf ? &layout_gguf : &layout_npy;
}

/* OUT is one file if it is named like one of the layout's. */
static int check(const struct relayout_settings *s, struct error *error)
{
	const struct file_format *format = s->layout->file_format, *named = file_format_named(s->out);

	if (named == NULL && format == &file_gguf)
		return fail(error, EXIT_USAGE, "%s: layout %s is that of a file / give it a name that ends in %s", s->out,
		            s->layout->name, format->suffix);
	if (named == NULL || named == format)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: layout %s is for %s files / name one, or a directory", s->out, s->layout->name,
	            format->suffix);
}

static int relayout(const struct relayout_settings *settings, const struct model *model, struct error *error)
{
	struct relayout_plan plan;
	int code = relayout_plan(&plan, settings, model, error);

	if (code == EXIT_OK)
		code = relayout_run(&plan, error);
	if (code == EXIT_OK && !settings->quiet)
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
		return fail(error, EXIT_USAGE, "relayout: no output given / -o OUT names a directory or a file");
	settings.layout = layout_of(settings.out, layout);
	int code = check(&settings, error);
	if (code == EXIT_OK)
		code = model_open(&model, settings.in, error);
	if (code != EXIT_OK)
		return code;
	code = relayout(&settings, &model, error);
	model_close(&model);
	return code;
}

const struct command command_relayout = {"relayout", "a quantized model into another layout", run};
