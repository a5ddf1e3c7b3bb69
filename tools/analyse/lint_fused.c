/* SPDX-License-Identifier: MIT */
/* Tensors that loaders fuse into one: their tensor scales should be one. */
#include "config.h"

#include <stdlib.h>

#include "analyse/lint.h"
#include "model/fused.h"

/* The tensor scale of a quantized tensor as what multiplies; *has is false if there is no such tensor or it has
   none. */
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

static int compare_scales(struct lint *lint, const struct lint_weight *weight, const struct fused *fused,
                          struct error *error)
{
	const char *const *parts = fused->parts;
	double first, least, most;
	bool has;
	int code = find_scale(lint, weight->name, &first, &has, error);

	if (code != EXIT_OK || !has)
		return code;
	least = most = first;
	for (size_t i = 1; i < fused->n && code == EXIT_OK; i++) {
		char *name = fused_name(fused, i);
		double scale;

		code = name == NULL ? fail_memory(error) : find_scale(lint, name, &scale, &has, error);
		free(name);
		if (code != EXIT_OK || !has)
			continue;
		least = scale < least ? scale : least;
		most = scale > most ? scale : most;
	}
	if (code != EXIT_OK || !(least < most))
		return code;
	return lint_find(lint, LINT_FUSED_SCALE, &(struct lint_place){weight->file, weight->name}, error,
	                 "of its tensor scale, %.6g, and those of %s%s%s beside it the largest is %.4g times the smallest",
	                 first, parts[1], fused->n > 2 ? " and " : "", fused->n > 2 ? parts[2] : "", most / least);
}

int lint_fused(struct lint *lint, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++) {
		const struct lint_weight *weight = &lint->weights[i];
		struct fused fused;

		/* The first of a set stands for all. */
		if (weight->format == MXFP_FORMAT_NVFP4 && fused_find(&fused, weight->name) && fused.which == 0)
			code = compare_scales(lint, weight, &fused, error);
	}
	return code;
}
