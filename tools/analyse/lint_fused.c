/* SPDX-License-Identifier: MIT */
/* Checks that tensors which loaders fuse into one share their tensor scale. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyse/lint.h"
#include "model/fused.h"

/* The tensor scale of a quantized tensor, as a factor; *has is false if there is no such tensor or it has none. */
static int find_scale(const struct lint *lint, const char *name, double *scale, bool *has, struct error *error)
{
	struct quantized q;
	int code = EXIT_OK;

	*has = false;
	if (lint_weight(lint, name) == NULL)
		return EXIT_OK;
	code = quantized_find(&q, has, lint->model, name, error);
	*has = code == EXIT_OK && *has && q.parts[LAYOUT_TENSOR_SCALE] != NULL;
	*scale = !*has ? 0 : q.choice.layout->divides ? 1 / (double)q.tensor_scale : (double)q.tensor_scale;
	return code;
}

/* What was seen of a set. */
struct seen {
	double first, least, most;
	char others[128]; /* " k_proj, v_proj" */
};

/* Looks at all of a set but the one that `fused` names. *is_first: none that has a scale stands before it. */
static int see(struct seen *seen, bool *is_first, const struct lint *lint, const struct fused *fused, struct error *error)
{
	size_t used = 0;
	int code = EXIT_OK;

	*is_first = true;
	for (size_t i = 0; i < fused->n && code == EXIT_OK && *is_first; i++) {
		double scale = 0;
		bool has = false;

		if (i == fused->which)
			continue;
		char *name = fused_name(fused, i);
		code = name == NULL ? fail_memory(error) : find_scale(lint, name, &scale, &has, error);
		free(name);
		if (code != EXIT_OK || !has)
			continue;
		*is_first = i > fused->which;
		seen->least = scale < seen->least ? scale : seen->least;
		seen->most = scale > seen->most ? scale : seen->most;
		if (used < sizeof seen->others)
			used += (size_t)snprintf(seen->others + used, sizeof seen->others - used, "%s%s", used > 0 ? ", " : "",
			                         fused->set->parts[i]);
	}
	return code;
}

static int compare_scales(struct lint *lint, const struct lint_weight *weight, const struct fused *fused,
                          struct error *error)
{
	struct seen seen = {0};
	bool has, is_first;
	int code = find_scale(lint, weight->name, &seen.first, &has, error);

	if (code != EXIT_OK || !has)
		return code;
	seen.least = seen.most = seen.first;
	code = see(&seen, &is_first, lint, fused, error);
	if (code != EXIT_OK || !is_first || !(seen.least < seen.most))
		return code;
	return lint_find(lint, LINT_FUSED_SCALE, &(struct lint_place){.file = weight->file, .tensor = weight->name}, error,
	                 "of its tensor scale, %.6g, and those of %s beside it the largest is %.4g times the smallest",
	                 seen.first, seen.others, seen.most / seen.least);
}

static bool has_weight(const void *lint, const char *name)
{
	return lint_weight(lint, name) != NULL;
}

int lint_fused(struct lint *lint, struct error *error)
{
	const struct fused_names names = {has_weight, lint};
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++) {
		const struct lint_weight *weight = &lint->weights[i];
		struct fused fused;
		bool found = false;

		if (weight->format == MXFP_FORMAT_NVFP4)
			code = fused_find(&fused, &found, weight->name, &names, error);
		/* The first of a set stands for all. */
		if (code == EXIT_OK && found)
			code = compare_scales(lint, weight, &fused, error);
	}
	return code;
}
