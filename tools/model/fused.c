/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/fused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const sets[][FUSED_MAX] = {
	{"q_proj", "k_proj", "v_proj"},
	{"gate_proj", "up_proj"},
	{".w1.", ".w3."},
	{"attn_q.", "attn_k.", "attn_v."},
	{"ffn_gate.", "ffn_up."},
};

enum { N_SETS = sizeof sets / sizeof sets[0] };

static size_t count(const char *const *parts)
{
	size_t n = 0;

	while (n < FUSED_MAX && parts[n] != NULL)
		n++;
	return n;
}

bool fused_find(struct fused *fused, const char *name)
{
	for (size_t i = 0; i < N_SETS; i++)
		for (size_t k = 0; k < count(sets[i]); k++) {
			const char *at = strstr(name, sets[i][k]);

			if (at == NULL)
				continue;
			*fused = (struct fused){name, sets[i], count(sets[i]), k, (size_t)(at - name)};
			return true;
		}
	return false;
}

char *fused_name(const struct fused *fused, size_t which)
{
	const char *part = fused->parts[which], *rest = fused->name + fused->at + strlen(fused->parts[fused->which]);
	size_t size = fused->at + strlen(part) + strlen(rest) + 1;
	char *name = malloc(size);

	if (name != NULL)
		snprintf(name, size, "%.*s%s%s", (int)fused->at, fused->name, part, rest);
	return name;
}
