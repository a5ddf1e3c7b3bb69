/* SPDX-License-Identifier: MIT */
/*
 * The layout of compressed-tensors, and the same naming where that has no name for a format. A tensor NAME becomes
 *
 *   NAME_packed        U8 [..., N, K * bits / 8]   4- and 6-bit codes; or, with 8-bit codes,
 *   NAME               F8_E4M3, F8_E5M2 or I8 [..., N, K]
 *   NAME_scale         U8 (E8M0) [..., N, K / 32], NVFP4: F8_E4M3 [..., N, K / 16]
 *   NAME_global_scale  F32 [1], NVFP4 only: decoded numbers are divided by it
 *
 * and with sparsity n:m, instead of the codes,
 *
 *   NAME_sparse        U8 [..., N, bytes]          codes that are kept, as mxfp/sparse.h has them
 *   NAME_mask          U8 [..., N, bytes]          which they are; the metadata LAYOUT_SPARSITY says n:m
 */
#include "config.h"

#include <stdio.h>

#include "io/file_safetensors.h"
#include "model/layout_config.h"
#include "model/role.h"

/* The parts of a form: the suffix and dtype of the codes, the dtype of the scales. */
#define PARTS(suffix, codes, scales) \
	{[LAYOUT_CODES] = {"", suffix, DTYPE_##codes}, \
	 [LAYOUT_SCALES] = {"", "_scale", DTYPE_##scales}, \
	 [LAYOUT_TENSOR_SCALE] = {"", "_global_scale", DTYPE_F32}, \
	 [LAYOUT_MASKS] = {"", "_mask", DTYPE_U8}, \
	 [LAYOUT_INPUT_SCALE] = {".weight", ".input_global_scale", DTYPE_F32}}

/* A tensor scale of activations comes from calibration, which weights alone do not give: no NVFP4. */
#define ACTIVATIONS (1u << MXFP_FORMAT_MXFP8_E4M3 | 1u << MXFP_FORMAT_MXFP6_E2M3 | 1u << MXFP_FORMAT_MXFP4)

/* A format dense, and sparse. */
#define FORMS(id, name, known, suffix, codes, scales) \
	{MXFP_FORMAT_##id, name, known, false, PARTS(suffix, codes, scales), ACTIVATIONS, 0}, \
	{MXFP_FORMAT_##id, name "-sparse", false, true, PARTS("_sparse", U8, scales), ACTIVATIONS, 0}

static const struct layout_form forms[] = {
	FORMS(MXFP4, "mxfp4-pack-quantized", true, "_packed", U8, U8),
	FORMS(NVFP4, "nvfp4-pack-quantized", true, "_packed", U8, F8_E4M3),
	FORMS(MXFP8_E4M3, "mxfp8-quantized", true, "", F8_E4M3, U8),
	FORMS(MXFP6_E2M3, "mxfp6-pack-quantized", true, "_packed", U8, U8),
	FORMS(MXFP6_E3M2, "mxfp6-e3m2-pack-quantized", false, "_packed", U8, U8),
	FORMS(MXFP8_E5M2, "mxfp8-e5m2-quantized", false, "", F8_E5M2, U8),
	FORMS(MXINT8, "mxint8-quantized", false, "", I8, U8),
};

/* The QuantizationArgs of a format. The parser refuses keys that it does not know. */
static json_t *arguments(const struct layout_form *form, json_t *dynamic)
{
	const struct mxfp_format_info *block = mxfp_format_get_info(form->format);
	const struct mxfp_format_info *element = mxfp_format_get_info(block->element);

	return json_pack("{s:i, s:s, s:s, s:i, s:b, s:o, s:s}", "num_bits", (int)element->bits, "type",
	                 element->kind == MXFP_KIND_FIXED ? "int" : "float", "strategy",
	                 block->tensor_scale ? "tensor_group" : "group", "group_size", (int)block->block_length,
	                 "symmetric", 1, "dynamic", dynamic, "scale_dtype",
	                 form->parts[LAYOUT_SCALES].dtype == DTYPE_F8_E4M3 ? "torch.float8_e4m3fn" : "torch.uint8");
}

/* The arguments of activations, or null. Their block scales are made when the model runs; the files may have their
   tensor scales, which stand for the dynamic scales that loaders otherwise make themselves. */
static json_t *input_arguments(const struct layout_facts *facts, const struct layout_form *weights)
{
	if (mxfp_format_get_info(weights->format)->tensor_scale && facts->input_scales)
		return arguments(weights, json_string("local"));
	if (facts->activations == OPTION_FORMAT_NONE)
		return json_null();
	return arguments(layout_form(&layout_compressed_tensors, facts->activations, false), json_true());
}

/* The class of linear layers, and the names of embeddings, which are of another. */
static json_t *classes(const struct layout_group *group)
{
	json_t *list = json_pack("[s]", "Linear"), *target;
	char weight[256];
	size_t i;

	json_array_foreach(group->targets, i, target) {
		snprintf(weight, sizeof weight, "%s.weight", json_string_value(target));
		if (role_is_table(weight))
			json_array_append(list, target);
	}
	return list;
}

/* The QuantizationScheme of a group, which must have a format name of compressed-tensors or none. If weights are
   quantized alike, it is for the class of linear layers. Otherwise every module is in its group by name and none by
   class, because a loader that fuses layers looks for the class of the fused one before it looks for the names of its
   parts. */
static json_t *scheme(const struct layout_facts *facts, const struct layout_group *group)
{
	const struct layout_form *form = group->choice.form;

	return json_pack("{s:o, s:o, s:o, s:n, s:s?}", "targets",
	                 facts->n_groups == 1 ? classes(group) : json_incref(group->targets), "weights",
	                 arguments(form, json_false()), "input_activations", input_arguments(facts, form),
	                 "output_activations", "format", form->known ? form->config_name : NULL);
}

static json_t *config(const struct layout_facts *facts)
{
	json_t *schemes = json_object();
	char name[64];

	for (size_t i = 0; i < facts->n_groups; i++) {
		snprintf(name, sizeof name, "group_%zu", i);
		json_object_set_new(schemes, name, scheme(facts, &facts->groups[i]));
	}
	return json_pack("{s:s, s:s, s:o, s:O, s:O?}", "format",
	                 facts->n_groups > 1 ? "mixed-precision" : facts->groups[0].choice.form->config_name,
	                 "quantization_status", "compressed", "config_groups", schemes, "ignore", facts->ignore,
	                 "kv_cache_scheme", facts->cache);
}

static bool holds_cache(const json_t *cache)
{
	(void)cache;
	return true;
}

const struct layout layout_compressed_tensors = {
	.name = "compressed-tensors",
	.meaning = "as vLLM and llm-compressor load it",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.refuses = layout_takes_linear,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.divides = true,
	.tensor_scale_rank = 1,
	.recipe = MXFP_RECIPE_COMPRESSED_TENSORS,
	.method = "compressed-tensors",
	.expressions = true,
	.one_expert_each = true,
	.config = config,
	.holds_cache = holds_cache,
	.output_scales = true,
};
