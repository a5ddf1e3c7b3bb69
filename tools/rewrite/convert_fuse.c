/* SPDX-License-Identifier: MIT */
/* Gives changed tensors that loaders fuse one tensor scale. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "model/fused.h"
#include "rewrite/convert.h"

static bool is_scaled(const struct convert_entry *entry)
{
	return entry->what == CONVERT_CHANGED && mxfp_format_get_info(entry->choice.form->format)->tensor_scale;
}

/* The entries with a tensor scale of their own, by name. */
struct scaled {
	size_t n;
	struct convert_entry **entries;
};

static int compare(const void *a, const void *b)
{
	return strcmp((*(struct convert_entry *const *)a)->name, (*(struct convert_entry *const *)b)->name);
}

static struct convert_entry *find(const struct scaled *scaled, const char *name)
{
	size_t from = 0, till = scaled->n;

	while (from < till) {
		const size_t middle = from + (till - from) / 2;
		const int order = strcmp(name, scaled->entries[middle]->name);

		if (order == 0)
			return scaled->entries[middle];
		if (order < 0)
			till = middle;
		else
			from = middle + 1;
	}
	return NULL;
}

static bool has(const void *scaled, const char *name)
{
	return find(scaled, name) != NULL;
}

/* Puts an entry into the ring of the first of its set. */
static int join(const struct scaled *scaled, struct convert_entry *entry, const struct fused *fused, struct error *error)
{
	for (size_t i = 0; i < fused->which; i++) {
		char *name = fused_name(fused, i);

		if (name == NULL)
			return fail_memory(error);
		struct convert_entry *first = find(scaled, name);
		free(name);
		if (first == NULL)
			continue;
		entry->fused = first->fused != NULL ? first->fused : first;
		first->fused = entry;
		entry->group = first->group;
		break;
	}
	return EXIT_OK;
}

static int join_all(struct convert_plan *plan, const struct scaled *scaled, struct error *error)
{
	const struct fused_names names = {has, scaled};
	int code = EXIT_OK;

	for (size_t i = 0; i < scaled->n; i++) {
		struct convert_group *group = scaled->entries[i]->group = arena_take(&plan->arena, sizeof *group);

		if (group == NULL)
			return fail_memory(error);
		*group = (struct convert_group){
			.is_made = scaled->entries[i]->choice.unscaled,
			.factor = {1, scaled->entries[i]->choice.layout->divides},
		};
	}
	for (size_t i = 0; i < scaled->n && code == EXIT_OK; i++) {
		struct fused fused;
		bool found;

		code = fused_find(&fused, &found, scaled->entries[i]->name, &names, error);
		if (code == EXIT_OK && found)
			code = join(scaled, scaled->entries[i], &fused, error);
	}
	return code;
}

int convert_fuse(struct convert_plan *plan, struct error *error)
{
	struct scaled scaled = {0, malloc((plan->n_entries + 1) * sizeof *scaled.entries)};

	if (scaled.entries == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < plan->n_entries; i++)
		if (is_scaled(&plan->entries[i]))
			scaled.entries[scaled.n++] = &plan->entries[i];
	qsort(scaled.entries, scaled.n, sizeof *scaled.entries, compare);
	const int code = join_all(plan, &scaled, error);
	free(scaled.entries);
	return code;
}
