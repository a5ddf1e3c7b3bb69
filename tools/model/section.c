/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/section.h"

#include <stdint.h>

/* transformers and vLLM look for the first, also in a part of a model in several; older programs for compressed-tensors for the
   second, mlx-lm for the third. */
const struct section_name section_names[] = {
	{"quantization_config", NULL}, {"compression_config", "compressed-tensors"}, {"quantization", "mlx"}, {NULL, NULL},
};

bool section_is_empty(const json_t *value)
{
	return value == NULL || json_is_null(value) || json_is_false(value) || (json_is_string(value) && json_string_length(value) == 0) ||
	       (json_is_array(value) && json_array_size(value) == 0) ||
	       (json_is_object(value) && json_object_size(value) == 0);
}

json_t *section_find(const json_t *config)
{
	json_t *found = NULL;

	for (size_t i = 0; section_names[i].name != NULL && section_is_empty(found); i++)
		found = json_object_get(config, section_names[i].name);
	for (void *at = json_object_iter((json_t *)(uintptr_t)config); at != NULL && section_is_empty(found);
	     at = json_object_iter_next((json_t *)(uintptr_t)config, at))
		found = json_object_get(json_object_iter_value(at), section_names[0].name);
	return section_is_empty(found) ? NULL : found;
}

void section_remove_all(json_t *config)
{
	for (size_t i = 0; section_names[i].name != NULL; i++)
		json_object_del(config, section_names[i].name);
	for (void *at = json_object_iter(config); at != NULL; at = json_object_iter_next(config, at))
		json_object_del(json_object_iter_value(at), section_names[0].name);
}
