/* SPDX-License-Identifier: MIT */
/* mxfp convert: writes a quantized model in another layout or another format. */
#include "config.h"

#include "base/byte_size.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "gguf/from_gguf.h"
#include "gguf/to_gguf.h"
#include "io/file_gguf.h"
#include "io/file_npy.h"
#include "model/carry.h"
#include "rewrite/convert.h"

/* Options that are read further after parsing. */
struct texts {
	const char *memory, *part;
	int layout; /* an index of layouts[] */
};

static enum parsed parse(int argc, char **argv, struct convert_settings *s, struct texts *texts, struct error *error)
{
	static const struct usage usage = {
		"convert IN -o OUT [options]",
		"Writes a quantized model in the layout of another program, or with --to in\n"
		"another format. Without --to, codes and block scales are moved bit for bit.\n"
		"With --to, a block whose numbers the format holds is exact; others are an error\n"
		"unless --allow-rounding is given, and are counted. A tensor scale that divides\n"
		"in one layout and multiplies in the other is replaced by its reciprocal; if\n"
		"that is not exact, --allow-rounding is required, too. A table lists what was\n"
		"done to each tensor. IN is a file or a model directory in any supported layout.\n"
		"OUT is a directory, or a file if it is named like one: OUT.gguf if IN is a GGUF\n"
		"file, or a directory of a model that mxfp eval runs; OUT.npy for one array of\n"
		"unquantized numbers.",
		"  mxfp convert model-mxfp4 -o model-quark --layout quark\n"
		"  mxfp convert gpt-oss-20b -o gpt-oss-nvfp4 --to nvfp4 --layout modelopt",
	};
	const struct option_spec options[] = {
		{"output", 'o', OPTION_STRING, "OUT", "file or directory to write", &s->out},
		{"to", 't', OPTION_BLOCK, "FORMAT", "format of the output; otherwise formats stay as they are", &s->to},
		{"ignore", 0, OPTION_LIST, "PATTERN", "keep the format of matching tensors; may be repeated", &s->ignore},
		{"layout", 'l', OPTION_LAYOUT, "LAYOUT", "tensor names, element order and config.json of the output",
		 &texts->layout},
		{"decode-rest", 0, OPTION_ELEMENT, "f32|bf16|f16",
		 "decode formats that the layout does not support, which are an error otherwise", &s->decode},
		{"allow-rounding", 0, OPTION_FLAG, NULL,
		 "round blocks that are not exact in the format, and the reciprocals of tensor scales, of which the originals are recorded",
		 &s->allow_rounding},
		{"rule", 'r', OPTION_RULE, "RULE", "scale rule of MX blocks that are rounded", &s->rule},
		{"non-finite", 0, OPTION_NON_FINITE, "POLICY", "treatment of NaN and Inf that the format does not hold", &s->non_finite},
		{"part", 0, OPTION_STRING, "I/N",
		 "write only part I of N, to share the work among N machines; mxfp merge merges the parts", &texts->part},
		{"delete-source-shards", 0, OPTION_FLAG, NULL,
		 "delete each shard of IN once all that OUT needs of it is on the disk, for disks without room for both", &s->delete_sources},
		{"mem", 0, OPTION_STRING, "BYTES", "the most memory to use; does not affect the output", &texts->memory},
		{"threads", 0, OPTION_THREADS, "N",
		 "use at most this many threads, 0: one per processor; does not affect the output", &s->threads},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &s->force},
		{"dry-run", 'n', OPTION_FLAG, NULL, "print what would be done without writing anything", &s->dry_run},
		{"json", 0, OPTION_FLAG, NULL, "print JSON instead of the table", &s->json},
		{"resume", 0, OPTION_FLAG, NULL, "resume the interrupted run in OUT.partial", &s->resume},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or the table", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->in, error);
}

/* Refuses options that this run would ignore. */
static int check_used(const struct convert_settings *s, struct error *error)
{
	const bool changes = s->to != OPTION_FORMAT_NONE;
	const struct option_use uses[] = {
		{"rule", changes && !mxfp_format_get_info(s->to)->tensor_scale, "--to with an MX format"},
		{"non-finite", changes, "--to"},
		{"ignore", changes, "--to"},
		{NULL, true, NULL},
	};

	return options_check_used(uses, error);
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
static int check(const struct convert_settings *s, struct error *error)
{
	const struct file_format *format = s->layout->file_format, *named = file_format_named(s->out);
	char known[LAYOUT_FORMATS_TEXT];

	if (s->to != OPTION_FORMAT_NONE && layout_form(s->layout, s->to, false) == NULL)
		return fail(error, EXIT_USAGE, "convert: --to %s: layout %s holds %s; give one of these, or another --layout",
		            mxfp_format_get_info(s->to)->name, s->layout->name,
		            s->layout->n_forms == 0 ? "nothing quantized" : layout_formats_text(layout_formats(s->layout), NULL, known));

	if (s->part.of > 0 && named != NULL)
		return fail(error, EXIT_USAGE, "convert: %s is a file and cannot be cut; leave out --part", s->out);
	if (named == NULL && format == &file_gguf)
		return fail(error, EXIT_USAGE, "%s: layout %s is that of a file; give it a name that ends in %s", s->out,
		            s->layout->name, format->suffix);
	if (named == NULL || named == format)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: layout %s is for %s files; name one, or a directory", s->out, s->layout->name,
	            format->suffix);
}

static int convert(const struct convert_settings *settings, const struct model *model, struct error *error)
{
	struct convert_plan plan;
	int code = convert_plan(&plan, settings, model, error);

	if (code == EXIT_OK)
		code = convert_check_delete(&plan, error);
	if (code == EXIT_OK && !settings->dry_run)
		code = convert_run(&plan, error);
	if (code == EXIT_OK && (settings->json || !settings->quiet))
		code = convert_summary(&plan, error);
	else if (code == EXIT_OK && !settings->dry_run)
		convert_losses(&plan);
	convert_plan_free(&plan);
	return code;
}

/* From or to a GGUF file, which has other names, and of which each tensor keeps its format. */
static int convert_by_gguf(const struct convert_settings *s, struct model *model, bool to, struct error *error)
{
	static const char *const others[] = {"to", "ignore", "decode-rest", "part", "mem", "dry-run", "delete-source-shards"};
	const struct to_gguf_settings gguf = {s->in, s->out, s->threads, s->allow_rounding, s->force, s->json, s->resume, s->quiet};

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (options_given(others[i]))
			return fail(error, EXIT_USAGE, "convert: --%s: a model keeps its formats on the way to GGUF and back, as one file; leave it "
			            "out, or convert or dequantize first", others[i]);
	return to ? to_gguf(&gguf, model, error) : from_gguf(&gguf, s->layout, model, error);
}

static int open_and_convert(const struct convert_settings *settings, struct error *error)
{
	struct model model;
	const bool computes = settings->to != OPTION_FORMAT_NONE || settings->decode != OPTION_FORMAT_NONE;
	int code = meaning_open(&model, settings->in, computes ? MEANING_FOLDS : MEANING_MOVES, error);

	if (code != EXIT_OK)
		return code;
	const bool to = to_gguf_wanted(settings->out, &model), from = from_gguf_wanted(settings->out, &model);
	if (to || from) {
		code = convert_by_gguf(settings, &model, to, error);
		if (code == EXIT_OK)
			code = carry_warn(&model, stderr, error);
	} else {
		code = convert(settings, &model, error);
	}
	model_close(&model);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct convert_settings settings = {
		.to = OPTION_FORMAT_NONE,
		.decode = OPTION_FORMAT_NONE,
		.non_finite = MXFP_NON_FINITE_ERROR,
	};
	struct texts texts = {0};

	const enum parsed parsed = parse(argc, argv, &settings, &texts, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	if (settings.out == NULL)
		return fail(error, EXIT_USAGE, "convert: no output given; -o OUT names a directory or a file");
	settings.layout = layout_of(settings.out, texts.layout);
	int code = EXIT_OK;

	if (texts.memory != NULL)
		code = byte_size_parse(texts.memory, "convert: --mem", &settings.memory_bytes, error);
	if (code == EXIT_OK && texts.part != NULL)
		code = part_parse(texts.part, "convert: --part", &settings.part, error);
	if (code == EXIT_OK)
		code = check(&settings, error);
	if (code == EXIT_OK)
		code = check_used(&settings, error);
	struct convert_sources sources = {0};
	bool complete = false;
	if (code == EXIT_OK)
		code = convert_sources_begin(&sources, &settings, &complete, error);
	if (code == EXIT_OK && !complete)
		code = open_and_convert(&settings, error);
	if (code == EXIT_OK && complete && !settings.quiet)
		printf("%s was complete\n", settings.out);
	convert_sources_end(&sources);
	return code;
}

const struct command command_convert = {"convert", "convert a quantized model to another layout or format", run};
