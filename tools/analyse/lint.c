/* SPDX-License-Identifier: MIT */
/* The table of checks, and how findings are printed: as they are found, two lines each. lint_run.c goes through the
   checks. */
#include "config.h"

#include "analyse/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/color.h"
#include "base/plural.h"
#include "base/printable.h"
#include "io/facts.h"

static const struct {
	const char *name;
	enum lint_severity severity;
	const char *why;
} checks[N_LINT_CHECKS] = {
#define LINT(id, name, severity, what, why) {name, LINT_SEVERITY_##severity, why},
#include "analyse/lint.def"
};

static const char *const severities[N_LINT_SEVERITIES] = {"error", "warning", "note"};
static const enum color colors[N_LINT_SEVERITIES] = {COLOR_ERROR, COLOR_WARNING, COLOR_NOTE};

enum { FINDING_TEXT = 512, SUBJECT_TEXT = 64 };

static void print_text(enum lint_check check, enum lint_severity severity, const char *path, const char *tensor,
                       const char *what, const struct lint_fate *fate)
{
	printf("%s%s:%s ", color_begin(stdout, colors[severity]), severities[severity], color_end(stdout));
	print_printable(stdout, path);
	if (tensor != NULL) {
		printf(": tensor '");
		print_printable(stdout, tensor);
		putchar('\'');
	}
	printf(": ");
	print_printable(stdout, what);
	printf(" [%s]\n    %s\n", checks[check].name, checks[check].why);
	if (fate->text[0] == '\0')
		return;
	printf("    %s%s:%s ", color_begin(stdout, fate->fixed ? COLOR_NOTE : COLOR_WARNING), fate->fixed ? "fixed" : "not fixed",
	       color_end(stdout));
	print_printable(stdout, fate->text);
	putchar('\n');
}

static int print_json(struct lint *lint, enum lint_check check, enum lint_severity severity, const char *path,
                      const char *tensor, const char *what, const struct lint_fate *fate, struct error *error)
{
	json_t *facts = json_pack("{s:s, s:s, s:o, s:o, s:o, s:s}", "severity", severities[severity], "check",
	                          checks[check].name, "file", facts_text(path), "tensor",
	                          tensor != NULL ? facts_text(tensor) : json_null(), "what", facts_text(what), "why",
	                          checks[check].why);

	if (fate->text[0] != '\0')
		facts = facts_set(facts, fate->fixed ? "fixed" : "not_fixed", facts_text(fate->text));
	fputs(lint->counts[0] + lint->counts[1] + lint->counts[2] == 1 ? "\n" : ",\n", stdout);
	return facts_print_part(stdout, facts, 0, error);
}

int lint_find(struct lint *lint, enum lint_check check, const struct lint_place *place, struct error *error,
              const char *format, ...)
{
	enum lint_severity severity = checks[check].severity;
	const char *path = place->file != NULL ? place->file->path : lint->model->path;
	struct lint_fate fate = {.fixed = false};
	char what[FINDING_TEXT];
	va_list arguments;

	if (lint->ignored[check])
		return EXIT_OK;
	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	lint->counts[severity]++;
	if (lint->mender != NULL) {
		const int code = lint->mender->decide(lint->mender->context, lint, check, place, &fate, error);

		if (code != EXIT_OK)
			return code;
		lint->mender->n_fixed += fate.fixed;
		lint->mender->n_not_fixed += !fate.fixed && severity != LINT_SEVERITY_NOTE;
	}
	if (lint->settings->silent)
		return EXIT_OK;
	if (lint->settings->json)
		return print_json(lint, check, severity, path, place->tensor, what, &fate, error);
	print_text(check, severity, path, place->tensor, what, &fate);
	return EXIT_OK;
}

int lint_find_alike(struct lint *lint, enum lint_check check, const struct lint_place *place, size_t n, struct error *error,
                    const char *format, ...)
{
	char what[FINDING_TEXT], others[SUBJECT_TEXT];
	const char *rest = what;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof what, format, arguments);
	va_end(arguments);
	plural_others(others, sizeof others, n);
	const char *verb = plural_verb(&rest, n);
	if (verb != NULL)
		return lint_find(lint, check, place, error, "it%s %s %s", others, verb, rest);
	return lint_find(lint, check, place, error, n == 1 ? "%s%s" : "it%s: %s", n == 1 ? "" : others, what);
}

const char *lint_check_name(enum lint_check check)
{
	return checks[check].name;
}

bool lint_ignores(const struct lint_settings *settings, enum lint_check check)
{
	for (size_t i = 0; i < settings->ignore.n; i++)
		if (strcmp(settings->ignore.items[i], checks[check].name) == 0)
			return true;
	return false;
}

static int compare_name(const void *name, const void *weight)
{
	return strcmp(name, ((const struct lint_weight *)weight)->name);
}

const struct lint_weight *lint_weight(const struct lint *lint, const char *name)
{
	if (lint->n_weights == 0)
		return NULL;
	return bsearch(name, lint->weights, lint->n_weights, sizeof *lint->weights, compare_name);
}
