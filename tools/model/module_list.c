/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/module_list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/suffix.h"

const char *const module_list_keys[N_MODULE_LIST_KEYS] = {
	"ignore", "modules_to_not_convert", "exclude", "ignored_layers", "exclude_modules",
};

int module_list_add(struct module_list *list, const char *text, struct error *error)
{
	if (list->n == list->capacity) {
		size_t more = list->capacity == 0 ? 64 : 2 * list->capacity;
		const char **moved = realloc(list->texts, more * sizeof *moved);

		if (moved == NULL)
			return fail_memory(error);
		list->texts = moved;
		list->capacity = more;
	}
	list->texts[list->n++] = text;
	return EXIT_OK;
}

int module_list_add_array(struct module_list *list, const json_t *array, struct error *error)
{
	int code = EXIT_OK;
	size_t i;
	json_t *item;

	json_array_foreach(array, i, item)
		if (json_is_string(item) && code == EXIT_OK)
			code = module_list_add(list, json_string_value(item), error);
	return code;
}

int module_list_add_false(struct module_list *list, const json_t *section, struct error *error)
{
	int code = EXIT_OK;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)section, key, value)
		if (json_is_false(value) && code == EXIT_OK)
			code = module_list_add(list, key, error);
	return code;
}

static bool is_expression(const char *text)
{
	return strncmp(text, "re:", 3) == 0;
}

int module_list_compile(struct module_list *list, const char *where, struct error *error)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (is_expression(list->texts[i])) {
			const char *text = list->texts[i];

			list->texts[i] = list->texts[n];
			list->texts[n++] = text;
		}
	int code = patterns_compile(&list->expressions, list->texts, n, where, error);
	if (code == EXIT_OK)
		code = patterns_compile(&list->names, n < list->n ? list->texts + n : NULL, list->n - n, where, error);
	return code == EXIT_USAGE ? EXIT_INPUT : code;
}

void module_list_free(struct module_list *list)
{
	patterns_free(&list->expressions);
	patterns_free(&list->names);
	free(list->texts);
	*list = (struct module_list){0};
}

/* The whole, what it is in, or its end. */
bool module_list_has(const struct module_list *list, char *module)
{
	bool found = patterns_match(&list->expressions, module) || patterns_match(&list->names, module);

	for (char *dot = strchr(module, '.'); dot != NULL && !found; dot = strchr(dot + 1, '.')) {
		*dot = '\0';
		found = patterns_match(&list->names, module);
		*dot = '.';
		found |= patterns_match(&list->names, dot + 1);
	}
	return found;
}

int module_name_set(struct module_name *name, const char *weight, bool *is_module, struct error *error)
{
	size_t n = suffix_stem(weight, ".weight");

	*is_module = n != 0;
	if (n == 0)
		n = strlen(weight);
	if (n + 1 > name->size) {
		free(name->text);
		name->size = 2 * (n + 1);
		name->text = malloc(name->size);
		if (name->text == NULL)
			return fail_memory(error);
	}
	memcpy(name->text, weight, n);
	name->text[n] = '\0';
	return EXIT_OK;
}
