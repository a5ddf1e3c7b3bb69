/* SPDX-License-Identifier: MIT */
/* The names of a model's tensors, what is missing among them, and how that is told: a finding for each layer. */
#include "config.h"

#include "analyse/lint_whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 192 };

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int lint_whole_set_names(struct lint_whole *whole, struct error *error)
{
	const size_t n = whole->lint->model->n_tensors;

	whole->names = malloc((n + 1) * sizeof *whole->names);
	if (whole->names == NULL)
		return fail_memory(error);
	memcpy(whole->names, whole->lint->whole, n * sizeof *whole->names);
	qsort(whole->names, n, sizeof *whole->names, compare_strings);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(whole->names[i], whole->names[whole->n_names - 1]) != 0)
			whole->names[whole->n_names++] = whole->names[i];
	return EXIT_OK;
}

bool lint_whole_has(const struct lint_whole *whole, const char *name)
{
	return whole->n_names > 0 && bsearch(&name, whole->names, whole->n_names, sizeof *whole->names, compare_strings) != NULL;
}

/* The number of the first name that is not before one. */
static size_t find_first(const struct lint_whole *whole, const char *start)
{
	size_t low = 0, high = whole->n_names;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (strcmp(whole->names[middle], start) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool lint_whole_starts(const struct lint_whole *whole, const char *start)
{
	const size_t first = find_first(whole, start);

	return first < whole->n_names && strncmp(whole->names[first], start, strlen(start)) == 0;
}

bool lint_whole_is(const struct lint_whole *whole, const char *words)
{
	char word[NAME_BYTES];

	return whole->type != NULL && snprintf(word, sizeof word, " %s ", whole->type) < (int)sizeof word &&
	       strstr(words, word) != NULL;
}

int lint_whole_miss(struct lint_whole *whole, const char *name, size_t in, bool layer, size_t others, struct error *error)
{
	if (whole->n_missing == whole->capacity) {
		const size_t capacity = whole->capacity * 2 + 16;
		struct lint_missing *missing = realloc(whole->missing, capacity * sizeof *missing);

		if (missing == NULL)
			return fail_memory(error);
		whole->missing = missing;
		whole->capacity = capacity;
	}
	struct lint_missing *missing = &whole->missing[whole->n_missing];
	char *text = arena_string(&whole->arena, name), *start = arena_take(&whole->arena, in + 1);
	if (text == NULL || start == NULL)
		return fail_memory(error);
	memcpy(start, name, in);
	start[in] = '\0';
	*missing = (struct lint_missing){start, text, layer, others};
	whole->n_missing++;
	return EXIT_OK;
}

/* By where it is missing, the layers in their order. */
static int compare_missing(const void *a, const void *b)
{
	const struct lint_missing *x = a, *y = b;
	const size_t of_x = strlen(x->in), of_y = strlen(y->in), x_name = strlen(x->name), y_name = strlen(y->name);
	int order = x->layer != y->layer ? (x->layer ? -1 : 1) : (of_x > of_y) - (of_x < of_y);

	if (order == 0)
		order = strcmp(x->in, y->in);
	if (order == 0)
		order = (x_name > y_name) - (x_name < y_name);
	return order != 0 ? order : strcmp(x->name, y->name);
}

/* Tells of what is missing in one place: n, perhaps some twice. */
static int tell(struct lint_whole *whole, const struct lint_missing *missing, size_t n, struct error *error)
{
	const struct lint_place place = {0};
	size_t others = 0, n_names = 0;

	for (size_t i = 0; i < n; i++) {
		n_names += i == 0 || strcmp(missing[i].name, missing[i - 1].name) != 0;
		if (others == 0 && strcmp(missing[i].name, missing[0].name) == 0)
			others = missing[i].others;
	}
	if (missing->layer)
		return n_names == 1 ? lint_find(whole->lint, LINT_MISSING, &place, error, "layer '%.200s' is missing", missing->name)
		                    : lint_find(whole->lint, LINT_MISSING, &place, error, "%zu layers are missing, the first is '%.200s'",
		                                n_names, missing->name);
	if (others == 0)
		return lint_find(whole->lint, LINT_MISSING, &place, error, "'%.200s' is missing, which a model of type %s needs%s", missing->name,
		                 whole->type, n_names > 1 ? ", and more of that layer" : "");
	return lint_find(whole->lint, LINT_MISSING, &place, error, "'%.200s' is missing, which %zu other%s of '%.*s' %s%s", missing->name,
	                 others, others > 1 ? "s" : "", (int)(strrchr(missing->in, '.') == NULL ? 0 : strrchr(missing->in, '.') - missing->in), missing->in,
	                 others > 1 ? "have" : "has", n_names > 1 ? ", and more of that layer" : "");
}

int lint_whole_tell(struct lint_whole *whole, struct error *error)
{
	int code = EXIT_OK;

	if (whole->n_missing == 0)
		return EXIT_OK;
	qsort(whole->missing, whole->n_missing, sizeof *whole->missing, compare_missing);
	for (size_t i = 0, n; i < whole->n_missing && code == EXIT_OK; i += n) {
		const struct lint_missing *first = &whole->missing[i];

		/* What is in no layer stands for itself. */
		for (n = 1; i + n < whole->n_missing && first[n].layer == first->layer && strcmp(first[n].in, first->in) == 0 &&
		            (first->in[0] != '\0' || strcmp(first[n].name, first->name) == 0); n++)
			;
		code = tell(whole, first, n, error);
	}
	return code;
}

bool lint_whole_has_part(const struct lint_whole *whole, const char *start, const char *parts)
{
	const size_t length = strlen(start);

	for (size_t i = find_first(whole, start); i < whole->n_names && strncmp(whole->names[i], start, length) == 0; i++)
		for (const char *part = parts; *part != '\0'; part += strcspn(part, "|"), part += *part == '|') {
			char word[NAME_BYTES];

			snprintf(word, sizeof word, "%.*s", (int)strcspn(part, "|"), part);
			if (strstr(whole->names[i] + length, word) != NULL)
				return true;
		}
	return false;
}

void lint_whole_free(struct lint_whole *whole)
{
	free(whole->names);
	free(whole->missing);
	arena_free(&whole->arena);
}
