/* SPDX-License-Identifier: MIT */
/* The choice of tensors: the user's patterns, then names that are kept, then shape and name. */
#include "config.h"

#include "select.h"

#include <fnmatch.h>
#include <string.h>

#include "elements.h"
#include "nearest.h"

struct name_kind {
	const char *pattern, *reason;
};

/* Names of tensors that stay as they are; the first match gives the reason. `gate_proj` and `gate_up_proj` are linear
   layers, so a router is only what is called `gate` as a whole. */
static const struct name_kind kept[] = {
	{"lm_head.*", "output head"},
	{"*.lm_head.*", "output head"},
	{"head.weight", "output head"},
	{"*.head.weight", "output head"},
	{"output.weight", "output head"},
	{"*.output.weight", "output head"},
	{"*output_layer.weight", "output head"},
	{"*.predictions.decoder.weight", "output head"},
	{"embed_out.*", "output head"},
	{"*norm*", "norm"},
	{"*Norm*", "norm"},
	{"ln_*", "norm"},
	{"*.ln_*", "norm"},
	{"*bias*", "bias"},
	{"*embed*", "embedding"},
	{"*token_embd*", "embedding"},
	{"shared.weight", "embedding"},
	{"wte.*", "embedding"},
	{"*.wte.*", "embedding"},
	{"wpe.*", "embedding"},
	{"*.wpe.*", "embedding"},
	{"*router*", "router"},
	{"gate.weight", "router"},
	{"*.gate.weight", "router"},
	{"*.mlp.gate.*", "router"},
	{"*.gate.wg.*", "router"},
	{"*shared_expert_gate*", "router"},
};

static const char *kept_reason(const char *name)
{
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		if (fnmatch(kept[i].pattern, name, 0) == 0)
			return kept[i].reason;
	return NULL;
}

static bool matches(const struct string_list *patterns, const char *name)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (fnmatch(patterns->items[i], name, 0) == 0)
			return true;
	return false;
}

/* The verdict on a float tensor of two dimensions or more that no pattern names. */
static bool is_linear(const struct tensor *tensor, const char **reason)
{
	if (tensor->rank == 2 && strstr(tensor->name, "weight") != NULL) {
		bool recurrent = strstr(tensor->name, "weight_ih") != NULL || strstr(tensor->name, "weight_hh") != NULL;

		*reason = recurrent ? "recurrent weight" : "linear weight";
		return true;
	}
	if (tensor->rank == 3 && strstr(tensor->name, "experts") != NULL) {
		*reason = "weights of experts";
		return true;
	}
	if (tensor->rank == 2)
		*reason = "no 'weight' in its name";
	else if (strstr(tensor->name, "conv") != NULL)
		*reason = "convolution";
	else
		*reason = tensor->rank == 3 ? "3-D, not of experts" : "more than 3 dimensions";
	return false;
}

bool select_tensor(const struct select *select, const struct tensor *tensor, const char **reason)
{
	const char *named = kept_reason(tensor->name);

	if (!elements_are_float(tensor->dtype))
		*reason = "not of type F32, BF16, F16 or F64";
	else if (matches(&select->ignore, tensor->name))
		*reason = "--ignore";
	else if (tensor_elements(tensor) == 0)
		*reason = "empty";
	else if (tensor->rank < 2)
		*reason = named != NULL ? named : "fewer than 2 dimensions";
	else if (matches(&select->include, tensor->name))
		return *reason = "--include", true;
	else if (named != NULL)
		*reason = named;
	else
		return is_linear(tensor, reason);
	return false;
}

static bool matches_any(const char *pattern, const struct model *model, struct nearest *nearest)
{
	for (size_t i = 0; i < model->n_files; i++)
		for (size_t k = 0; k < model->files[i].n_tensors; k++) {
			const char *name = model->files[i].tensors[k].name;

			if (fnmatch(pattern, name, 0) == 0)
				return true;
			nearest_offer(nearest, name);
		}
	return false;
}

static int check_list(const struct string_list *patterns, const char *option, const struct model *model,
                      struct error *error)
{
	for (size_t i = 0; i < patterns->n; i++) {
		const char *pattern = patterns->items[i];
		struct nearest nearest = {.word = pattern};

		if (matches_any(pattern, model, &nearest))
			continue;
		if (nearest.best != NULL)
			return fail(error, EXIT_USAGE, "%s: %s '%s' matches no tensor: did you mean '%s'?",
			            model->path, option, pattern, nearest.best);
		return fail(error, EXIT_USAGE,
		            "%s: %s '%s' matches no tensor / mxfp inspect lists the names; '*.weight' is a "
		            "pattern",
		            model->path, option, pattern);
	}
	return EXIT_OK;
}

int select_check(const struct select *select, const struct model *model, struct error *error)
{
	int code = check_list(&select->include, "--include", model, error);

	return code != EXIT_OK ? code : check_list(&select->ignore, "--ignore", model, error);
}
