/* SPDX-License-Identifier: MIT */
#include "base/sparsity.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

const char *sparsity_text(struct mxfp_sparsity sparsity, char text[SPARSITY_TEXT])
{
	snprintf(text, SPARSITY_TEXT, "%u:%u", sparsity.n, sparsity.m);
	return text;
}

bool sparsity_find(const char *text, struct mxfp_sparsity *sparsity)
{
	const struct mxfp_sparsity *pattern;
	char name[SPARSITY_TEXT];

	for (size_t i = 0; (pattern = mxfp_sparsity_pattern(i)) != NULL; i++)
		if (strcmp(sparsity_text(*pattern, name), text) == 0) {
			*sparsity = *pattern;
			return true;
		}
	return false;
}

int sparsity_parse(const char *text, const char *where, struct mxfp_sparsity *sparsity, struct error *error)
{
	const struct mxfp_sparsity *pattern;
	char texts[16][SPARSITY_TEXT];
	const char *names[16];
	size_t n = 0;

	if (sparsity_find(text, sparsity))
		return EXIT_OK;
	for (; n < 16 && (pattern = mxfp_sparsity_pattern(n)) != NULL; n++)
		names[n] = sparsity_text(*pattern, texts[n]);
	return nearest_fail(where, text, "patterns", names, n, error);
}
