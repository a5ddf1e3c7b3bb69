/* SPDX-License-Identifier: MIT */
/*
 * The layout of AMD Quark: MXFP4. A tensor NAME [..., N, K] becomes NAME U8 [..., N, K/2], the even element in the low
 * nibble, and NAME_scale U8 (E8M0) [..., N, K/32].
 */
#include "config.h"

#include "io/file_safetensors.h"
#include "model/layout_config.h"

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, NULL, true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_U8},
	  [LAYOUT_SCALES] = {"", "_scale", DTYPE_U8},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32}},
	 1u << MXFP_FORMAT_MXFP4, 0},
};

/* The settings of weights or activations; its parser wants every key. */
static json_t *tensor_config(bool is_dynamic)
{
	return json_pack("{s:s, s:b, s:s, s:i, s:i, s:n, s:n, s:s, s:s, s:s, s:s, s:n, s:s, s:b}",
	                 "dtype", "fp4", "is_dynamic", (int)is_dynamic, "qscheme", "per_group", "ch_axis", -1,
	                 "group_size", 32, "block_size", "symmetric", "round_method", "half_even",
	                 "scale_type", "float", "scale_format", "e8m0", "scale_calculation_mode", "even",
	                 "mx_element_dtype", "observer_cls", "PerBlockMXObserver", "is_scale_quant", 0);
}

static json_t *config(const struct layout_facts *facts)
{
	json_t *input = facts->activations == OPTION_FORMAT_NONE ? json_null() : tensor_config(true);
	json_t *global = json_pack("{s:o, s:n, s:o, s:n, s:n}", "input_tensors", input, "output_tensors",
	                           "weight", tensor_config(false), "bias", "target_device");
	json_t *export = json_pack("{s:[], s:f, s:s, s:s, s:n}", "kv_cache_group", "min_kv_scale", 0.0,
	                           "pack_method", "reorder", "weight_format", "real_quantized", "weight_merge_groups");

	return json_pack("{s:s, s:s, s:n, s:n, s:{}, s:o, s:{}, s:{}, s:O, s:o}", "quant_mode", "eager_mode",
	                 "version", "0.13", "algo_config", "softmax_quant_spec", "kv_cache_quant_config",
	                 "global_quant_config", global, "layer_quant_config", "layer_type_quant_config",
	                 "exclude", facts->ignore, "export", export);
}

const struct layout layout_quark = {
	.name = "quark",
	.meaning = "MXFP4 as AMD Quark writes it",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.refuses = layout_takes_linear,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.method = "quark",
	.expressions = true,
	.one_expert_each = true,
	.config = config,
};
