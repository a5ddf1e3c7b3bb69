/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/excluded.h"

#include <stdlib.h>

#include "model/layout.h"
#include "model/section.h"

static int add_section(struct module_list *list, const json_t *section, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < N_MODULE_LIST_KEYS && code == EXIT_OK; i++)
		code = module_list_add_array(list, json_object_get(section, module_list_keys[i]), error);
	return code;
}

static int read_lists(struct excluded *e, struct error *error)
{
	char *path = NULL;
	int code = model_read_member(e->model, layout_modelopt.second_name, &path, &e->second, error);

	free(path);
	e->read = true;
	if (code == EXIT_OK)
		code = add_section(&e->list, section_find(e->model->config), error);
	if (code == EXIT_OK)
		code = add_section(&e->list, json_object_get(e->second, "quantization"), error);
	return code == EXIT_OK ? module_list_compile(&e->list, "config.json: ignored modules", error) : code;
}

int excluded_allows(struct excluded *e, const struct tensor *codes, bool *allows, struct error *error)
{
	bool is_module = false;
	int code = EXIT_OK;

	*allows = e->model->formats == 0 || (e->model->formats >> dtype_info(codes->dtype)->format & 1) != 0;
	if (*allows)
		return EXIT_OK;
	if (!e->read)
		code = read_lists(e, error);
	if (code == EXIT_OK)
		code = module_name_set(&e->name, codes->name, &is_module, error);
	*allows = code == EXIT_OK && is_module && module_list_has(&e->list, e->name.text);
	return code;
}

void excluded_free(struct excluded *e)
{
	module_list_free(&e->list);
	free(e->name.text);
	json_decref(e->second);
	*e = (struct excluded){0};
}
