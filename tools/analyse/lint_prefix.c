/* SPDX-License-Identifier: MIT */
/* Finds names that no loader looks for: those of wrappers of PyTorch that were saved with a model, and names too long for GGUF. */
#include "config.h"

#include "analyse/lint_whole.h"

#include <string.h>

enum { GGML_MAX_NAME = 64 }; /* with the NUL, ggml/include/ggml.h */

/* Components that a wrapper puts into names. `leading`: only where all names start so, for modules of models are called so, too. */
static const struct wrapper {
	const char *component, *source;
	bool leading;
} wrappers[] = {
	{"_orig_mod.", "torch.compile", false},
	{"_fsdp_wrapped_module.", "FSDP of PyTorch", false},
	{"_checkpoint_wrapped_module.", "checkpoint_wrapper() of PyTorch", false},
	{"_forward_module.", "Lightning", false},
	{"base_layer.", "peft", false},
	{"module.", "DistributedDataParallel of PyTorch", true},
	{"base_model.model.", "peft", true},
};

static bool has_component(const struct wrapper *wrapper, const char *name)
{
	const char *at = strstr(name, wrapper->component);

	while (at != NULL && at != name && at[-1] != '.')
		at = strstr(at + 1, wrapper->component);
	return at != NULL && (at == name || !wrapper->leading);
}

static int find_wrapper(struct lint_whole *whole, const struct wrapper *wrapper, bool *found, struct error *error)
{
	const struct model *model = whole->lint->model;
	struct lint_place first = {0};
	size_t n = 0, n_lora = 0;

	for (size_t i = 0; i < model->n_tensors; i++) {
		n_lora += strstr(model->by_name[i].tensor->name, ".lora_") != NULL;
		if (!has_component(wrapper, model->by_name[i].tensor->name))
			continue;
		if (n++ == 0)
			first = (struct lint_place){.file = model->by_name[i].file, .tensor = model->by_name[i].tensor->name};
	}
	/* All of an adapter's own names begin so. */
	if (n == 0 || (wrapper->leading && (n < model->n_tensors || n_lora == n)))
		return EXIT_OK;
	*found |= n == model->n_tensors;
	return lint_find_alike(whole->lint, LINT_NAMES, &first, n, error, "it has '%s' in its name, which is of %s and not of the model",
	                       wrapper->component, wrapper->source);
}

static int find_long(struct lint_whole *whole, struct error *error)
{
	const struct model *model = whole->lint->model;
	struct lint_place first = {0};
	size_t n = 0;

	for (size_t i = 0; i < model->n_tensors; i++) {
		if (strlen(model->by_name[i].tensor->name) < GGML_MAX_NAME)
			continue;
		if (n++ == 0)
			first = (struct lint_place){.file = model->by_name[i].file, .tensor = model->by_name[i].tensor->name};
	}
	if (n == 0)
		return EXIT_OK;
	return lint_find_alike(whole->lint, LINT_NAMES, &first, n, error, "it has a name of more than the %d bytes that llama.cpp takes",
	                       GGML_MAX_NAME - 1);
}

int lint_prefixes(struct lint_whole *whole, bool *found, struct error *error)
{
	int code = EXIT_OK;

	*found = false;
	for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0] && code == EXIT_OK; i++)
		code = find_wrapper(whole, &wrappers[i], found, error);
	return code == EXIT_OK && whole->gguf ? find_long(whole, error) : code;
}
