/* SPDX-License-Identifier: MIT */
/* Tensors that loaders fuse into one: their tensor scales should be one. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lint.h"

enum { FUSED_MAX = 3 };

/* Parts of names, of modules that are fused; the first stands for all. */
static const char *const fused[][FUSED_MAX] = {
	{"q_proj", "k_proj", "v_proj"},
	{"gate_proj", "up_proj"},
	{".w1.", ".w3."},
	{"attn_q.", "attn_k.", "attn_v."},
	{"ffn_gate.", "ffn_up."},
};

/* The name with a part of it replaced; malloc'ed. */
static char *replaced(const char *name, const char *at, size_t n, const char *by)
{
	size_t size = strlen(name) + strlen(by) + 1;
	char *text = malloc(size);

	if (text != NULL)
		snprintf(text, size, "%.*s%s%s", (int)(at - name), name, by, at + n);
	return text;
}

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

static int compare_scales(struct lint *lint, const struct lint_weight *weight, const char *const *parts,
                          struct error *error)
{
	const char *at = strstr(weight->name, parts[0]);
	double first, least, most;
	bool has;
	int code = find_scale(lint, weight->name, &first, &has, error);

	if (code != EXIT_OK || !has)
		return code;
	least = most = first;
	for (size_t i = 1; i < FUSED_MAX && parts[i] != NULL && code == EXIT_OK; i++) {
		char *name = replaced(weight->name, at, strlen(parts[0]), parts[i]);
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
	                 first, parts[1], parts[2] != NULL ? " and " : "", parts[2] != NULL ? parts[2] : "",
	                 most / least);
}

int lint_fused(struct lint *lint, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++)
		for (size_t k = 0; k < sizeof fused / sizeof fused[0] && code == EXIT_OK; k++)
			if (lint->weights[i].format == MXFP_FORMAT_NVFP4 && strstr(lint->weights[i].name, fused[k][0]) != NULL)
				code = compare_scales(lint, &lint->weights[i], fused[k], error);
	return code;
}
