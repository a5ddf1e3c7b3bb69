/* SPDX-License-Identifier: MIT */
/* mxfp lint: finds faults that silently break a model. */
#include "config.h"

#include "analyse/lint.h"
#include "cli/commands.h"

static enum parsed parse(int argc, char **argv, struct lint_settings *s, struct error *error)
{
	static const struct usage usage = {
		"lint MODEL [options]",
		"Checks for known faults that silently break quantized models, and prints two\n"
		"lines for each finding: severity, file, tensor, problem and, in brackets, the\n"
		"name of the check; then, indented, what comes of it and what to do. MODEL is a\n"
		"file, or a directory, whose config.json is checked too. Exits with 1 if there is\n"
		"an error or a warning, with 6 if it reads none of the weights and so checked\n"
		"nothing; notes are informational. The checks:\n"
#define LINT(id, name, severity, what, why) "\n  " name ": " what
#include "analyse/lint.def"
		,
		"  mxfp lint model-mxfp4",
	};
	const struct option_spec options[] = {
		{"ignore", 0, OPTION_LIST, "CHECK", "skip a check; may be repeated", &s->ignore},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &s->json},
		{"threads", 0, OPTION_THREADS, "N", "use at most this many threads, 0: one per processor", &s->threads},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 1, 1, &s->path, error);
}

static int run(int argc, char **argv, struct error *error)
{
	struct lint_settings settings = {0};
	struct model model = {0};
	struct lint lint = {0};

	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = model_open(&model, settings.path, error);
	if (code == EXIT_OK)
		code = meaning_note(&model, error);
	if (code == EXIT_OK)
		code = lint_run(&lint, &settings, &model, error);
	if (code == EXIT_OK && lint.counts[LINT_SEVERITY_ERROR] + lint.counts[LINT_SEVERITY_WARNING] > 0)
		code = EXIT_CHECK;
	else if (code == EXIT_OK && lint_unchecked(&lint))
		code = EXIT_UNCHECKED;
	lint_free(&lint);
	model_close(&model);
	return code;
}

const struct command command_lint = {"lint", "find faults that silently break a model", run};
