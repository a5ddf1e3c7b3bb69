/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/role.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { ANY = -1 };

static const struct row {
	const char *models, *pattern;
	int rank;
	struct role role;
} rows[] = {
#define ROLE(models, pattern, rank, kind, axis, quantized, reason, source) \
	{models, pattern, rank, {ROLE_##kind, ROLE_##axis, quantized, reason, source}},
#include "model/role.def"
};

const char role_unknown[] = "config.json does not say whether it is [.., out, in] or [.., in, out]: it needs the model's "
                            "model_type or hidden_size, beside the tensors";

static uint64_t size_of(const json_t *config, const char *key)
{
	const json_int_t value = json_integer_value(json_object_get(config, key));

	return value > 0 ? (uint64_t)value : 0;
}

void role_model_read(struct role_model *model, const json_t *config)
{
	const char *type = json_string_value(json_object_get(config, "model_type"));
	const json_t *text = json_object_get(config, "text_config");

	*model = (struct role_model){
		.hidden_size = size_of(config, "hidden_size"),
		.experts = size_of(config, "num_local_experts"),
	};
	if (type != NULL && strlen(type) < sizeof model->type && strchr(type, ' ') == NULL)
		snprintf(model->type, sizeof model->type, "%s", type);
	if (model->hidden_size == 0)
		model->hidden_size = size_of(text, "hidden_size");
	if (model->hidden_size == 0)
		model->hidden_size = size_of(config, "n_embd");
	if (model->experts == 0)
		model->experts = size_of(text, "num_local_experts");
}

static bool is_of(const struct row *row, const struct role_model *model)
{
	char word[ROLE_MODEL_TYPE + 2];

	if (row->models[0] == '\0')
		return true;
	if (row->models[0] == '?')
		return model->type[0] == '\0';
	snprintf(word, sizeof word, " %s ", model->type);
	return model->type[0] != '\0' && strstr(row->models, word) != NULL;
}

bool role_makes_hidden(const char *name)
{
	static const char *const down[] = {"down", "w2", "fc2", "output", "c_proj"};
	bool makes = false;

	for (size_t i = 0; i < sizeof down / sizeof down[0]; i++)
		makes |= strstr(name, down[i]) != NULL;
	return makes;
}

static enum role_axis axis_by_size(const struct role_model *model, const struct tensor *tensor)
{
	const uint64_t last = tensor->shape[tensor->rank - 1], before = tensor->shape[tensor->rank - 2];
	const bool makes = role_makes_hidden(tensor->name);

	if (model->hidden_size == 0 || (last == model->hidden_size) == (before == model->hidden_size))
		return ROLE_UNKNOWN;
	return (last == model->hidden_size) != makes ? ROLE_LAST : ROLE_TURNED;
}

struct role role_of(const struct role_model *model, const struct tensor *tensor)
{
	const struct row *row = rows;

	/* The last row takes every tensor. */
	while (!((row->rank == ANY || (unsigned)row->rank == tensor->rank) && is_of(row, model) &&
	         fnmatch(row->pattern, tensor->name, 0) == 0))
		row++;
	struct role role = row->role;
	if (role.axis == ROLE_BY_SIZE)
		role.axis = axis_by_size(model, tensor);
	return role;
}

bool role_turn(struct tensor *turned, const struct tensor *tensor, struct arena *arena)
{
	uint64_t *shape = arena_take(arena, tensor->rank * sizeof *shape);

	if (shape == NULL)
		return false;
	memcpy(shape, tensor->shape, tensor->rank * sizeof *shape);
	shape[tensor->rank - 1] = tensor->shape[tensor->rank - 2];
	shape[tensor->rank - 2] = tensor->shape[tensor->rank - 1];
	*turned = *tensor;
	turned->shape = shape;
	turned->by_columns = !tensor->by_columns;
	return true;
}

const struct tensor *role_rows(const struct role *role, const struct tensor *tensor, struct arena *arena)
{
	if (role->axis != ROLE_TURNED)
		return tensor;
	struct tensor *turned = arena_take(arena, sizeof *turned);
	return turned != NULL && role_turn(turned, tensor, arena) ? turned : NULL;
}
