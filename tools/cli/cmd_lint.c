/* SPDX-License-Identifier: MIT */
/* mxfp lint: finds faults that silently break a model. */
#include "config.h"

#include "analyse/lint_fix.h"
#include "cli/commands.h"
#include "model/carry.h"

static enum parsed parse(int argc, char **argv, struct lint_settings *s, struct error *error)
{
	static const struct usage usage = {
		"lint MODEL [--fix -o OUT] [options]",
		"Checks for known faults that silently break quantized models, and prints two\n"
		"lines for each finding: severity, file, tensor, problem and, in brackets, the\n"
		"name of the check; then, indented, the consequence and the remedy. MODEL is a\n"
		"file, or a directory, whose config.json is checked, too. Exits with 1 if there\n"
		"is an error or a warning, with 6 if it reads none of the weights and so checked\n"
		"nothing; notes are informational.\n"
		"With --fix, a third line of each finding says what is fixed, with what was and\n"
		"will be there, or why it is not; OUT is a copy with all that is certain fixed,\n"
		"and the exit code is 0 if no error or warning is left in it. The checks:\n"
#define LINT(id, name, severity, what, why) "\n  " name ": " what
#include "analyse/lint.def"
		"\n\nWhat --fix fixes where it is certain:\n"
#define FIX(id, mender, what) "\n  " what
#define LEFT(id, why)
#include "analyse/lint_fix.def"
		,
		"  mxfp lint model-mxfp4\n"
		"  mxfp lint model-swapped --against model --fix -o model-fixed",
	};
	const struct option_spec options[] = {
		{"against", 0, OPTION_STRING, "SOURCE", "compare the order of 4-bit codes with the model that it was made from",
		 &s->against},
		{"fix", 0, OPTION_FLAG, NULL, "write a copy with what is certain fixed", &s->fix},
		{"output", 'o', OPTION_STRING, "OUT", "directory or file to write, of the kind that MODEL is", &s->out},
		{"force", 'f', OPTION_FLAG, NULL, "replace OUT if it exists", &s->force},
		{"ignore", 0, OPTION_LIST, "CHECK", "skip a check; may be repeated", &s->ignore},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &s->json},
		{"threads", 0, OPTION_THREADS, "N", "use at most this many threads, 0: one per processor", &s->threads},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 1, 1, &s->path, error);
	const struct option_use uses[] = {
		{"output", s->fix, "--fix"},
		{"force", s->fix, "--fix"},
		{"against", !lint_ignores(s, LINT_NIBBLE_ORDER), "the check nibble-order, which --ignore skips"},
		{NULL, true, NULL},
	};

	return parsed == PARSED_RUN && options_check_used(uses, error) != EXIT_OK ? PARSED_ERROR : parsed;
}

/* Opens the models, checks one with the other, and fixes it. */
static int check(struct lint *lint, struct lint_fix *fix, struct model *model, struct model *original, struct error *error)
{
	const struct lint_settings *s = lint->settings;
	int code = model_open(model, s->path, error);

	if (code == EXIT_OK)
		code = meaning_note(model, error);
	model->tells_faults = true;
	if (code == EXIT_OK && s->against != NULL)
		code = model_open(original, s->against, error);
	if (code == EXIT_OK && s->fix)
		code = lint_fix_begin(fix, s, model, error);
	lint->original = s->against != NULL ? original : NULL;
	lint->mender = s->fix ? &fix->mender : NULL;
	fix->mender.context = fix;
	if (code == EXIT_OK)
		code = lint_run(lint, error);
	if (code == EXIT_OK && s->fix)
		code = lint_fix_write(fix, lint, error);
	return code;
}

/* What a run that went well ends with. */
static int outcome(const struct lint *lint, const struct lint_fix *fix)
{
	const size_t n_found = lint->counts[LINT_SEVERITY_ERROR] + lint->counts[LINT_SEVERITY_WARNING];

	if ((fix->written ? fix->n_found : n_found) > 0)
		return EXIT_CHECK;
	return (fix->written ? fix->unchecked : lint_unchecked(lint)) ? EXIT_UNCHECKED : EXIT_OK;
}

static int run(int argc, char **argv, struct error *error)
{
	struct lint_settings settings = {0};
	struct model model = {0}, original = {0};
	struct lint_fix fix = {.written = false};
	struct lint lint = {.settings = &settings, .model = &model};
	const enum parsed parsed = parse(argc, argv, &settings, error);

	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	if (settings.fix && settings.out == NULL)
		return fail(error, EXIT_USAGE, "lint: --fix writes a fixed copy; -o OUT names it");
	int code = check(&lint, &fix, &model, &original, error);
	if (code == EXIT_OK)
		code = lint_print_summary(&lint, settings.fix ? lint_fix_facts(&fix, &settings) : NULL, error);
	if (code == EXIT_OK && settings.fix && !settings.json)
		lint_fix_print(&fix, &settings);
	if (code == EXIT_OK && !fix.written)
		code = carry_warn(&model, stderr, error);
	if (code == EXIT_OK)
		code = outcome(&lint, &fix);
	lint_fix_free(&fix);
	lint_free(&lint);
	model_close(&original);
	model_close(&model);
	return code;
}

const struct command command_lint = {"lint", "find faults that silently break a model, and fix some", run};
