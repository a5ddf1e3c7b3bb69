/* SPDX-License-Identifier: MIT */
/* What layers and kinds of weights cost alone: runs in which all others stay as they are stored. */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"
#include "eval/evaluate.h"

static const char experts[] = "experts";

/* Finds the number of the layer that a name has: its first part between dots that is one. False: none. */
static bool find_layer(const char *tensor, size_t *layer)
{
	for (const char *at = tensor; *at != '\0'; at += strcspn(at, "."), at += *at == '.') {
		char *end;

		if (!isdigit((unsigned char)*at))
			continue;
		*layer = (size_t)strtoull(at, &end, 10);
		if (*end == '.' || *end == '\0')
			return true;
	}
	return false;
}

/* The kind of a weight, in `kind`: "experts" (Hugging Face's and GGUF's names for them), or what its module is called. */
static void find_kind(const char *tensor, char kind[TRIAL_TEXT])
{
	const size_t stem = suffix_stem(tensor, ".weight"), n = stem != 0 ? stem : strlen(tensor);
	size_t start = n;

	while (start > 0 && tensor[start - 1] != '.')
		start--;
	if (strstr(tensor, ".experts.") != NULL || strstr(tensor, "_exps") != NULL)
		snprintf(kind, TRIAL_TEXT, "%s", experts);
	else
		snprintf(kind, TRIAL_TEXT, "%.*s", (int)(n - start), tensor + start);
}

/* Whether a tensor is no part of it: an evaluate_kept. */
static bool is_outside(void *context, const char *tensor)
{
	const struct evaluate_part *part = context;
	char kind[TRIAL_TEXT];
	size_t layer;

	if (part->name[0] == '\0')
		return !find_layer(tensor, &layer) || layer != part->layer;
	find_kind(tensor, kind);
	return strcmp(kind, part->name) != 0;
}

/* Adds a tensor's elements to the part of that name or layer, which is made if there is none. */
static int add_part(struct evaluation *evaluation, const char *name, size_t layer, uint64_t elements, struct error *error)
{
	struct evaluate_part *parts = evaluation->parts;
	size_t i = 0;

	while (i < evaluation->n_parts && (strcmp(parts[i].name, name) != 0 || parts[i].layer != layer))
		i++;
	if (i == evaluation->n_parts) {
		parts = realloc(parts, (i + 1) * sizeof *parts);
		if (parts == NULL)
			return fail_memory(error);
		evaluation->parts = parts;
		parts[i] = (struct evaluate_part){.layer = layer};
		snprintf(parts[i].name, sizeof parts[i].name, "%s", name);
		evaluation->n_parts++;
	}
	parts[i].elements += elements;
	return EXIT_OK;
}

int evaluate_count_parts(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                         size_t *n_runs, struct error *error)
{
	struct quantize_plan plan;
	char kind[TRIAL_TEXT];
	size_t layer;
	int code = quantize_plan(&plan, &trial->settings, model, error);

	for (size_t i = 0; code == EXIT_OK && i < plan.n_entries; i++) {
		const struct quantize_entry *entry = &plan.entries[i];
		const uint64_t elements = entry->rows * entry->cols;

		if (!entry->quantized)
			continue;
		find_kind(entry->stored->name, kind);
		if (find_layer(entry->stored->name, &layer))
			code = add_part(evaluation, "", layer, elements, error);
		if (code == EXIT_OK)
			code = add_part(evaluation, kind, 0, elements, error);
	}
	quantize_plan_free(&plan);
	*n_runs = evaluation->n_parts;
	return code;
}

/* Layers before kinds, then by divergence, what is not a number first; then in their order. */
static int compare(const void *a, const void *b)
{
	const struct evaluate_part *x = a, *y = b;
	const double cost_x = x->result.summary.divergence.mean, cost_y = y->result.summary.divergence.mean;

	if ((x->name[0] == '\0') != (y->name[0] == '\0'))
		return x->name[0] == '\0' ? -1 : 1;
	if (isnan(cost_x) != isnan(cost_y))
		return isnan(cost_x) ? -1 : 1;
	if (cost_x > cost_y || cost_x < cost_y)
		return cost_x > cost_y ? -1 : 1;
	return x->layer != y->layer ? (x->layer < y->layer ? -1 : 1) : strcmp(x->name, y->name);
}

int evaluate_by_layer(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                      struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < evaluation->n_parts && code == EXIT_OK; i++) {
		struct evaluate_part *part = &evaluation->parts[i];
		const struct evaluate_kept kept = {is_outside, part};

		code = evaluate_run_kept(evaluation, model, trial, EVALUATE_BESIDE, &kept, &part->result, error);
	}
	if (code == EXIT_OK && evaluation->n_parts > 1)
		qsort(evaluation->parts, evaluation->n_parts, sizeof *evaluation->parts, compare);
	return code;
}
