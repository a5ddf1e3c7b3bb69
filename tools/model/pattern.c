/* SPDX-License-Identifier: MIT */
/* Patterns: fnmatch() for globs, PCRE2 for regular expressions, a search in sorted names for plain ones. */
#include "config.h"

#include "model/pattern.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/nearest.h"

static const char regex_prefix[] = "re:";

/* A name takes honest expressions a few hundred steps. */
enum { STEPS_MAX = 100000, HEAP_KIB_MAX = 1024, PATTERN_BYTES_MAX = 4096 };

static bool is_regex(const char *text)
{
	return strncmp(text, regex_prefix, strlen(regex_prefix)) == 0;
}

static bool is_name(const char *text)
{
	return !is_regex(text) && strpbrk(text, "*?[\\") == NULL;
}

static int compile(struct pattern *pattern, const char *where, struct error *error)
{
	/* A pattern of Python's is on characters, and its classes are Unicode's. */
	static const uint32_t options = PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF |
	                                PCRE2_NEVER_BACKSLASH_C;
	const char *expression = pattern->text + strlen(regex_prefix);
	PCRE2_UCHAR why[128];
	PCRE2_SIZE at;
	int problem;

	if (strlen(expression) > PATTERN_BYTES_MAX)
		return fail(error, EXIT_USAGE, "%s: regular expression has more than %d bytes; give several", where,
		            (int)PATTERN_BYTES_MAX);
	pattern->regex = pcre2_compile((PCRE2_SPTR)expression, strlen(expression), options, &problem, &at, NULL);
	if (pattern->regex != NULL)
		return EXIT_OK;
	if (problem == PCRE2_ERROR_NOMEMORY)
		return fail_memory(error);
	pcre2_get_error_message(problem, why, sizeof why);
	return fail(error, EXIT_USAGE, "%s '%.200s': not a regular expression, at byte %zu after '%s': %s", where,
	            pattern->text, (size_t)at, regex_prefix, (const char *)why);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool allocate(struct patterns *patterns, size_t n)
{
	patterns->items = calloc(n + 1, sizeof *patterns->items);
	patterns->names = calloc(n + 1, sizeof *patterns->names);
	patterns->match = pcre2_match_data_create(1, NULL);
	patterns->limits = pcre2_match_context_create(NULL);
	if (patterns->items == NULL || patterns->names == NULL || patterns->match == NULL || patterns->limits == NULL)
		return false;
	pcre2_set_match_limit(patterns->limits, STEPS_MAX);
	pcre2_set_heap_limit(patterns->limits, HEAP_KIB_MAX);
	return true;
}

int patterns_compile(struct patterns *patterns, const char *const *texts, size_t n, const char *where,
                     struct error *error)
{
	*patterns = (struct patterns){0};
	if (!allocate(patterns, n))
		return fail_memory(error);
	for (size_t i = 0; i < n; i++) {
		struct pattern *pattern = &patterns->items[patterns->n++];

		pattern->text = texts[i];
		if (is_name(texts[i])) {
			patterns->names[patterns->n_names++] = texts[i];
		} else if (is_regex(texts[i])) {
			int code = compile(pattern, where, error);

			if (code != EXIT_OK)
				return code;
		}
	}
	qsort(patterns->names, patterns->n_names, sizeof *patterns->names, compare_names);
	return EXIT_OK;
}

/* 1 if it matches, 0 if not, less for an error of PCRE2. */
static int match(const struct patterns *patterns, const struct pattern *pattern, const char *name)
{
	if (pattern->regex == NULL)
		return fnmatch(pattern->text, name, 0) == 0;
	int result = pcre2_match(pattern->regex, (PCRE2_SPTR)name, strlen(name), 0, 0, patterns->match,
	                         patterns->limits);
	if (result >= 0)
		return 1;
	return result == PCRE2_ERROR_NOMATCH ? 0 : result;
}

bool patterns_match(const struct patterns *patterns, const char *name)
{
	if (patterns->n_names > 0 &&
	    bsearch(&name, patterns->names, patterns->n_names, sizeof *patterns->names, compare_names) != NULL)
		return true;
	if (patterns->n_names == patterns->n)
		return false;
	for (size_t i = 0; i < patterns->n; i++)
		if (!is_name(patterns->items[i].text) && match(patterns, &patterns->items[i], name) > 0)
			return true;
	return false;
}

static int fail_unmatched(const struct pattern *pattern, const char *where, const struct model *model,
                          struct error *error)
{
	struct nearest nearest = {.word = pattern->text};

	for (size_t i = 0; i < model->n_files; i++)
		for (size_t k = 0; k < model->files[i].n_tensors; k++)
			nearest_offer(&nearest, model->files[i].tensors[k].name);
	if (nearest.best != NULL)
		return fail(error, EXIT_USAGE, "%s: %s '%s' matches no tensor: did you mean '%s'?", model->path, where,
		            pattern->text, nearest.best);
	return fail(error, EXIT_USAGE,
	            "%s: %s '%s' matches no tensor; mxfp inspect lists the names; '*.weight' is a pattern", model->path,
	            where, pattern->text);
}

/* Every name is tried, so that an expression that fails does so here. */
static int check_pattern(const struct patterns *patterns, const struct pattern *pattern, const char *where,
                         const struct model *model, struct error *error)
{
	bool matches = false;

	for (size_t i = 0; i < model->n_files; i++)
		for (size_t k = 0; k < model->files[i].n_tensors; k++) {
			int result = match(patterns, pattern, model->files[i].tensors[k].name);

			if (result == PCRE2_ERROR_NOMEMORY)
				return fail_memory(error);
			if (result < 0)
				return fail(error, EXIT_USAGE, "%s: %s '%.200s' tries too long to match '%.200s'; write it "
				            "without repetitions of repetitions", model->path, where, pattern->text,
				            model->files[i].tensors[k].name);
			matches |= result > 0;
		}
	return matches ? EXIT_OK : fail_unmatched(pattern, where, model, error);
}

int patterns_check(const struct patterns *patterns, const char *where, const struct model *model, struct error *error)
{
	const struct file *file;
	int code = EXIT_OK;

	for (size_t i = 0; i < patterns->n && code == EXIT_OK; i++) {
		const struct pattern *pattern = &patterns->items[i];

		if (!is_name(pattern->text))
			code = check_pattern(patterns, pattern, where, model, error);
		else if (model_find(model, pattern->text, &file) == NULL)
			code = fail_unmatched(pattern, where, model, error);
	}
	return code;
}

void patterns_free(struct patterns *patterns)
{
	for (size_t i = 0; i < patterns->n; i++)
		pcre2_code_free(patterns->items[i].regex);
	pcre2_match_data_free(patterns->match);
	pcre2_match_context_free(patterns->limits);
	free(patterns->items);
	free(patterns->names);
	*patterns = (struct patterns){0};
}
