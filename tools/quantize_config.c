/* SPDX-License-Identifier: MIT */
/* What the output says about how it was made: metadata of its files, and config.json. */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "choices.h"
#include "model_config.h"
#include "mxfp.h"
#include "quantize.h"
#include "suffix.h"

static const char module_suffix[] = ".weight";

enum { GROUPS_MAX = 64 }; /* there are fewer pairs of a format and a sparsity */

static void add(struct metadata *choices, size_t *n, const char *key, const char *value)
{
	choices[(*n)++] = (struct metadata){key, value};
}

size_t quantize_choices(const struct quantize_plan *plan, struct metadata *choices)
{
	const struct quantize_settings *s = plan->settings;
	const struct quantize_choice *weights = &s->choice;
	size_t n = 0;

	add(choices, &n, "mxfp.version", mxfp_version());
	add(choices, &n, "mxfp.weights", mxfp_format_info(weights->format)->name);
	if (mxfp_format_info(weights->format)->tensor_scale)
		add(choices, &n, "mxfp.recipe", choice_name(OPTION_RECIPE, weights->recipe));
	else
		add(choices, &n, "mxfp.rule", choice_name(OPTION_RULE, weights->rule));
	if (weights->sparsity.m != 0)
		add(choices, &n, LAYOUT_SPARSITY, plan->sparsity);
	add(choices, &n, "mxfp.round", choice_name(OPTION_ROUND, s->round));
	add(choices, &n, "mxfp.seed", plan->seed);
	add(choices, &n, "mxfp.non_finite", choice_name(OPTION_NON_FINITE, s->non_finite));
	if (s->activations == OPTION_FORMAT_NONE) {
		add(choices, &n, "mxfp.activations", "none");
	} else {
		add(choices, &n, "mxfp.activations", mxfp_format_info(s->activations)->name);
		add(choices, &n, "mxfp.activation_rule", choice_name(OPTION_RULE, s->activation_rule));
	}
	return n;
}

/* Adds the module of a weight to a list, with a reference; false without memory. */
static bool append_module(json_t *ignore, const char *tensor)
{
	size_t n = strlen(tensor) - strlen(module_suffix);

	return json_array_append_new(ignore, json_stringn(tensor, n)) == 0;
}

/* Whether a loader would take a kept tensor for the weight of a linear layer. */
static bool looks_linear(const struct quantize_entry *entry)
{
	return !entry->quantized && entry->source->rank == 2 && suffix_stem(entry->source->name, module_suffix) != 0;
}

/*
 * Names of modules that a loader must leave alone. A model whose output head shares the embedding's weight has a module
 * lm_head but no tensor of its own, so that name is always there unless it was quantized or is kept under it.
 */
static json_t *ignored_modules(const struct quantize_plan *plan)
{
	json_t *ignore = json_array();
	const struct file *file;
	bool whole = ignore != NULL;

	if (model_find(plan->model, "lm_head.weight", &file) == NULL)
		whole = whole && json_array_append_new(ignore, json_string("lm_head")) == 0;
	for (size_t i = 0; i < plan->n_entries && whole; i++)
		if (looks_linear(&plan->entries[i]))
			whole = append_module(ignore, plan->entries[i].source->name);
	if (whole)
		return ignore;
	json_decref(ignore);
	return NULL;
}

/* Appends the module of a quantized tensor. */
static bool append_target(json_t *targets, const char *tensor)
{
	if (suffix_stem(tensor, module_suffix) != 0)
		return append_module(targets, tensor);
	return json_array_append_new(targets, json_string(tensor)) == 0;
}

/* The group of modules that an entry is of, a new one if it is the first. */
static struct layout_group *group_of(const struct layout_choice *layout, struct layout_group *groups, size_t *n)
{	for (size_t i = 0; i < *n; i++)
		if (groups[i].choice.form == layout->form && groups[i].choice.sparsity.n == layout->sparsity.n &&
		    groups[i].choice.sparsity.m == layout->sparsity.m)
			return &groups[i];
	assert(*n < GROUPS_MAX);
	groups[*n] = (struct layout_group){*layout, json_array()};
	return &groups[(*n)++];
}

/*
 * The groups of modules, and their number. If weights are quantized alike, one group has the class of linear layers.
 * Otherwise every module is in its group by name and none by class, because a loader that fuses layers looks for the
 * class of the fused one before it looks for the names of its parts.
 */
static size_t find_groups(const struct quantize_plan *plan, struct layout_group groups[GROUPS_MAX], bool *whole)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		const struct layout_choice layout = quantize_layout(plan->settings->layout, &entry->choice);

		if (entry->quantized)
			*whole &= append_target(group_of(&layout, groups, &n)->targets, entry->source->name);
	}
	if (n > 1)
		return n;
	if (n == 0)
		groups[0].choice = quantize_layout(plan->settings->layout, &plan->settings->choice);
	json_decref(groups[0].targets);
	groups[0].targets = json_pack("[s]", "Linear");
	return 1;
}

/* The choices without their prefix, for quantization_config. */
static json_t *own_facts(const struct quantize_plan *plan)
{
	struct metadata choices[QUANTIZE_CHOICES_MAX];
	size_t n = quantize_choices(plan, choices), prefix = strlen("mxfp.");
	json_t *facts = json_object();
	bool whole = true;

	for (size_t i = 0; i < n; i++)
		whole &= json_object_set_new(facts, choices[i].key + prefix, json_string(choices[i].value)) == 0;
	if (whole)
		return facts;
	json_decref(facts);
	return NULL;
}

int quantize_config(const struct quantize_plan *plan, json_t **config, struct error *error)
{
	int code = model_config_copy(plan->model, config, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	if (*config == NULL)
		*config = json_object();
	struct layout_group groups[GROUPS_MAX] = {0};
	bool whole = true;
	size_t n_groups = find_groups(plan, groups, &whole);
	json_t *quantization = layout_config(groups, n_groups, plan->settings->activations, ignored_modules(plan));
	whole &= json_object_set_new(quantization, "mxfp", own_facts(plan)) == 0;

	whole &= json_object_set_new(*config, "quantization_config", quantization) == 0;
	if (whole && !json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}
