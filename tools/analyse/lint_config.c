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
#include "model/pattern.h"
#include "model/role.h"
#include "model/section.h"

#define HF_QUANT_CONFIG "hf_quant_config.json"

/* Entries of one purpose. */
struct entries {
	size_t n, capacity;
	const char **texts;        /* of the JSON */
	struct patterns expressions; /* those after "re:" */
	struct patterns names;       /* the others */
};

struct config_check {
	struct lint *lint;
	json_t *hf_quant_config;  /* NULL: none */
	struct entries ignored;
	struct entries targets;   /* names of modules; without any, every linear one is meant */
	bool targets_classes;     /* so too with the name of a class */
	bool by_scales;           /* loaders go by scales, and no list says what is not quantized */
	bool lists_optional;      /* or know it without a list */
	char *module;             /* memory for a name */
	size_t module_size;
};

static int add_entry(struct entries *entries, const char *text, struct error *error)
{
	if (entries->n == entries->capacity) {
		size_t more = entries->capacity == 0 ? 64 : 2 * entries->capacity;
		const char **moved = realloc(entries->texts, more * sizeof *moved);

		if (moved == NULL)
			return fail_memory(error);
		entries->texts = moved;
		entries->capacity = more;
	}
	entries->texts[entries->n++] = text;
	return EXIT_OK;
}

static int add_entries(struct entries *entries, const json_t *list, struct error *error)
{
	int code = EXIT_OK;
	size_t i;
	json_t *item;

	json_array_foreach(list, i, item)
		if (json_is_string(item) && code == EXIT_OK)
			code = add_entry(entries, json_string_value(item), error);
	return code;
}

static bool is_expression(const char *text)
{
	return strncmp(text, "re:", 3) == 0;
}

/* Sorts the entries, expressions first, and compiles both kinds. */
static int compile_entries(struct entries *entries, const char *where, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < entries->n; i++)
		if (is_expression(entries->texts[i])) {
			const char *text = entries->texts[i];

			entries->texts[i] = entries->texts[n];
			entries->texts[n++] = text;
		}
	int code = patterns_compile(&entries->expressions, entries->texts, n, where, error);
	if (code == EXIT_OK)
		code = patterns_compile(&entries->names, n < entries->n ? entries->texts + n : NULL, entries->n - n, where, error);
	return code == EXIT_USAGE ? EXIT_INPUT : code;
}

static void free_entries(struct entries *entries)
{
	patterns_free(&entries->expressions);
	patterns_free(&entries->names);
	free(entries->texts);
}

/* Whether an entry names the module: the whole, what it is in, or its end. The text is cut and mended. */
static bool entries_match(const struct entries *entries, char *module)
{
	bool found = patterns_match(&entries->expressions, module) || patterns_match(&entries->names, module);

	for (char *dot = strchr(module, '.'); dot != NULL && !found; dot = strchr(dot + 1, '.')) {
		*dot = '\0';
		found = patterns_match(&entries->names, module);
		*dot = '.';
		found |= patterns_match(&entries->names, dot + 1);
	}
	return found;
}

/* Sets c->module to the name of the module whose weight this is; *is_module is false if its name is that of no
   module's weight. */
static int set_module(struct config_check *c, const char *weight, bool *is_module, struct error *error)
{
	size_t n = suffix_stem(weight, ".weight");

	*is_module = n != 0;
	if (n == 0)
		n = strlen(weight);
	if (n + 1 > c->module_size) {
		free(c->module);
		c->module_size = 2 * (n + 1);
		c->module = malloc(c->module_size);
		if (c->module == NULL)
			return fail_memory(error);
	}
	memcpy(c->module, weight, n);
	c->module[n] = '\0';
	return EXIT_OK;
}

static int read_hf_quant_config(struct config_check *c, struct error *error)
{
	const struct model *model = c->lint->model;
	char *path = directory_member(model->directory, HF_QUANT_CONFIG);
	struct stat status;
	int code = EXIT_OK;

	if (path == NULL)
		return fail_memory(error);
	if (lstat(path, &status) == 0 && (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)))
		code = json_read_python(model->is_directory ? member_open : descriptor_open, path, CONFIG_BYTES_MAX,
		                 &c->hf_quant_config, error);
	free(path);
	return code;
}

static const json_t *quantization_config(const struct config_check *c)
{
	return section_find(c->lint->model->config);
}

/* Modules of which a section for programs that go by scales says under their names that they are not quantized. */
static int add_false(struct entries *entries, const json_t *section, struct error *error)
{
	int code = EXIT_OK;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)section, key, value)
		if (json_is_false(value) && code == EXIT_OK)
			code = add_entry(entries, key, error);
	return code;
}

static int read_lists(struct config_check *c, struct error *error)
{
	static const char *const keys[] = {"ignore", "modules_to_not_convert", "exclude", "ignored_layers",
	                                   "exclude_modules"};
	const json_t *hf = json_object_get(c->hf_quant_config, "quantization");
	const json_t *groups = json_object_get(quantization_config(c), "config_groups");
	const char *key;
	json_t *group;
	int code = EXIT_OK;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0] && code == EXIT_OK; i++) {
		code = add_entries(&c->ignored, json_object_get(quantization_config(c), keys[i]), error);
		if (code == EXIT_OK)
			code = add_entries(&c->ignored, json_object_get(hf, keys[i]), error);
	}
	json_object_foreach((json_t *)(uintptr_t)groups, key, group)
		if (code == EXIT_OK)
			code = add_entries(&c->targets, json_object_get(group, "targets"), error);
	if (code == EXIT_OK && c->by_scales)
		code = add_false(&c->ignored, quantization_config(c), error);
	for (size_t i = 0; i < c->targets.n; i++)
		c->targets_classes |= strpbrk(c->targets.texts[i], ".:*") == NULL;
	if (code == EXIT_OK)
		code = compile_entries(&c->ignored, "config.json: ignored modules", error);
	if (code == EXIT_OK)
		code = compile_entries(&c->targets, "config.json: targets", error);
	return code;
}

static int check_skipped(struct config_check *c, struct error *error)
{
	const struct lint *lint = c->lint;
	bool is_module;
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->n_weights && code == EXIT_OK; i++) {
		const struct lint_weight *weight = &lint->weights[i];
		const struct lint_place place = {weight->file, weight->name};

		code = set_module(c, weight->name, &is_module, error);
		if (code == EXIT_OK && entries_match(&c->ignored, c->module))
			code = lint_find(c->lint, LINT_SKIPPED, &place, error,
			                 "it is quantized (%s), and config.json lists its module as not",
			                 mxfp_format_get_info(weight->format)->name);
	}
	return code;
}

/* Whether a tensor is what loaders take for the weight of a Linear: also of those that are seldom quantized. */
static bool is_linear(const struct model *model, const struct tensor *tensor)
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
		const struct lint_place place = {model->by_name[i].file, tensor->name};

		if (c->lint->is_part[i] || !is_linear(model, tensor))
			continue;
		code = set_module(c, tensor->name, &is_module, error);
		if (code != EXIT_OK || !is_module || entries_match(&c->ignored, c->module) ||
		    !(all || entries_match(&c->targets, c->module)))
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
	if (stated && code == EXIT_OK && c->lint->n_weights > 0 && !c->by_scales &&
	    !(c->lists_optional && c->ignored.n == 0))
		code = check_unlisted(c, error);
	return code;
}

int lint_config(struct lint *lint, struct error *error)
{
	struct config_check c = {.lint = lint};
	int code = EXIT_OK;

	if (lint->model->config == NULL)
		return EXIT_OK;
	code = read_hf_quant_config(&c, error);
	if (code == EXIT_OK)
		code = check_lists(&c, error);
	free_entries(&c.ignored);
	free_entries(&c.targets);
	json_decref(c.hf_quant_config);
	free(c.module);
	return code;
}
