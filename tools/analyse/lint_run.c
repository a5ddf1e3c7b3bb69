/* SPDX-License-Identifier: MIT */
/* Runs the checks on a model and prints the summary. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "io/facts.h"

static int ignore(struct lint *lint, const char *name, struct error *error)
{
	struct nearest nearest = {.word = name};

	for (int i = 0; i < N_LINT_CHECKS; i++) {
		if (strcmp(name, lint_check_name((enum lint_check)i)) == 0) {
			lint->ignored[i] = true;
			return EXIT_OK;
		}
		nearest_offer(&nearest, lint_check_name((enum lint_check)i));
	}
	if (nearest.best != NULL)
		return fail(error, EXIT_USAGE, "lint: --ignore %s: no such check: did you mean '%s'?", name,
		            nearest.best);
	return fail(error, EXIT_USAGE, "lint: --ignore %s: no such check; mxfp lint --help lists them", name);
}

static int run_checks(struct lint *lint, struct error *error)
{
	static int (*const groups[])(struct lint *lint, struct error *error) = {
		lint_names, lint_meaning, lint_config, lint_shapes, lint_whole, lint_fused, lint_inputs, lint_scaled, lint_order,
		lint_blocks,
	};
	int code = EXIT_OK;

	for (size_t i = 0; i < sizeof groups / sizeof groups[0] && code == EXIT_OK; i++)
		code = groups[i](lint, error);
	return code;
}

bool lint_unchecked(const struct lint *lint)
{
	return lint->n_weights + lint->n_scaled == 0 && (lint->has_foreign || lint->refused);
}

/* What was not looked at, a line each. */
static void print_unseen(const struct lint_unseen *unseen)
{
	if (unseen->n_unread > 0) {
		printf("not checked: the numbers of %zu tensor%s, the first of them '", unseen->n_unread, unseen->n_unread > 1 ? "s" : "");
		print_printable(stdout, unseen->unread);
		printf("'\n");
	}
	if (unseen->whole != NULL) {
		printf("not known: whether all tensors are there: ");
		print_printable(stdout, unseen->whole);
		putchar('\n');
	}
}

int lint_print_summary(const struct lint *lint, json_t *fixed, struct error *error)
{
	const size_t *n = lint->counts;

	if (!lint->settings->json) {
		print_unseen(&lint->unseen);
		printf("%zu tensors, %zu quantized weights: errors %zu, warnings %zu, notes %zu%s\n",
		       lint->model->n_tensors, lint->n_weights + lint->n_scaled, n[0], n[1], n[2],
		       lint_unchecked(lint) ? "; nothing was checked, for mxfp reads none of the weights" : "");
		json_decref(fixed);
		return EXIT_OK;
	}
	fputs("\n],\n\"summary\": ", stdout);
	json_t *facts = json_pack("{s:o, s:I, s:I, s:b, s:I, s:I, s:I}", "path", facts_text(lint->model->path), "tensors",
	                          (json_int_t)lint->model->n_tensors, "quantized",
	                          (json_int_t)(lint->n_weights + lint->n_scaled), "checked", (int)!lint_unchecked(lint),
	                          "errors", (json_int_t)n[0], "warnings", (json_int_t)n[1], "notes", (json_int_t)n[2]);
	facts = facts_set(facts, "unread", json_integer((json_int_t)lint->unseen.n_unread));
	facts = facts_set(facts, "whole_unchecked", lint->unseen.whole != NULL ? facts_text(lint->unseen.whole) : json_null());
	if (lint->mender != NULL)
		facts = facts_update(facts, fixed);
	int code = facts_print_part(stdout, facts, JSON_INDENT(2), error);
	fputs("\n}\n", stdout);
	return code;
}

int lint_run(struct lint *lint, struct error *error)
{
	const struct lint_settings *settings = lint->settings;
	int code = EXIT_OK;

	for (size_t i = 0; i < settings->ignore.n && code == EXIT_OK; i++)
		code = ignore(lint, settings->ignore.items[i], error);
	if (code != EXIT_OK)
		return code;
	if (settings->json && !settings->silent)
		fputs("{\n\"findings\": [", stdout);
	return run_checks(lint, error);
}

void lint_free(struct lint *lint)
{
	arena_free(&lint->arena);
	free(lint->weights);
	free(lint->is_part);
	free(lint->whole);
}
