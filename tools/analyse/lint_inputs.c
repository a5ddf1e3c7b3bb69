/* SPDX-License-Identifier: MIT */
/* Checks that of layers with the same input all have its scale or none has. */
#include "config.h"

#include "analyse/lint_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/lint.h"
#include "base/suffix.h"

/*
 * Layers that take the same tensor, as components of names that stand in one module, whose last component is `in` (NULL: any).
 * The forward() of the model says so: LlamaAttention and LlamaMLP of transformers and those like them; keys and values are of
 * one sequence in attention to another model's states, too, and queries are not. llm_build of llama.cpp.
 */
enum { ALIKE_MAX = 3 };
static const struct alike {
	const char *in, *parts[ALIKE_MAX];
} alikes[] = {
	{"self_attn", {"q_proj", "k_proj", "v_proj"}},
	{NULL, {"k_proj", "v_proj", NULL}},
	{NULL, {"gate_proj", "up_proj", NULL}},
	{NULL, {"w1", "w3", NULL}},
	{NULL, {"attn_q", "attn_k", "attn_v"}},
	{NULL, {"ffn_gate", "ffn_up", NULL}},
};

/* Endings of names of scales of inputs, all behind the module's name. */
static const char *const endings[] = {".input_scale", ".input_global_scale"};

/* Length of a module's name without its last component and the dot before it; 0: there is none. */
static size_t stem_of(const char *name, size_t n)
{
	while (n > 0 && name[n - 1] != '.')
		n--;
	return n > 0 ? n - 1 : 0;
}

static bool is_in(const struct alike *alike, const char *name, size_t stem)
{
	const size_t n = alike->in == NULL ? 0 : strlen(alike->in);

	return alike->in == NULL ||
	       (stem >= n && memcmp(name + stem - n, alike->in, n) == 0 && (stem == n || name[stem - n - 1] == '.'));
}

size_t lint_input_module(const char *name)
{
	size_t module = 0;

	for (size_t i = 0; i < sizeof endings / sizeof endings[0] && module == 0; i++)
		module = suffix_stem(name, endings[i]);
	return module;
}

/* The row that a layer is in, and which of it; NULL: none. */
static const struct alike *find_row(const char *name, size_t module, size_t stem, size_t *own)
{
	for (size_t i = 0; i < sizeof alikes / sizeof alikes[0]; i++)
		for (*own = 0; *own < ALIKE_MAX && alikes[i].parts[*own] != NULL; ++*own)
			if (module - stem - 1 == strlen(alikes[i].parts[*own]) &&
			    memcmp(name + stem + 1, alikes[i].parts[*own], module - stem - 1) == 0 && is_in(&alikes[i], name, stem))
				return &alikes[i];
	return NULL;
}

int lint_input_beside(char **beside, const char *name, size_t which, struct error *error)
{
	const size_t module = lint_input_module(name), stem = stem_of(name, module);
	size_t own;
	const struct alike *row = stem > 0 ? find_row(name, module, stem, &own) : NULL;

	*beside = NULL;
	if (row == NULL)
		return EXIT_OK;
	which += which >= own;
	if (which >= ALIKE_MAX || row->parts[which] == NULL)
		return EXIT_OK;
	const size_t size = stem + 1 + strlen(row->parts[which]) + strlen(name + module) + 1;
	*beside = malloc(size);
	if (*beside == NULL)
		return fail_memory(error);
	snprintf(*beside, size, "%.*s.%s%s", (int)stem, name, row->parts[which], name + module);
	return EXIT_OK;
}

/* The quantized codes of the layer that has such a scale; NULL: none. EXIT_MEMORY. */
static int find_codes(const struct tensor **codes, const struct file **file, const struct lint *lint, const char *scale,
                      struct error *error)
{
	const size_t module = lint_input_module(scale), size = module + sizeof ".weight";
	char *name = malloc(size);

	if (name == NULL)
		return fail_memory(error);
	snprintf(name, size, "%.*s.weight", (int)module, scale);
	const struct lint_weight *weight = lint_weight(lint, name);
	*codes = weight != NULL ? weight->codes : model_find(lint->model, name, file);
	if (weight != NULL)
		*file = weight->file;
	else if (*codes != NULL && dtype_info((*codes)->dtype)->bits > 8)
		*codes = NULL;
	free(name);
	return EXIT_OK;
}

/* The first scale of layers with the input of one that may lack its own, in the order of the table; NULL: none is there. */
static int find_first(const struct tensor **first, const struct lint *lint, const char *scale, struct error *error)
{
	const struct file *file;
	int code = EXIT_OK;

	*first = NULL;
	for (size_t which = 0; code == EXIT_OK && *first == NULL; which++) {
		char *beside;

		code = lint_input_beside(&beside, scale, which, error);
		if (code != EXIT_OK || beside == NULL)
			break;
		*first = model_find(lint->model, beside, &file);
		free(beside);
	}
	return code;
}

/* Tells of a layer without an input scale, if it is quantized as one that has it; once, whoever has it. */
static int tell(struct lint *lint, const struct model_tensor *has, const char *missing, struct error *error)
{
	const struct tensor *own, *codes, *first;
	const struct file *file;
	int code = find_codes(&own, &file, lint, has->tensor->name, error);

	if (code == EXIT_OK)
		code = find_codes(&codes, &file, lint, missing, error);
	if (code == EXIT_OK)
		code = find_first(&first, lint, missing, error);
	if (code != EXIT_OK || own == NULL || codes == NULL || own->dtype != codes->dtype || first != has->tensor)
		return code;
	const struct lint_place place = {.file = file, .tensor = codes->name, .missing = missing};
	return lint_find(lint, LINT_INPUT_SCALE, &place, error, "'%.200s' is missing, and '%.200s' is there, of a layer with the same "
	                 "input", missing, has->tensor->name);
}

static int look_at(struct lint *lint, const struct model_tensor *at, struct error *error)
{
	const struct file *file;
	int code = EXIT_OK;

	for (size_t which = 0; code == EXIT_OK; which++) {
		char *beside;

		code = lint_input_beside(&beside, at->tensor->name, which, error);
		if (code != EXIT_OK || beside == NULL)
			break;
		if (model_find(lint->model, beside, &file) == NULL)
			code = tell(lint, at, beside, error);
		free(beside);
	}
	return code;
}

int lint_inputs(struct lint *lint, struct error *error)
{
	int code = EXIT_OK;

	for (size_t i = 0; i < lint->model->n_tensors && code == EXIT_OK; i++)
		if (lint_input_module(lint->model->by_name[i].tensor->name) != 0)
			code = look_at(lint, &lint->model->by_name[i], error);
	return code;
}
