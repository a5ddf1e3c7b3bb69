/* SPDX-License-Identifier: MIT */
/* What the model says about its numbers besides them. Tensors that say the same are one finding. */
#include "config.h"

#include <string.h>

#include "analyse/lint.h"
#include "model/meaning.h"

static enum lint_check check_of(enum meaning_kind kind)
{
	return kind == MEANING_FOLDED ? LINT_PRE_QUANT_SCALE : kind == MEANING_FOREIGN ? LINT_UNKNOWN : LINT_MEANING;
}

/* Whether another check finds it: lint_names.c goes by names of tensors, which say more than that of a method, and
   lint_config.c looks for sections without quantized tensors. */
static bool is_found(const struct lint *lint, const struct meaning_fact *fact)
{
	const struct file *file;
	const struct tensor *tensor = fact->tensor != NULL ? model_find(lint->model, fact->tensor, &file) : NULL;

	switch (fact->kind) {
	case MEANING_CARRIED:
	case MEANING_LEFTOVER:
		return true;
	case MEANING_ORPHAN:
		return dtype_info(tensor->dtype)->bits == 8 && strcmp(fact->key, "weight_scale") == 0;
	case MEANING_TWICE: /* beside the weight itself */
		return strncmp(fact->tensor, fact->key, strlen(fact->key)) == 0;
	case MEANING_FOREIGN:
		if (fact->tensor != NULL)
			return true;
		break;
	default:
		break;
	}
	/* Keys about tensors that are not read say no more than that. */
	return lint->has_foreign && fact->tensor == NULL && (lint->n_weights == 0 || strcmp(fact->key, "quant_method") == 0);
}

static int find(struct lint *lint, const struct meaning_sum *sum, struct error *error)
{
	const struct meaning_fact *fact = &sum->fact;
	struct lint_place place = {.tensor = fact->tensor};

	/* lint_names.c knows what tensors of layouts that it names are parts of. */
	lint->names_unknown |= fact->kind == MEANING_FOREIGN && fact->tensor == NULL && !lint->has_foreign;
	lint->refused |= fact->kind != MEANING_CARRIED && fact->kind != MEANING_FOLDED;
	if (is_found(lint, fact))
		return EXIT_OK;
	if (fact->tensor == NULL)
		return lint_find(lint, check_of(fact->kind), &place, error, "%s: '%s' %s", fact->path, fact->key, fact->text);
	(void)model_find(lint->model, place.tensor, &place.file);
	return lint_find_alike(lint, check_of(fact->kind), &place, sum->n, error, "%s", fact->text);
}

int lint_meaning(struct lint *lint, struct error *error)
{
	struct meaning_sums sums;
	int code = meaning_sum_up(lint->model, &sums, error);

	for (size_t i = 0; i < sums.n && code == EXIT_OK; i++)
		code = find(lint, &sums.items[i], error);
	meaning_sums_free(&sums);
	return code;
}
