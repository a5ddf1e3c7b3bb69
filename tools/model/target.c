/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/target.h"

#include <string.h>

#include "base/nearest.h"
#include "base/option_kind.h"
#include "base/suffix.h"
#include "io/file_gguf.h"

#define MXFP_FORMAT_NONE OPTION_FORMAT_NONE

static const struct {
	const char *name, *program;
} targets[] = {
#define TARGET(id, name, program) {name, program},
#include "model/target.def"
	[TARGET_ANY] = {"any", "mxfp"},
};

enum { N_TARGETS = sizeof targets / sizeof targets[0] };

static const struct loads {
	enum target target;
	const struct layout *layout;
	enum mxfp_format weights, activations;
	const char *as;
} loads[] = {
#define LOADS(target, layout, weights, activations, as) \
	{TARGET_##target, &layout_##layout, MXFP_FORMAT_##weights, MXFP_FORMAT_##activations, as},
#include "model/target.def"
};

enum { N_LOADS = sizeof loads / sizeof loads[0] };

static int find_name(enum target *target, const char *where, const char *name, struct error *error)
{
	const char *names[N_TARGETS];

	for (size_t i = 0; i < N_TARGETS; i++) {
		*target = (enum target)i;
		if (strcmp(targets[i].name, name) == 0)
			return EXIT_OK;
		names[i] = targets[i].name;
	}
	return nearest_fail(where, name, "programs", names, N_TARGETS, error);
}

int target_find(enum target *target, const char *where, const char *name, const char *path, struct error *error)
{
	const bool gguf = suffix_stem(path, ".gguf") != 0;

	*target = gguf ? TARGET_LLAMA_CPP : TARGET_VLLM;
	if (name == NULL)
		return EXIT_OK;
	const int code = find_name(target, where, name, error);
	if (code != EXIT_OK || !gguf)
		return code;
	if (*target == TARGET_ANY)
		*target = TARGET_LLAMA_CPP;
	if (target_layout(*target)->file_format == &file_gguf)
		return EXIT_OK;
	return fail(error, EXIT_USAGE, "%s: a GGUF file becomes none of the models that %s loads; mxfp convert %s -o MODEL makes a directory: give "
	            "that", where, target_program(*target), path);
}

const char *target_name(enum target target)
{
	return targets[target].name;
}

const char *target_program(enum target target)
{
	return targets[target].program;
}

const struct layout *target_layout(enum target target)
{
	for (size_t i = 0; i < N_LOADS; i++)
		if (loads[i].target == target)
			return loads[i].layout;
	return layouts[0];
}

/* The first row of such weights and activations; NULL: none. */
static const struct loads *find(enum target target, enum mxfp_format weights, enum mxfp_format activations)
{
	for (size_t i = 0; i < N_LOADS; i++)
		if (loads[i].target == target && loads[i].weights == weights && loads[i].activations == activations)
			return &loads[i];
	return NULL;
}

const struct layout *target_loads(enum target target, enum mxfp_format weights, enum mxfp_format activations)
{
	const struct layout_form *form = layout_form(layouts[0], weights, false);

	if (target == TARGET_ANY)
		return form != NULL && (activations == OPTION_FORMAT_NONE || (form->activations >> activations & 1) != 0) ? layouts[0] : NULL;
	const struct loads *row = find(target, weights, activations);
	return row != NULL ? row->layout : NULL;
}

const char *target_as(enum target target, enum mxfp_format weights, enum mxfp_format activations)
{
	const struct loads *row = find(target, weights, activations);

	return row != NULL ? row->as : NULL;
}

bool target_takes_activations(enum target target)
{
	for (size_t i = 0; i < N_LOADS; i++)
		if (loads[i].target == target && loads[i].activations != OPTION_FORMAT_NONE)
			return true;
	return target == TARGET_ANY;
}

bool target_loads_in(enum target target, const struct layout *layout, enum mxfp_format weights, enum mxfp_format activations)
{
	for (size_t i = 0; i < N_LOADS; i++)
		if (loads[i].target == target && loads[i].layout == layout && loads[i].weights == weights && loads[i].activations == activations)
			return true;
	return target == TARGET_ANY;
}
