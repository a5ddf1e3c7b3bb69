/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/fused.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"

static const struct fused_set sets[] = {
#define FUSED(whole, source, ...) {whole, {__VA_ARGS__}},
#include "model/fused.def"
};

enum { N_SETS = sizeof sets / sizeof sets[0] };

static size_t count(const struct fused_set *set)
{
	size_t n = 0;

	while (n < FUSED_MAX && set->parts[n] != NULL)
		n++;
	return n;
}

/* Where the last component `part` of a name starts; NULL: nowhere. */
static const char *component(const char *name, const char *part)
{
	const size_t n = strlen(part);
	const char *found = NULL;

	for (const char *at = strstr(name, part); at != NULL; at = strstr(at + 1, part))
		if ((at == name || at[-1] == '.') && at[n] == '.')
			found = at;
	return found;
}

/* Whether another of the set is there. */
static int has_another(const struct fused *fused, const struct fused_names *names, bool *has, struct error *error)
{
	*has = false;
	for (size_t i = 0; i < fused->n && !*has; i++) {
		if (i == fused->which)
			continue;
		char *name = fused_name(fused, i);

		if (name == NULL)
			return fail_memory(error);
		*has = names->has(names->context, name);
		free(name);
	}
	return EXIT_OK;
}

int fused_find(struct fused *fused, bool *found, const char *name, const struct fused_names *names, struct error *error)
{
	int code = EXIT_OK;

	*found = false;
	for (size_t i = 0; i < N_SETS && code == EXIT_OK && !*found; i++) {
		const size_t n = count(&sets[i]);

		for (size_t k = 0; k < n && code == EXIT_OK && !*found; k++) {
			const char *at = component(name, sets[i].parts[k]);

			if (at == NULL)
				continue;
			*fused = (struct fused){name, &sets[i], n, k, (size_t)(at - name)};
			code = has_another(fused, names, found, error);
		}
	}
	return code;
}

char *fused_name(const struct fused *fused, size_t which)
{
	const char *part = fused->set->parts[which];
	const char *rest = fused->name + fused->at + strlen(fused->set->parts[fused->which]);
	size_t size = fused->at + strlen(part) + strlen(rest) + 1;
	char *name = malloc(size);

	if (name != NULL)
		snprintf(name, size, "%.*s%s%s", (int)fused->at, fused->name, part, rest);
	return name;
}

static const char weight_suffix[] = ".weight", experts[] = ".experts";

/* The tensors that are sorted, in the order of their names. */
struct sorted {
	const char **names;
	size_t n;
};

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_sorted_in(const void *context, const char *name)
{
	const struct sorted *sorted = context;

	return sorted->n > 0 && bsearch(&name, sorted->names, sorted->n, sizeof *sorted->names, compare_strings) != NULL;
}

/* The name of a tensor's unit. EXIT_MEMORY. */
static int name_unit(const char **unit, const char *tensor, const struct sorted *sorted, struct arena *arena,
                     struct error *error)
{
	const struct fused_names names = {is_sorted_in, sorted};
	const size_t stem = suffix_stem(tensor, weight_suffix), length = stem != 0 ? stem : strlen(tensor);
	struct fused fused;
	bool found;
	char *name = arena_take(arena, length + 1);

	if (name == NULL)
		return fail_memory(error);
	memcpy(name, tensor, length);
	name[length] = '\0';
	*unit = name;
	for (char *at = strstr(name, experts); at != NULL; at = strstr(at + 1, experts))
		if (at[sizeof experts - 1] == '.') {
			at[sizeof experts - 1] = '\0';
			return EXIT_OK;
		}
	int code = fused_find(&fused, &found, tensor, &names, error);
	if (code != EXIT_OK || !found)
		return code;
	const char *rest = name + fused.at + strlen(fused.set->parts[fused.which]);
	const size_t size = fused.at + strlen(fused.set->whole) + strlen(rest) + 1;
	char *whole = arena_take(arena, size);
	if (whole == NULL)
		return fail_memory(error);
	snprintf(whole, size, "%.*s%s%s", (int)fused.at, name, fused.set->whole, rest);
	*unit = whole;
	return EXIT_OK;
}

/* A tensor on its way into its unit. */
struct named {
	const char *unit;
	size_t number;
};

static int compare(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->unit, y->unit);

	return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

int units_make(struct units *units, const char *const *tensors, size_t n, struct error *error)
{
	*units = (struct units){0};
	struct named *named = calloc(n + 1, sizeof *named);
	struct sorted sorted = {calloc(n + 1, sizeof(const char *)), n};
	units->items = calloc(n + 1, sizeof *units->items);
	units->members = calloc(n + 1, sizeof *units->members);
	int code = EXIT_OK;

	if (named == NULL || sorted.names == NULL || units->items == NULL || units->members == NULL)
		code = fail_memory(error);
	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		sorted.names[i] = tensors[i];
	if (code == EXIT_OK)
		qsort(sorted.names, n, sizeof *sorted.names, compare_strings);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		named[i].number = i;
		code = name_unit(&named[i].unit, tensors[i], &sorted, &units->arena, error);
	}
	if (code == EXIT_OK)
		qsort(named, n, sizeof *named, compare);
	for (size_t i = 0; i < n && code == EXIT_OK; i++) {
		if (i == 0 || strcmp(named[i].unit, named[i - 1].unit) != 0)
			units->items[units->n++] = (struct unit){named[i].unit, i, 0};
		units->items[units->n - 1].n++;
		units->members[i] = named[i].number;
	}
	free(sorted.names);
	free(named);
	return code;
}

void units_free(struct units *units)
{
	free(units->items);
	free(units->members);
	arena_free(&units->arena);
	*units = (struct units){0};
}
