/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/split.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "eval/utf8.h"

/* A match takes honest expressions some ten steps a byte of the match; a run of spaces may be long. */
enum { STEPS_MAX = 4000000, HEAP_KIB_MAX = 1 << 16, PATTERN_BYTES_MAX = 1 << 16 };

int split_compile(struct split *split, const char *pattern, bool literal, const char *path, const char *where,
                  struct error *error)
{
	static const uint32_t expression = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, text = PCRE2_UTF | PCRE2_LITERAL;
	PCRE2_UCHAR why[128];
	PCRE2_SIZE at;
	int problem;

	if (strlen(pattern) > PATTERN_BYTES_MAX)
		return fail(error, EXIT_INPUT, "%s: %s: has more than %d bytes", path, where, (int)PATTERN_BYTES_MAX);
	split->regex = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), literal ? text : expression, &problem, &at, NULL);
	if (split->regex == NULL && problem != PCRE2_ERROR_HEAP_FAILED) {
		pcre2_get_error_message(problem, why, sizeof why);
		return fail(error, EXIT_INPUT, "%s: %s: is not a regular expression that PCRE2 accepts, at byte %zu: %s", path, where,
		            (size_t)at, (const char *)why);
	}
	split->match = pcre2_match_data_create(1, NULL);
	split->limits = pcre2_match_context_create(NULL);
	if (split->regex == NULL || split->match == NULL || split->limits == NULL)
		return fail_memory(error);
	pcre2_set_match_limit(split->limits, STEPS_MAX);
	pcre2_set_heap_limit(split->limits, HEAP_KIB_MAX);
	return EXIT_OK;
}

/* The state of cutting one text. */
struct cutting {
	const struct split *split;
	const char *text;
	struct pieces *out;
	bool begun, matched; /* whether there was a part before, and whether that matched */
};

/* Adds the part of the text before `to` that matches or does not; empty parts only count as neighbours. */
static int add_part(struct cutting *cutting, size_t from, size_t to, bool matches, struct error *error)
{
	const enum split_behavior behavior = cutting->split->behavior;
	const bool is_match = matches != cutting->split->invert, before = cutting->matched;
	const bool joined = cutting->begun && ((behavior == SPLIT_MERGED_WITH_PREVIOUS && !before && is_match) ||
	                                       (behavior == SPLIT_MERGED_WITH_NEXT && before && !is_match) ||
	                                       (behavior == SPLIT_CONTIGUOUS && before == is_match));
	int code = joined ? EXIT_OK : pieces_end(cutting->out, error);

	cutting->begun = true;
	cutting->matched = is_match;
	if (code == EXIT_OK && !(behavior == SPLIT_REMOVED && is_match))
		code = pieces_append(cutting->out, cutting->text + from, to - from, error);
	return code;
}

/* Finds the next match from `at` on; *from is SIZE_MAX if there is none. */
static int find(const struct split *split, const char *text, size_t n, size_t at, size_t *from, size_t *to,
                const char *path, struct error *error)
{
	/* The text was checked; checking it again for each match would take quadratic time. */
	const int result = pcre2_match(split->regex, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, split->match,
	                               split->limits);
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(split->match);

	*from = *to = SIZE_MAX;
	if (result == PCRE2_ERROR_NOMATCH)
		return EXIT_OK;
	if (result == PCRE2_ERROR_NOMEMORY)
		return fail_memory(error);
	/* \K can put the start anywhere. */
	if (result < 0 || ends[0] < at || ends[1] < ends[0])
		return fail(error, EXIT_INPUT, "%s: a regular expression of its pre-tokenizer takes too many steps on the text, "
		            "at byte %zu of a part of %zu bytes", path, at, n);
	*from = ends[0];
	*to = ends[1];
	return EXIT_OK;
}

int split_apply(const struct split *split, const char *text, size_t n, struct pieces *out, const char *path,
                struct error *error)
{
	struct cutting cutting = {.split = split, .text = text, .out = out};
	size_t done = 0, at = 0, last = SIZE_MAX;
	int code = EXIT_OK;

	while (at <= n && code == EXIT_OK) {
		size_t from, to, length;

		code = find(split, text, n, at, &from, &to, path, error);
		if (code != EXIT_OK || from == SIZE_MAX)
			break;
		if (from == to && to == last) {
			/* An empty match where the last one ended does not count; the next is looked for a character later. */
			length = 1;
			if (at < n)
				utf8_decode(text + at, &length);
			at += length;
			continue;
		}
		if (from > done)
			code = add_part(&cutting, done, from, false, error);
		if (code == EXIT_OK)
			code = add_part(&cutting, from, to, true, error);
		done = at = last = to;
	}
	if (code == EXIT_OK && done < n)
		code = add_part(&cutting, done, n, false, error);
	return code == EXIT_OK ? pieces_end(out, error) : code;
}

void split_free(struct split *split)
{
	pcre2_code_free(split->regex);
	pcre2_match_data_free(split->match);
	pcre2_match_context_free(split->limits);
	*split = (struct split){0};
}
