/* SPDX-License-Identifier: MIT */
/* config.json of a model in another layout. */
#include "config.h"

#include <string.h>

#include "io/directory.h"
#include "model/layout_config.h"
#include "model/model_config.h"
#include "rewrite/relayout.h"

static bool is_text(const json_t *json, const char *text)
{
	const char *value = json_string_value(json);

	return value != NULL && strcmp(value, text) == 0;
}

/* The format that arguments of compressed-tensors' groups name: floats of so many bits in MX blocks. */
static enum mxfp_format scheme_format(const json_t *arguments)
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP4};
	json_int_t bits = json_integer_value(json_object_get(arguments, "num_bits"));

	if (json_integer_value(json_object_get(arguments, "group_size")) != 32 ||
	    !is_text(json_object_get(arguments, "type"), "float"))
		return OPTION_FORMAT_NONE;
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if ((json_int_t)mxfp_format_info(mxfp_format_info(formats[i])->element)->bits == bits)
			return formats[i];
	return OPTION_FORMAT_NONE;
}

/* What a configuration says that activations are quantized to: in our own words, or in those of a layout. */
static enum mxfp_format activations_of(const json_t *quantization)
{
	const char *own = json_string_value(json_object_get(json_object_get(quantization, "mxfp"), "activations"));
	const json_t *algorithm = json_object_get(quantization, "quant_algo");
	const json_t *input = json_object_get(json_object_get(quantization, "global_quant_config"), "input_tensors");
	json_t *groups = json_object_get(quantization, "config_groups");
	enum mxfp_format format;

	if (own != NULL && mxfp_format_from_name(own, &format) == MXFP_OK)
		return format;
	if (is_text(algorithm, "W4A8_MXFP4_FP8") || is_text(algorithm, "MXFP8"))
		return MXFP_FORMAT_MXFP8_E4M3;
	if (is_text(json_object_get(input, "dtype"), "fp4"))
		return MXFP_FORMAT_MXFP4;
	return scheme_format(json_object_get(json_object_iter_value(json_object_iter(groups)), "input_activations"));
}

/* The layout's configuration, with what mxfp quantize noted in the source's. */
static json_t *new_config(const struct relayout_plan *plan, const json_t *before)
{
	const json_t *old = json_object_get(before, "quantization_config");
	enum mxfp_format activations = activations_of(old);
	struct layout_facts facts;

	layout_facts_begin(&facts, plan->settings->layout, activations, plan->model);
	for (size_t i = 0; i < plan->n_entries; i++) {
		const struct relayout_entry *entry = &plan->entries[i];
		const struct quantized *q = &entry->quantized;

		if (entry->what == RELAYOUT_DECODED || (entry->what == RELAYOUT_COPIED && entry->name == NULL))
			layout_facts_keep(&facts, &entry->parts[0]);
		else if (q->parts[LAYOUT_CODES] == entry->source)
			layout_facts_add(&facts, entry->what == RELAYOUT_MOVED ? &entry->choice : &q->choice, entry->name);
		facts.input_scales |= entry->parts[LAYOUT_INPUT_SCALE].name != NULL ||
		                      (entry->what == RELAYOUT_COPIED && q->parts[LAYOUT_INPUT_SCALE] == entry->source);
	}
	if (activations != OPTION_FORMAT_NONE && facts.n_groups > 0 &&
	    (facts.groups[0].choice.form->activations >> activations & 1) == 0)
		facts.activations = OPTION_FORMAT_NONE;
	json_t *config = layout_config(&facts);
	layout_facts_free(&facts);
	if (config == NULL)
		return NULL;
	json_t *own = json_deep_copy(json_object_get(old, "mxfp"));
	own = own != NULL ? own : json_object();
	json_object_del(own, DIRECTORY_CARRIED);
	if (plan->carry.n > 0)
		json_object_set_new(own, DIRECTORY_CARRIED, carry_facts(&plan->carry));
	json_object_set_new(config, "mxfp", own);
	return config;
}

int relayout_config(const struct relayout_plan *plan, json_t **config, struct error *error)
{
	int code = model_config_copy(plan->model, config, error);

	if (code != EXIT_OK)
		return code;
	json_prepare();
	if (*config == NULL)
		*config = json_object();
	json_t *quantization = new_config(plan, *config);
	if (quantization != NULL)
		json_object_set_new(*config, "quantization_config", quantization);
	else
		json_object_del(*config, "quantization_config");
	if (!json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}
