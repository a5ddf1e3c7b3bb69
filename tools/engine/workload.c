/* SPDX-License-Identifier: MIT */
#include "engine/workload.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/select.h"

static int append(struct workload *w, const struct workload_item *item, struct error *error)
{
	if (w->n_items == WORKLOAD_MAX)
		return fail(error, EXIT_USAGE, "engine: more than %d products", (int)WORKLOAD_MAX);
	if (w->n_items == w->capacity) {
		size_t capacity = 2 * w->capacity + 64;
		struct workload_item *items = realloc(w->items, capacity * sizeof *items);

		if (items == NULL)
			return fail_memory(error);
		w->items = items;
		w->capacity = capacity;
	}
	w->items[w->n_items++] = *item;
	return EXIT_OK;
}

int workload_add(struct workload *w, const char *name, const struct workload_item *item, struct error *error)
{
	struct workload_item part = *item;
	size_t left = item->n;
	int code = EXIT_OK;

	part.name = arena_string(&w->names, name);
	if (part.name == NULL)
		return fail_memory(error);
	if (w->cut == 0 || left <= w->cut)
		return append(w, &part, error);
	for (; left > 0 && code == EXIT_OK; left -= part.n) {
		part.n = left < w->cut ? left : (size_t)w->cut;
		code = append(w, &part, error);
	}
	return code;
}

int workload_add_experts(struct workload *w, const char *name, uint64_t experts, const struct workload_item *shape,
                         const struct routing *routing, struct error *error)
{
	struct workload_item item = *shape;
	char text[256];

	if (experts > EXPERTS_MAX)
		return fail(error, EXIT_USAGE, "engine: %llu experts are more than %d", (unsigned long long)experts,
		            (int)EXPERTS_MAX);
	uint64_t *rows = calloc((size_t)experts + 1, sizeof *rows);
	if (rows == NULL)
		return fail_memory(error);
	int code = route(rows, experts, routing, error);
	w->routed = true;
	for (uint64_t e = 0; e < experts && code == EXIT_OK; e++) {
		snprintf(text, sizeof text, "%.200s %llu", name, (unsigned long long)e);
		item.m = (size_t)rows[e];
		code = workload_add(w, text, &item, error);
	}
	free(rows);
	return code;
}

/* Experts that have a tensor each, and the tokens that the routing sends to them. */
struct apart {
	uint64_t n;
	uint64_t *rows;
};

/* Whether the tensor is of one expert: "model.layers.0.mlp.experts.3.up_proj.weight". */
static bool expert_number(const char *name, uint64_t *e)
{
	static const char before[] = "experts.";
	char *end;

	name = strstr(name, before);
	if (name == NULL || !isdigit((unsigned char)name[strlen(before)]))
		return false;
	*e = strtoull(name + strlen(before), &end, 10);
	return *end == '.';
}

/* Routes tokens to experts that have a tensor each; the caller releases apart->rows. */
static int route_apart(struct apart *apart, const struct model *model, const struct routing *routing, struct error *error)
{
	uint64_t e;

	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors; t++)
			if (expert_number(model->files[f].tensors[t].name, &e) && e >= apart->n)
				apart->n = e < EXPERTS_MAX ? e + 1 : EXPERTS_MAX + 1;
	if (apart->n > EXPERTS_MAX)
		return fail(error, EXIT_INPUT, "%s: has more than %d experts", model->path, (int)EXPERTS_MAX);
	apart->rows = calloc((size_t)apart->n + 1, sizeof *apart->rows);
	if (apart->rows == NULL)
		return fail_memory(error);
	return apart->n != 0 ? route(apart->rows, apart->n, routing, error) : EXIT_OK;
}

static int add_tensor(struct workload *w, const struct tensor *tensor, const struct apart *apart,
                      const struct routing *routing, struct error *error)
{
	struct workload_item item = {.m = (size_t)routing->tokens};
	uint64_t rows, cols, e;

	if (expert_number(tensor->name, &e)) {
		item.m = (size_t)apart->rows[e];
		w->routed = true;
	}
	tensor_matrix(tensor, &rows, &cols);
	item.k = (size_t)cols;
	if (tensor->rank == 3) {
		item.n = (size_t)tensor->shape[1];
		return workload_add_experts(w, tensor->name, tensor->shape[0], &item, routing, error);
	}
	item.n = (size_t)rows;
	return workload_add(w, tensor->name, &item, error);
}

int workload_add_model(struct workload *w, const struct model *model, const struct routing *routing,
                       struct error *error)
{
	static const struct select by_default;
	const size_t before = w->n_items;
	struct apart apart = {0};
	int code = route_apart(&apart, model, routing, error);

	for (size_t f = 0; f < model->n_files; f++)
		for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++) {
			const struct tensor *tensor = &model->files[f].tensors[t];
			const struct role role = select_tensor(&by_default, &model->role_model, tensor);

			if (!role.quantized)
				continue;
			tensor = role_rows(&role, tensor, &w->names);
			code = tensor == NULL ? fail_memory(error) : add_tensor(w, tensor, &apart, routing, error);
		}
	free(apart.rows);
	if (code == EXIT_OK && w->n_items == before)
		code = fail(error, EXIT_INPUT, "%s: has no linear layers in F32, BF16, F16 or F64; mxfp inspect lists "
		            "its tensors", model->path);
	return code;
}

void workload_free(struct workload *w)
{
	free(w->items);
	arena_free(&w->names);
	*w = (struct workload){0};
}
