/* SPDX-License-Identifier: MIT */
/* What the output says about how it was made: metadata of its files, and config.json. */
#include "config.h"

#include <string.h>

#include "choices.h"
#include "model_config.h"
#include "mxfp.h"
#include "quantize.h"
#include "suffix.h"

static const char module_suffix[] = ".weight";

static void add(struct metadata *choices, size_t *n, const char *key, const char *value)
{
	choices[(*n)++] = (struct metadata){key, value};
}

size_t quantize_choices(const struct quantize_plan *plan, struct metadata *choices)
{
	const struct quantize_settings *s = plan->settings;
	size_t n = 0;

	add(choices, &n, "mxfp.version", mxfp_version());
	add(choices, &n, "mxfp.weights", mxfp_format_info(s->weights)->name);
	if (mxfp_format_info(s->weights)->tensor_scale)
		add(choices, &n, "mxfp.recipe", choice_name(OPTION_RECIPE, s->recipe));
	else
		add(choices, &n, "mxfp.rule", choice_name(OPTION_RULE, s->rule));
	if (s->sparsity.m != 0)
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
	json_t *quantization = layout_config(&plan->choice, plan->settings->activations, ignored_modules(plan));
	bool whole = json_object_set_new(quantization, "mxfp", own_facts(plan)) == 0;

	whole &= json_object_set_new(*config, "quantization_config", quantization) == 0;
	if (whole && !json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}
