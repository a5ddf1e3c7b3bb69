/* SPDX-License-Identifier: MIT */
/* The choice of tensors: the user's patterns, then names that are kept, then shape and name. */
#include "config.h"

#include "model/select.h"

#include <assert.h>
#include <fnmatch.h>
#include <string.h>

#include "io/elements.h"

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
	{"*_embd.*", "embedding"},
	{"token_types.*", "embedding"},
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
	{"*ffn_gate_inp*", "router"},
	{"*ssm_conv1d*", "convolution"},
};

static const char *kept_reason(const char *name)
{
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		if (fnmatch(kept[i].pattern, name, 0) == 0)
			return kept[i].reason;
	return NULL;
}

/* The verdict on a float tensor of two dimensions or more that no pattern names. */
static bool is_linear(const struct tensor *tensor, const char **reason)
{
	if (tensor->rank == 2 && strstr(tensor->name, "weight") != NULL) {
		bool recurrent = strstr(tensor->name, "weight_ih") != NULL || strstr(tensor->name, "weight_hh") != NULL;

		*reason = recurrent ? "recurrent weight" : "linear weight";
		return true;
	}
	if (tensor->rank == 3 && (strstr(tensor->name, "experts") != NULL || strstr(tensor->name, "_exps.") != NULL)) {
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
	else if (patterns_match(&select->ignored, tensor->name))
		*reason = "--ignore";
	else if (tensor_elements(tensor) == 0)
		*reason = "empty";
	else if (tensor->rank < 2)
		*reason = named != NULL ? named : "fewer than 2 dimensions";
	else if (patterns_match(&select->included, tensor->name))
		return *reason = "--include", true;
	else if (select->recipe != NULL && patterns_match(select->recipe, tensor->name))
		return *reason = "included", true;
	else if (named != NULL)
		*reason = named;
	else
		return is_linear(tensor, reason);
	return false;
}

static const char include_option[] = "--include", ignore_option[] = "--ignore";

int select_compile(struct select *select, struct error *error)
{
	int code = patterns_compile(&select->included, select->include.items, select->include.n, include_option, error);

	if (code != EXIT_OK)
		return code;
	return patterns_compile(&select->ignored, select->ignore.items, select->ignore.n, ignore_option, error);
}

int select_check(const struct select *select, const struct model *model, struct error *error)
{
	assert(select->included.n == select->include.n && select->ignored.n == select->ignore.n);
	int code = patterns_check(&select->included, include_option, model, error);

	return code != EXIT_OK ? code : patterns_check(&select->ignored, ignore_option, model, error);
}

void select_free(struct select *select)
{
	patterns_free(&select->included);
	patterns_free(&select->ignored);
}
