/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/role.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { ANY = -1 };

static const char unsaid[] = "config.json does not say whether it is [.., out, in] or [.., in, out]: it needs the model's "
                             "model_type or hidden_size, beside the tensors";
static const char square[] = "it is [.., out, in] or [.., in, out], and hidden_size of config.json is both of its dimensions: "
                             "files of both orders exist, and no other experts of the model tell";
static const char contrary[] = "by config.json's model_type it is [.., out, in], and by hidden_size [.., in, out]: one of the two "
                               "belongs to another model";

static const struct row {
	const char *models, *pattern;
	int rank;
	struct role role;
} rows[] = {
#define ROLE(models, pattern, rank, kind, axis, habit, reason, source) \
	{models, pattern, rank, {ROLE_##kind, ROLE_##axis, ROLE_##habit, ROLE_##habit == ROLE_TAKEN, reason, source, unsaid}},
#include "model/role.def"
};

static uint64_t size_of(const json_t *config, const char *key)
{
	const json_int_t value = json_integer_value(json_object_get(config, key));

	return value > 0 ? (uint64_t)value : 0;
}

void role_model_read(struct role_model *model, const json_t *config)
{
	static const char *const experts[] = {"num_local_experts", "num_experts", "n_routed_experts"};
	const char *type = json_string_value(json_object_get(config, "model_type"));
	const json_t *text = json_object_get(config, "text_config");

	*model = (struct role_model){.hidden_size = size_of(config, "hidden_size")};
	if (type != NULL && strlen(type) < sizeof model->type && strchr(type, ' ') == NULL)
		snprintf(model->type, sizeof model->type, "%s", type);
	if (model->hidden_size == 0)
		model->hidden_size = size_of(text, "hidden_size");
	if (model->hidden_size == 0)
		model->hidden_size = size_of(config, "n_embd");
	for (size_t i = 0; i < sizeof experts / sizeof experts[0] && model->experts == 0; i++) {
		model->experts = size_of(config, experts[i]);
		if (model->experts == 0)
			model->experts = size_of(text, experts[i]);
	}
}

/* Whether a tensor `name` stands beside the module of another: "a.in_proj_weight" beside "a.out_proj.weight". */
static bool stands_beside(const struct role_model *model, const char *name, const char *tensor)
{
	char full[512];
	int dots = 0;
	size_t n = strlen(tensor);

	while (n > 0 && (dots += tensor[n - 1] == '.') < 2)
		n--;
	return model->has != NULL && n + strlen(name) < sizeof full &&
	       snprintf(full, sizeof full, "%.*s%s", (int)n, tensor, name) > 0 && model->has(model->tensors, full);
}

static bool is_of(const struct row *row, const struct role_model *model, const char *tensor)
{
	char word[ROLE_MODEL_TYPE + 2];

	if (row->models[0] == '\0')
		return true;
	if (row->models[0] == '+')
		return stands_beside(model, row->models + 1, tensor);
	if (row->models[0] == '?')
		return model->type[0] == '\0';
	snprintf(word, sizeof word, " %s ", model->type);
	return model->type[0] != '\0' && strstr(row->models, word) != NULL;
}

bool role_is_table(const char *name)
{
	/* transformers 5.24, models/MODEL/modeling_MODEL.py; embed_out of GPTNeoX is a linear layer */
	static const char *const patterns[] = {"*embed_tokens*.weight", "*embeddings.weight", "*embedding.weight", "*embed_in.weight",
	                                       "*embed_positions.weight", "*wte.weight", "*wpe.weight"};

	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
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

/* As fnmatch(), which takes long for the many rows and tensors; most patterns are an end, or a part, of names. */
static bool matches(const char *pattern, const char *name)
{
	enum { PART_BYTES = 64 };
	char part[PART_BYTES];
	const size_t n = pattern[0] == '*' ? strcspn(pattern + 1, "*?[\\") : 0, size = strlen(name);

	if (n > 0 && pattern[n + 1] == '\0')
		return size >= n && memcmp(name + size - n, pattern + 1, n) == 0;
	if (n > 0 && n < sizeof part && strcmp(pattern + n + 1, "*") == 0) {
		memcpy(part, pattern + 1, n);
		part[n] = '\0';
		return strstr(name, part) != NULL;
	}
	return fnmatch(pattern, name, 0) == 0;
}

static const struct row *find_row(const struct role_model *model, const struct tensor *tensor)
{
	const struct row *row = rows;

	/* The last row takes every tensor. What is quick to tell is asked first. */
	while (!((row->rank == ANY || (unsigned)row->rank == tensor->rank) && matches(row->pattern, tensor->name) &&
	         is_of(row, model, tensor->name)))
		row++;
	return row;
}

void role_model_see(struct role_model *model, const struct tensor *tensor)
{
	if (tensor->rank != 3 || model->hidden_size == 0 || find_row(model, tensor)->role.axis != ROLE_BY_SIZE)
		return;
	const enum role_axis axis = axis_by_size(model, tensor);
	model->experts_last |= axis == ROLE_LAST;
	model->experts_turned |= axis == ROLE_TURNED;
}

struct role role_of(const struct role_model *model, const struct tensor *tensor)
{
	struct role role = find_row(model, tensor)->role;

	if (role.axis == ROLE_BY_SIZE) {
		role.axis = axis_by_size(model, tensor);
		if (role.axis == ROLE_UNKNOWN && model->hidden_size == tensor->shape[tensor->rank - 1] &&
		    model->experts_last != model->experts_turned)
			role.axis = model->experts_last ? ROLE_LAST : ROLE_TURNED;
		if (role.axis == ROLE_UNKNOWN && model->hidden_size != 0 && model->hidden_size == tensor->shape[tensor->rank - 1])
			role.unknown = square;
	} else if (role.axis == ROLE_BY_CLASS) {
		role.axis = axis_by_size(model, tensor) == ROLE_TURNED ? ROLE_UNKNOWN : ROLE_LAST;
		role.unknown = contrary;
	}
	return role;
}

const char *role_root(const struct role *role, const char *name, size_t *n)
{
	static const char *const towers[] = {"vision tower", "audio tower", "projector"};
	static const char *const wrappers[] = {"model", "thinker", "language_model"};
	const char *end = strrchr(name, '.');
	bool is_tower = false, wraps = true;

	if (end == NULL)
		return NULL;
	for (size_t i = 0; i < sizeof towers / sizeof towers[0]; i++)
		is_tower |= strcmp(role->reason, towers[i]) == 0;
	if (!is_tower && strcmp(role->reason, "small projection") != 0)
		return NULL;
	if (!is_tower) {
		const char *start = end;

		while (start > name && start[-1] != '.')
			start--;
		*n = (size_t)(end - start);
		return start;
	}
	while (wraps) {
		*n = strcspn(name, ".");
		wraps = false;
		for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++)
			wraps |= strlen(wrappers[i]) == *n && strncmp(name, wrappers[i], *n) == 0;
		name += wraps ? *n + 1 : 0;
	}
	return name;
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
