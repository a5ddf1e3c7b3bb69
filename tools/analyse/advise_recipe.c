/* SPDX-License-Identifier: MIT */
/* The recipe of a mixture: what most weights become is the default, and rules name the layers of other variants. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/advise.h"
#include "io/json.h"

/* A name as a glob that matches nothing else. */
static json_t *glob_of(const char *name)
{
	char *glob = malloc(2 * strlen(name) + 3), *to = glob;

	if (glob == NULL)
		return NULL;
	if (strncmp(name, "re:", 3) == 0)
		*to++ = '\\';
	for (; *name != '\0'; *to++ = *name++)
		if (strchr("*?[\\", *name) != NULL)
			*to++ = '\\';
	*to = '\0';
	json_t *text = json_string(glob);
	free(glob);
	return text;
}

static json_t *change_of(const struct variant *variant)
{
	return json_pack("{s:s, s:s}", "format", mxfp_format_get_info(variant->format)->name,
	                 variant_has_recipe(variant) ? "nvfp4_recipe" : "rule", variant_choice(variant));
}

static json_t *patterns_of(const struct string_list *list)
{
	json_t *patterns = json_array();

	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(patterns, json_string(list->items[i]));
	return patterns;
}

/* The variant of each layer, and the one that most weights have. */
static size_t *variants_of(const struct advice *advice, const struct advise_mix *mix, size_t *most)
{
	size_t *chosen = advise_of_layers(advice, mix);
	uint64_t elements[VARIANTS_MAX] = {0};

	*most = 0;
	for (size_t i = 0; i < advice->n_layers && chosen != NULL; i++) {
		const struct advise_layer *layer = &advice->layers[i];

		chosen[i] = advise_best(advice, layer, advice->formats[chosen[i]]);
		elements[chosen[i]] += layer->errors[chosen[i]].elements;
	}
	for (size_t v = 0; v < advice->options->variants.n; v++)
		if (elements[v] > elements[*most])
			*most = v;
	return chosen;
}

json_t *advise_recipe(const struct advice *advice, const struct advise_mix *mix)
{
	const struct variants *variants = &advice->options->variants;
	size_t most;
	size_t *chosen = variants_of(advice, mix, &most);

	if (chosen == NULL)
		return NULL;
	json_prepare();
	json_t *rules = json_array();
	if (advice->select->ignore.n > 0)
		json_array_append_new(rules, json_pack("{s:o, s:b}", "match", patterns_of(&advice->select->ignore), "keep", 1));
	for (size_t v = 0; v < variants->n; v++) {
		json_t *names = json_array();

		for (size_t i = 0; i < advice->n_layers; i++)
			if (chosen[i] == v && v != most)
				json_array_append_new(names, glob_of(advice->layers[i].tensor->name));
		json_t *rule = json_pack("{s:O}", "match", names);
		json_object_update_new(rule, change_of(&variants->items[v]));
		if (json_array_size(names) > 0)
			json_array_append(rules, rule);
		json_decref(rule);
		json_decref(names);
	}
	free(chosen);
	json_t *recipe = json_pack("{s:i, s:o}", "version", 1, "default", change_of(&variants->items[most]));
	if (advice->select->include.n > 0)
		json_object_set_new(recipe, "include", patterns_of(&advice->select->include));
	json_object_set_new(recipe, "rules", rules);
	if (!json_out_of_memory())
		return recipe;
	json_decref(recipe);
	return NULL;
}
