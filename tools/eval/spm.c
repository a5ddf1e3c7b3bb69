/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/spm.h"

static bool find_token(const void *context, const struct merge_symbol *left, const struct merge_symbol *right,
                       double *cost, uint32_t *id)
{
	const struct spm *spm = context;

	if (!vocabulary_find(spm->vocabulary, spm->text + left->from, left->n + right->n, id))
		return false;
	*cost = -(double)spm->scores[*id];
	return true;
}

int spm_merge(const struct spm *spm, struct merge *merge, struct error *error)
{
	return merge_run(merge, find_token, spm, error);
}
