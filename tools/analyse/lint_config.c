/* SPDX-License-Identifier: MIT */
/*
 * Checks of config.json: the modules that it says are quantized, against those that are. Lists of modules that are not
 * have several names: `ignore` (compressed-tensors, newer ModelOpt), `modules_to_not_convert` (transformers), `exclude` (Quark), `ignored_layers`,
 * and `exclude_modules` in hf_quant_config.json (ModelOpt). Entries are names of modules or of what they are in, their
 * ends, globs, or after "re:" regular expressions.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyse/lint.h"
#include "base/suffix.h"
#include "io/elements.h"
#include "io/json.h"
#include "io/member.h"
#include "model/meaning.h"
#include "model/module_list.h"
#include "model/role.h"
#include "model/section.h"

struct config_check {
	struct lint *lint;
	json_t *hf_quant_config;  /* NULL: none */
	struct module_list ignored;
	struct module_list targets;   /* names of modules; without any, every linear one is meant */
	bool targets_classes;     /* so too with the name of a class */
	bool by_scales;           /* loaders go by scales, and no list says what is not quantized */
	bool lists_optional;      /* loaders know what is not quantized without a list */
	struct module_name module;
};

int lint_second_config(const struct model *model, json_t **config, struct error *error)
{
	char *path = directory_member(model->directory, LINT_SECOND_CONFIG);
	struct stat status;
	int code = EXIT_OK;

	*config = NULL;
	if (path == NULL)
		return fail_memory(error);
	if (lstat(path, &status) == 0 && (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)))
		code = json_read_python(model->is_directory ? member_open : descriptor_open, path, CONFIG_BYTES_MAX, config, error);
	free(path);
	return code;
}

bool lint_is_class(const char *target)
{
	return strpbrk(target, ".:*") == NULL;
}

static const json_t *quantization_config(const struct config_check *c)
{
	return section_find(c->lint->model->config);
}

static int read_lists(struct config_check *c, struct error *error)
{
	const json_t *hf = json_object_get(c->hf_quant_config, "quantization");
	const json_t *groups = json_object_get(quantization_config(c), "config_groups");
	const char *key;
	json_t *group;
	int code = EXIT_OK;

	for (size_t i = 0; i < N_MODULE_LIST_KEYS && code == EXIT_OK; i++) {
		code = module_list_add_array(&c->ignored, json_object_get(quantization_config(c), module_list_keys[i]), error);
		if (code == EXIT_OK)
			code = module_list_add_array(&c->ignored, json_object_get(hf, module_list_keys[i]), error);
	}
	json_object_foreach((json_t *)(uintptr_t)groups, key, group)
		if (code == EXIT_OK)
			code = module_list_add_array(&c->targets, json_object_get(group, "targets"), error);
	if (code == EXIT_OK && c->by_scales)
		code = module_list_add_false(&c->ignored, quantization_config(c), error);
	for (size_t i = 0; i < c->targets.n; i++)
		c->targets_classes |= lint_is_class(c->targets.texts[i]);
	if (code == EXIT_OK)
		code = module_list_compile(&c->ignored, "config.json: ignored modules", error);
	if (code == EXIT_OK)
		code = module_list_compile(&c->targets, "config.json: targets", error);
	return code;
}

static int check_skipped(struct config_check *c, struct error *error)
{
	const struct lint *lint = c->lint;
	bool is_module;
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++) {
		const struct lint_weight *weight = &lint->weights[i];
		const struct lint_place place = {.file = weight->file, .tensor = weight->name};

		code = module_name_set(&c->module, weight->name, &is_module, error);
		if (code == EXIT_OK && module_list_has(&c->ignored, c->module.text))
			code = lint_find(c->lint, LINT_SKIPPED, &place, error,
			                 "it is quantized (%s), and config.json lists its module as not",
			                 mxfp_format_get_info(weight->format)->name);
	}
	return code;
}

/* Whether a weight is the target of a group. */
static int find_target(struct config_check *c, const struct lint_weight *weight, bool *found, struct error *error)
{
	bool is_module;
	int code = module_name_set(&c->module, weight->name, &is_module, error);

	*found = code == EXIT_OK && is_module && module_list_has(&c->targets, c->module.text);
	return code;
}

/* Whether loaders go by names of layers, which may carry the prefix of a wrapper: ModelOpt's mixtures. */
static bool has_layers(const struct config_check *c)
{
	return json_object_get(quantization_config(c), "quantized_layers") != NULL;
}

/* Quantized weights that no group names, where groups have names of modules, and these are names that the files have, too. */
static int check_targets(struct config_check *c, struct error *error)
{
	const struct lint *lint = c->lint;
	bool any = false, found;
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK && !any; i++)
		code = find_target(c, &lint->weights[i], &any, error);
	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK && any; i++) {
		const struct lint_weight *weight = &lint->weights[i];

		code = find_target(c, weight, &found, error);
		if (code == EXIT_OK && !found && suffix_stem(weight->name, ".weight") > 0)
			code = lint_find(c->lint, LINT_SKIPPED, &(struct lint_place){.file = weight->file, .tensor = weight->name}, error,
			                 "it is quantized (%s), and no target of config_groups in config.json names its module",
			                 mxfp_format_get_info(weight->format)->name);
	}
	return code;
}

/* Quantized embeddings where groups have names of classes, none of which is theirs. */
static int check_embeddings(struct config_check *c, struct error *error)
{
	const struct lint *lint = c->lint;
	bool found = false;
	int code = EXIT_OK;

	for (size_t i = 0; i < c->targets.n; i++)
		found |= strcmp(c->targets.texts[i], "Embedding") == 0;
	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK && !found; i++) {
		const struct lint_weight *weight = &lint->weights[i];
		bool named;

		if (!role_is_table(weight->name))
			continue;
		code = find_target(c, weight, &named, error);
		if (code == EXIT_OK && !named)
			code = lint_find(c->lint, LINT_SKIPPED, &(struct lint_place){.file = weight->file, .tensor = weight->name}, error,
			                 "it is an embedding that is quantized (%s), and the targets of config_groups in config.json are other classes",
			                 mxfp_format_get_info(weight->format)->name);
	}
	return code;
}

bool lint_is_linear(const struct model *model, const struct tensor *tensor)
{
	return elements_are_float(tensor->dtype) && tensor->rank == 2 &&
	       role_of(&model->role_model, tensor).kind == ROLE_LINEAR;
}

static int check_unlisted(struct config_check *c, struct error *error)
{
	const struct model *model = c->lint->model;
	bool all = c->targets.n == 0 || c->targets_classes, is_module;
	int code = EXIT_OK;

	for (size_t i = 0; i < model->n_tensors && code == EXIT_OK; i++) {
		const struct tensor *tensor = model->by_name[i].tensor;
		const struct lint_place place = {.file = model->by_name[i].file, .tensor = tensor->name};

		if (c->lint->is_part[i] || !lint_is_linear(model, tensor))
			continue;
		code = module_name_set(&c->module, tensor->name, &is_module, error);
		if (code != EXIT_OK || !is_module || module_list_has(&c->ignored, c->module.text) ||
		    !(all || module_list_has(&c->targets, c->module.text)))
			continue;
		code = lint_find(c->lint, LINT_UNLISTED, &place, error,
		                 "a linear weight of dtype %s, and config.json does not say that it is not quantized",
		                 dtype_info(tensor->dtype)->name);
	}
	return code;
}

/* Whether every tensor is of plain numbers: no codes of a method that is not known here. */
static bool is_plain(const struct lint *lint)
{
	const struct model *model = lint->model;

	if (lint->has_foreign || lint->n_scaled > 0)
		return false;
	for (size_t i = 0; i < model->n_tensors; i++)
		if (dtype_info(model->by_name[i].tensor->dtype)->bits < 16 ||
		    model->by_name[i].tensor->dtype == DTYPE_I32)
			return false;
	return true;
}

static int check_lists(struct config_check *c, struct error *error)
{
	const struct lint_place place = {0};
	bool stated = c->hf_quant_config != NULL || json_object_size(quantization_config(c)) > 0;
	int code = EXIT_OK;

	if (!stated && c->lint->n_weights + c->lint->n_scaled > 0)
		return lint_find(c->lint, LINT_CONFIG, &place, error,
		                 "%zu weights are quantized, and config.json has no quantization_config",
		                 c->lint->n_weights + c->lint->n_scaled);
	if (stated && c->lint->n_weights == 0 && is_plain(c->lint))
		return lint_find(c->lint, LINT_CONFIG, &place, error,
		                 "config.json has a quantization_config, and no tensor is quantized; remove it from the file");
	const struct layout *layout = meaning_layout(quantization_config(c));
	c->by_scales = layout != NULL && layout->by_scales;
	c->lists_optional = layout != NULL && layout->lists_optional;
	if (stated)
		code = read_lists(c, error);
	if (stated && code == EXIT_OK)
		code = check_skipped(c, error);
	if (stated && code == EXIT_OK && c->targets.n > 0 && !c->targets_classes && !has_layers(c))
		code = check_targets(c, error);
	if (stated && code == EXIT_OK && c->targets_classes && !has_layers(c))
		code = check_embeddings(c, error);
	if (stated && code == EXIT_OK && c->lint->n_weights > 0 && !c->by_scales &&
	    !(c->lists_optional && c->ignored.n == 0))
		code = check_unlisted(c, error);
	return code;
}

/* Models have model_type, pipelines of diffusers _class_name. */
static int check_model_type(struct lint *lint, struct error *error)
{
	const struct lint_place place = {0};
	const json_t *config = lint->model->config;

	if (!lint->model->is_directory || json_object_get(config, "model_type") != NULL || json_object_get(config, "_class_name") != NULL)
		return EXIT_OK;
	return lint_find(lint, LINT_MODEL_TYPE, &place, error, config != NULL ? "config.json has no model_type" : "has no config.json");
}

int lint_config(struct lint *lint, struct error *error)
{
	struct config_check c = {.lint = lint};
	int code = check_model_type(lint, error);

	if (code != EXIT_OK || lint->model->config == NULL)
		return code;
	code = lint_second_config(lint->model, &c.hf_quant_config, error);
	if (code == EXIT_OK)
		code = check_lists(&c, error);
	module_list_free(&c.ignored);
	module_list_free(&c.targets);
	json_decref(c.hf_quant_config);
	free(c.module.text);
	return code;
}
