/* SPDX-License-Identifier: MIT */
/* The choice of tensors: the user's patterns, then what they are. */
#include "config.h"

#include "model/select.h"

#include <assert.h>

#include "io/elements.h"

struct role select_tensor(const struct select *select, const struct role_model *model, const struct tensor *tensor)
{
	struct role role = role_of(model, tensor);
	const bool by_default = role.quantized;

	role.quantized = false;
	if (!elements_are_float(tensor->dtype))
		role.reason = elements_are_fp8(tensor->dtype)
		              ? "FP8 without scales, which .to(torch.bfloat16) of PyTorch turns into numbers"
		              : "not of type F32, BF16, F16 or F64";
	else if (patterns_match(&select->ignored, tensor->name))
		role.reason = "--ignore";
	else if (tensor_elements(tensor) == 0)
		role.reason = "empty";
	else if (tensor->rank < 2)
		return role;
	else if ((role.quantized = patterns_match(&select->included, tensor->name)))
		role.reason = "--include";
	else if ((role.quantized = select->recipe != NULL && patterns_match(select->recipe, tensor->name)))
		role.reason = "included";
	else
		role.quantized = by_default;
	return role;
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

static bool is_ignored(const void *select, const char *name)
{
	return patterns_match(&((const struct select *)select)->ignored, name);
}

int select_split_experts(const struct select *select, struct model *model, struct error *error)
{
	return model_split_experts(model, &(struct model_keeps){is_ignored, select}, error);
}

void select_free(struct select *select)
{
	patterns_free(&select->included);
	patterns_free(&select->ignored);
}
