/* SPDX-License-Identifier: MIT */
/* The parts of quantization_config that all layouts share. */
#include "config.h"

#include "model/layout_config.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/suffix.h"

static const char module_suffix[] = ".weight";

/*
 * A model whose output head shares the embedding's weight has a module lm_head but no tensor of its own, so that name
 * is always among those that are not quantized unless there is such a tensor. Whisper calls it proj_out.
 */
void layout_facts_begin(struct layout_facts *facts, const struct layout *layout, enum mxfp_format activations,
                        const struct model *source)
{
	const struct file *file;

	*facts = (struct layout_facts){
		.layout = layout,
		.role_model = &source->role_model,
		.activations = activations,
		.ignore = json_array(),
		.roots = json_object(),
	};
	if (model_find(source, "lm_head.weight", &file) == NULL)
		json_array_append_new(facts->ignore, json_string("lm_head"));
	if (strcmp(source->role_model.type, "whisper") == 0 && model_find(source, "proj_out.weight", &file) == NULL)
		json_array_append_new(facts->ignore, json_string("proj_out"));
}

/* Adds the module of a weight to a list. */
static void append_module(json_t *list, const char *tensor)
{
	size_t n = suffix_stem(tensor, module_suffix);

	json_array_append_new(list, json_stringn(tensor, n != 0 ? n : strlen(tensor)));
}

/* The group of a choice, a new one if it is the first. */
static struct layout_group *group_of(struct layout_facts *facts, const struct layout_choice *choice)
{
	for (size_t i = 0; i < facts->n_groups; i++) {
		const struct layout_choice *other = &facts->groups[i].choice;

		if (other->form->format == choice->form->format && other->sparsity.n == choice->sparsity.n &&
		    other->sparsity.m == choice->sparsity.m)
			return &facts->groups[i];
	}
	assert(facts->n_groups < LAYOUT_GROUPS_MAX);
	facts->groups[facts->n_groups] = (struct layout_group){*choice, json_array()};
	return &facts->groups[facts->n_groups++];
}

void layout_facts_add(struct layout_facts *facts, const struct layout_choice *choice, const char *name)
{
	append_module(group_of(facts, choice)->targets, name);
}

/* Experts in one tensor, whose loader makes modules of them: by an expression for what is in their module, where the
   layout's programs know expressions, and take names for whole ones. */
static void keep_experts(struct layout_facts *facts, const struct tensor *tensor)
{
	const char *dot = strrchr(tensor->name, '.');
	const int n = dot != NULL ? (int)(dot - tensor->name) : 0;

	if (n > 0 && facts->layout->expressions)
		json_array_append_new(facts->ignore, json_sprintf("re:%.*s[.].*", n, tensor->name));
	else if (n > 0)
		json_array_append_new(facts->ignore, json_sprintf("%.*s", n, tensor->name));
}

enum { ROOT_BYTES = 256 };

/* What a loader would take for the weight of a linear layer must be named. */
void layout_facts_keep(struct layout_facts *facts, const struct tensor *tensor)
{
	const struct role role = role_of(facts->role_model, tensor);
	const size_t stem = suffix_stem(tensor->name, module_suffix);
	size_t n;

	if (tensor->rank == 3 && (role.kind == ROLE_EXPERTS || role.kind == ROLE_SEQUENTIAL))
		keep_experts(facts, tensor);
	if (tensor->rank != 2 || stem == 0)
		return;
	append_module(facts->ignore, tensor->name);
	const char *root = role_root(&role, tensor->name, &n);
	char text[ROOT_BYTES];
	if (root == NULL || role.kind != ROLE_LINEAR || n >= sizeof text)
		return;
	snprintf(text, sizeof text, "%.*s", (int)n, root);
	json_object_set_new(facts->roots, text, json_true());
}

/* Whether a module that is quantized has a component. */
static bool is_quantized(const struct layout_facts *facts, const char *component)
{
	const size_t n = strlen(component);
	const json_t *target;
	size_t i;

	for (size_t g = 0; g < facts->n_groups; g++)
		json_array_foreach(facts->groups[g].targets, i, target) {
			const char *name = json_string_value(target);

			for (const char *at = strstr(name, component); at != NULL; at = strstr(at + 1, component))
				if ((at == name || at[-1] == '.') && (at[n] == '.' || at[n] == '\0'))
					return true;
		}
	return false;
}

/* transformers calls many modules otherwise than the files do (conversion_mapping.py: "visual" is "model.visual" there,
   "f_a_proj" in a module "forget_gate"), and ignores what has the name that is listed. So each part that is not quantized is
   listed by an expression, too. */
static void ignore_roots(const struct layout_facts *facts)
{
	const char *root;
	json_t *value;

	json_object_foreach(facts->roots, root, value)
		if (facts->layout->expressions && !is_quantized(facts, root))
			json_array_append_new(facts->ignore, json_sprintf("re:(.*[.])?%s([.].*)?$", root));
}

void layout_facts_free(struct layout_facts *facts)
{
	for (size_t i = 0; i < facts->n_groups; i++)
		json_decref(facts->groups[i].targets);
	json_decref(facts->ignore);
	json_decref(facts->roots);
	*facts = (struct layout_facts){0};
}

json_t *layout_config(const struct layout_facts *facts)
{
	if (facts->layout->config == NULL || facts->n_groups == 0)
		return NULL;
	ignore_roots(facts);
	json_t *quantization = json_pack("{s:s*}", "quant_method",
	                                 facts->layout->unnamed_method ? NULL : facts->layout->method);
	json_t *rest = facts->layout->config(facts);

	json_object_update(quantization, rest);
	json_decref(rest);
	return quantization;
}

void layout_config_put(json_t *config, const struct layout *layout, json_t *quantization)
{
	if (layout->twin != NULL) {
		json_t *twin = json_copy(quantization);

		json_object_del(twin, "mxfp");
		json_object_set_new(config, layout->twin, twin);
	}
	json_object_set_new(config, "quantization_config", quantization);
}

json_t *layout_second_config(const json_t *config, const char **name)
{
	const json_t *quantization = json_object_get(config, "quantization_config");
	const char *method = json_string_value(json_object_get(quantization, "quant_method"));

	*name = NULL;
	for (size_t i = 0; layouts[i] != NULL && method != NULL; i++)
		if (layouts[i]->second_name != NULL && strcmp(layouts[i]->method, method) == 0) {
			*name = layouts[i]->second_name;
			return layouts[i]->second_config(quantization);
		}
	return NULL;
}

static bool is_text(const json_t *json, const char *text)
{
	const char *value = json_string_value(json);

	return value != NULL && strcmp(value, text) == 0;
}

/* Returns the format that arguments of a group of compressed-tensors mean: floats of some bits in MX blocks. */
static enum mxfp_format scheme_format(const json_t *arguments)
{
	static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP4};
	json_int_t bits = json_integer_value(json_object_get(arguments, "num_bits"));

	if (json_integer_value(json_object_get(arguments, "group_size")) != 32 ||
	    !is_text(json_object_get(arguments, "type"), "float"))
		return OPTION_FORMAT_NONE;
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if ((json_int_t)mxfp_format_get_info(mxfp_format_get_info(formats[i])->element)->bits == bits)
			return formats[i];
	return OPTION_FORMAT_NONE;
}

enum mxfp_format layout_config_activations(const json_t *quantization)
{
	const char *own = json_string_value(json_object_get(json_object_get(quantization, "mxfp"), "activations"));
	const json_t *algorithm = json_object_get(quantization, "quant_algo");
	const json_t *input = json_object_get(json_object_get(quantization, "global_quant_config"), "input_tensors");
	json_t *groups = json_object_get(quantization, "config_groups");
	enum mxfp_format format;

	if (own != NULL && mxfp_format_from_name(&format, own) == MXFP_OK)
		return format;
	if (is_text(algorithm, "W4A8_MXFP4_FP8") || is_text(algorithm, "MXFP8") || is_text(json_object_get(quantization, "quant_method"), "mxfp8"))
		return MXFP_FORMAT_MXFP8_E4M3;
	if (is_text(json_object_get(input, "dtype"), "fp4"))
		return MXFP_FORMAT_MXFP4;
	return scheme_format(json_object_get(json_object_iter_value(json_object_iter(groups)), "input_activations"));
}
