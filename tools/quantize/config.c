/* SPDX-License-Identifier: MIT */
/* Describes how the output was made, for its metadata and its config.json. */
#include "config.h"

#include <string.h>

#include "io/facts.h"
#include "model/choices.h"
#include "model/layout_config.h"
#include "model/model_output.h"
#include "mxfp.h"
#include "quantize/quantize.h"

static void add(struct metadata *choices, size_t *n, const char *key, const char *value)
{
	choices[(*n)++] = (struct metadata){key, value};
}

size_t quantize_choices(const struct quantize_plan *plan, struct metadata *choices)
{
	const struct quantize_settings *s = plan->settings;
	const struct quantize_choice *weights = &s->choice;
	size_t n = 0;

	add(choices, &n, METADATA_VERSION, mxfp_version());
	add(choices, &n, METADATA_WEIGHTS, mxfp_format_get_info(weights->format)->name);
	if (mxfp_format_get_info(weights->format)->tensor_scale)
		add(choices, &n, "mxfp.recipe", choice_name(OPTION_RECIPE, weights->recipe));
	else
		add(choices, &n, "mxfp.rule", choice_name(OPTION_RULE, weights->rule));
	if (s->fuse)
		add(choices, &n, "mxfp.fuse", "yes");
	if (quantize_in_squares(weights))
		add(choices, &n, LAYOUT_BLOCK, LAYOUT_SQUARES);
	if (weights->sparsity.m != 0)
		add(choices, &n, LAYOUT_SPARSITY, plan->sparsity);
	add(choices, &n, "mxfp.round", choice_name(OPTION_ROUND, s->round));
	add(choices, &n, "mxfp.seed", plan->seed);
	add(choices, &n, "mxfp.non_finite", choice_name(OPTION_NON_FINITE, s->non_finite));
	if (s->activations == OPTION_FORMAT_NONE) {
		add(choices, &n, "mxfp.activations", "none");
	} else {
		add(choices, &n, "mxfp.activations", mxfp_format_get_info(s->activations)->name);
		add(choices, &n, "mxfp.activation_rule", choice_name(OPTION_RULE, s->activation_rule));
	}
	return n;
}

static void collect(const struct quantize_plan *plan, struct layout_facts *facts)
{
	const struct layout *layout = plan->settings->layout;

	layout_facts_begin(facts, layout, plan->settings->activations, plan->model);
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct quantize_entry *entry = &plan->entries[i];
		const struct layout_choice choice = quantize_layout(layout, &entry->choice);

		if (entry->quantized)
			layout_facts_add(facts, &choice, entry->source->name);
		else
			layout_facts_keep(facts, entry->stored);
	}
}

/* The choices without their prefix, for quantization_config. */
static json_t *own_facts(const struct quantize_plan *plan)
{
	struct metadata choices[QUANTIZE_CHOICES_MAX];
	size_t n = quantize_choices(plan, choices), prefix = strlen("mxfp.");
	json_t *facts = json_object();

	for (size_t i = 0; i < n; i++)
		facts = facts_set(facts, choices[i].key + prefix, json_string(choices[i].value));
	return facts;
}

int quantize_config(const struct quantize_plan *plan, json_t **config, struct error *error)
{
	int code = model_config_copy(plan->model, config, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	if (*config == NULL)
		*config = json_object();
	struct layout_facts facts;
	collect(plan, &facts);
	json_t *quantization = layout_config(&facts);

	layout_facts_free(&facts);
	if (quantization != NULL) {
		json_object_set_new(quantization, "mxfp", own_facts(plan));
		layout_config_put(*config, plan->settings->layout, quantization);
	} else {
		/* It is written nowhere, but what is not the same is another output. */
		json_object_set_new(*config, "mxfp", own_facts(plan));
	}
	if (!json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}
