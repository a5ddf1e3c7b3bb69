/* SPDX-License-Identifier: MIT */
/*
 * The layout of NVIDIA's Model Optimizer. A tensor NAME [..., N, K] becomes NAME U8 [..., N, K/2], the even element in
 * the low nibble, and NAME_scale: F8_E4M3 [..., N, K/16] beside NAME_scale_2 F32 [], which multiplies, for NVFP4; U8
 * (E8M0) [..., N, K/32] for MXFP4, and with NAME F8_E4M3 [..., N, K] for MXFP8.
 *
 * Experts in one tensor of Muse-Spark, NAME [E, N, K], have NAME_weight_scale and NAME_weight_scale_2: F32 [E], or [E, 2] of
 * gate and up, the first and the second half of each expert's rows (muse_spark.py of mlx-lm). They are only read.
 *
 * A module's pre_quant_scale s [K], in any dtype of floats, belongs to its weight W: the module computes W (s * x). AWQ
 * and SVDQuant make it.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "io/file_safetensors.h"
#include "model/layout_cache.h"
#include "model/layout_config.h"

#define EXPERTS(name, scales_each) \
	{MXFP_FORMAT_NVFP4, "NVFP4", true, false, \
	 {[LAYOUT_CODES] = {name, name, DTYPE_U8}, \
	  [LAYOUT_SCALES] = {name, name "_weight_scale", DTYPE_F8_E4M3}, \
	  [LAYOUT_TENSOR_SCALE] = {name, name "_weight_scale_2", DTYPE_F32}, \
	  [LAYOUT_INPUT_SCALE] = {name, name "_input_scale", DTYPE_F32}}, \
	 0, scales_each}

static const struct layout_form forms[] = {
	{MXFP_FORMAT_NVFP4, "NVFP4", true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_U8},
	  [LAYOUT_SCALES] = {"", "_scale", DTYPE_F8_E4M3},
	  [LAYOUT_TENSOR_SCALE] = {"", "_scale_2", DTYPE_F32},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32},
	  [LAYOUT_PRE_QUANT_SCALE] = {".weight", ".pre_quant_scale", DTYPE_BF16}},
	 0, 0},
	{MXFP_FORMAT_MXFP4, "MXFP4", true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_U8},
	  [LAYOUT_SCALES] = {"", "_scale", DTYPE_U8},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32},
	  [LAYOUT_PRE_QUANT_SCALE] = {".weight", ".pre_quant_scale", DTYPE_BF16}},
	 1u << MXFP_FORMAT_MXFP8_E4M3, 0},
	{MXFP_FORMAT_MXFP8_E4M3, "MXFP8", true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_F8_E4M3}, [LAYOUT_SCALES] = {"", "_scale", DTYPE_U8}},
	 1u << MXFP_FORMAT_MXFP8_E4M3, 0},
	EXPERTS("gate_up_proj", 2),
	EXPERTS("down_proj", 1),
};

enum { N_MADE = 3 };

#define AWQ "NVFP4_AWQ"

/* The name for weights in a form and what they are multiplied with. */
static const char *algorithm(const struct layout_facts *facts, const struct layout_form *form)
{
	if (form->format == MXFP_FORMAT_NVFP4 && facts->pre_quant_scales)
		return AWQ;
	if (form->format == MXFP_FORMAT_NVFP4 && !facts->input_scales)
		return "W4A16_NVFP4";
	if (form->format == MXFP_FORMAT_MXFP4 && facts->activations != OPTION_FORMAT_NONE)
		return "W4A8_MXFP4_FP8";
	return form->config_name;
}

/* The formats of weights and activations as compressed-tensors would name them; MXFP4 alone has none. */
static json_t *scheme(const struct layout_facts *facts, const struct layout_form *form, json_t *targets)
{
	const struct mxfp_format_info *block = mxfp_format_get_info(form->format);
	const int bits = (int)mxfp_format_get_info(block->element)->bits, length = (int)block->block_length;
	const char *name = algorithm(facts, form);
	json_t *scheme = json_object();

	if (form->format == MXFP_FORMAT_MXFP4 && name != form->config_name)
		json_object_set_new(scheme, "input_activations", json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", 8,
		                                                           "type", "float"));
	else if (form->format != MXFP_FORMAT_MXFP4 && name == form->config_name)
		json_object_set_new(scheme, "input_activations",
		                    json_pack("{s:b, s:i, s:s, s:i}", "dynamic", 0, "num_bits", bits, "type", "float",
		                              "group_size", length));
	json_object_set_new(scheme, "weights", json_pack("{s:b, s:i, s:s, s:i}", "dynamic", 0, "num_bits", bits, "type",
	                                                 "float", "group_size", length));
	json_object_set_new(scheme, "targets", targets);
	return scheme;
}

/* Weights in several formats: an algorithm for each module by name. */
static void add_layers(const struct layout_facts *facts, json_t *quantization)
{
	json_t *layers = json_object(), *groups = json_object(), *module;
	char name[64];
	size_t k;

	for (size_t i = 0; i < facts->n_groups; i++) {
		const struct layout_form *form = facts->groups[i].choice.form;

		snprintf(name, sizeof name, "group_%zu", i);
		json_object_set_new(groups, name, scheme(facts, form, json_incref(facts->groups[i].targets)));
		json_array_foreach(facts->groups[i].targets, k, module)
			json_object_set_new(layers, json_string_value(module),
			                    json_pack("{s:s, s:i}", "quant_algo", algorithm(facts, form), "group_size",
			                              (int)mxfp_format_get_info(form->format)->block_length));
	}
	json_object_set_new(quantization, "config_groups", groups);
	json_object_set_new(quantization, "quantized_layers", layers);
}

/* Loaders ask for the producer's name; the version is that whose layout this is, and whose recipe is the default. */
static json_t *config(const struct layout_facts *facts)
{
	const struct layout_form *form = facts->groups[0].choice.form;
	json_t *quantization = json_object();

	if (facts->n_groups > 1)
		add_layers(facts, quantization);
	else if (form->format == MXFP_FORMAT_NVFP4 && !facts->pre_quant_scales)
		json_object_set_new(quantization, "config_groups",
		                    json_pack("{s:o}", "group_0", scheme(facts, form, json_pack("[s]", "Linear"))));
	json_object_set(quantization, "ignore", facts->ignore);
	json_object_set_new(quantization, "quant_algo",
	                    json_string(facts->n_groups > 1 ? "MIXED_PRECISION" : algorithm(facts, form)));
	json_object_set_new(quantization, "producer", json_pack("{s:s, s:s}", "name", "modelopt", "version", "0.47.0"));
	if (layout_cache_is(facts->cache, 8))
		json_object_set_new(quantization, "kv_cache_scheme",
		                    json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", 8, "type", "float"));
	else if (facts->cache != NULL)
		json_object_set_new(quantization, "kv_cache_scheme", json_string("NVFP4"));
	return quantization;
}

/* What get_kv_cache_dtype() of ModelOpt names: FP8 with a scale for all keys and one for all values, and NVFP4. */
static bool holds_cache(const json_t *cache)
{
	return layout_cache_is(cache, 8) || layout_cache_is(cache, 4);
}

/* hf_quant_config.json, which loaders read before config.json. */
static json_t *second_config(const json_t *quantization)
{
	json_t *layers = json_object_get(quantization, "quantized_layers");
	const char *algo = json_string_value(json_object_get(quantization, "quant_algo"));
	const json_t *cache = json_object_get(quantization, "kv_cache_scheme");
	json_t *inner = json_pack("{s:s?, s:s?, s:O?}", "quant_algo", algo, "kv_cache_quant_algo",
	                          json_is_object(cache) ? "FP8" : json_string_value(cache), "exclude_modules",
	                          json_object_get(quantization, "ignore"));

	if (algo != NULL && strcmp(algo, AWQ) == 0)
		json_object_update_new(inner, json_pack("{s:b, s:b}", "has_zero_point", 0, "pre_quant_scale", 1));
	if (layers != NULL)
		json_object_set(inner, "quantized_layers", layers);
	else
		json_object_set_new(inner, "group_size", json_integer(algo != NULL && strstr(algo, "NVFP4") != NULL ? 16 : 32));
	return json_pack("{s:O?, s:o}", "producer", json_object_get(quantization, "producer"), "quantization", inner);
}

const struct layout layout_modelopt = {
	.name = "modelopt",
	.meaning = "NVFP4 and MXFP4 as NVIDIA's Model Optimizer writes them",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.refuses = layout_takes_linear,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.n_made = N_MADE,
	.recipe = MXFP_RECIPE_MODELOPT_0_45,
	.method = "modelopt",
	.one_expert_each = true,
	.config = config,
	.holds_cache = holds_cache,
	.second_name = "hf_quant_config.json",
	.second_config = second_config,
};
