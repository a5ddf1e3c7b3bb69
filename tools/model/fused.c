/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/fused.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"

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

static const char weight_suffix[] = ".weight", experts[] = ".experts";

/* Last words of modules' names, and of the module that loaders make of them. */
static const struct {
	const char *part, *whole;
} wholes[] = {
	{".q_proj", ".qkv_proj"},
	{".k_proj", ".qkv_proj"},
	{".v_proj", ".qkv_proj"},
	{".gate_proj", ".gate_up_proj"},
	{".up_proj", ".gate_up_proj"},
	{".w1", ".w13"},
	{".w3", ".w13"},
	{".q_a_proj", ".qkv_a_proj"},
	{".kv_a_proj_with_mqa", ".qkv_a_proj"},
};

/* The name of a tensor's unit; NULL without memory. */
static const char *unit_name(const char *tensor, struct arena *arena)
{
	size_t stem = suffix_stem(tensor, weight_suffix), length = stem != 0 ? stem : strlen(tensor);
	char *name = arena_take(arena, length + sizeof ".gate_up_proj");

	if (name == NULL)
		return NULL;
	memcpy(name, tensor, length);
	name[length] = '\0';
	for (char *at = strstr(name, experts); at != NULL; at = strstr(at + 1, experts))
		if (at[sizeof experts - 1] == '.') {
			at[sizeof experts - 1] = '\0';
			return name;
		}
	for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
		stem = suffix_stem(name, wholes[i].part);
		if (stem != 0) {
			strcpy(name + stem, wholes[i].whole);
			break;
		}
	}
	return name;
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
	units->items = calloc(n + 1, sizeof *units->items);
	units->members = calloc(n + 1, sizeof *units->members);
	bool whole = named != NULL && units->items != NULL && units->members != NULL;

	for (size_t i = 0; i < n && whole; i++) {
		named[i] = (struct named){unit_name(tensors[i], &units->arena), i};
		whole = named[i].unit != NULL;
	}
	if (whole)
		qsort(named, n, sizeof *named, compare);
	for (size_t i = 0; i < n && whole; i++) {
		if (i == 0 || strcmp(named[i].unit, named[i - 1].unit) != 0)
			units->items[units->n++] = (struct unit){named[i].unit, i, 0};
		units->items[units->n - 1].n++;
		units->members[i] = named[i].number;
	}
	free(named);
	return whole ? EXIT_OK : fail_memory(error);
}

void units_free(struct units *units)
{
	free(units->items);
	free(units->members);
	arena_free(&units->arena);
	*units = (struct units){0};
}
