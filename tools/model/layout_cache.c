/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/layout_cache.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static bool is_text(const json_t *json, const char *text)
{
	const char *value = json_string_value(json);

	return value != NULL && strcmp(value, text) == 0;
}

bool layout_cache_is(const json_t *cache, int bits)
{
	const json_t *strategy = json_object_get(cache, "strategy"), *length = json_object_get(cache, "group_size");

	if (json_integer_value(json_object_get(cache, "num_bits")) != bits || !is_text(json_object_get(cache, "type"), "float") ||
	    json_is_true(json_object_get(cache, "dynamic")) || json_is_false(json_object_get(cache, "symmetric")))
		return false;
	if (bits == 4)
		return json_integer_value(length) == 16;
	return (strategy == NULL || is_text(strategy, "tensor")) && json_integer_value(length) <= 0;
}

/* The words for a name that ModelOpt has. */
static json_t *cache_of_name(const char *name)
{
	if (name != NULL && strcasecmp(name, "FP8") == 0)
		return json_pack("{s:i, s:s, s:s, s:b, s:b}", "num_bits", 8, "type", "float", "strategy", "tensor", "symmetric", 1,
		                 "dynamic", 0);
	if (name != NULL && strcasecmp(name, "NVFP4") == 0)
		return json_pack("{s:i, s:s, s:s, s:i, s:b, s:b}", "num_bits", 4, "type", "float", "strategy", "tensor_group",
		                 "group_size", 16, "symmetric", 1, "dynamic", 0);
	return NULL;
}

/* Quark: outputs of the layers that make keys and values, all alike. */
static json_t *cache_of_quark(const json_t *layers)
{
	for (void *at = json_object_iter((json_t *)(uintptr_t)layers); at != NULL;
	     at = json_object_iter_next((json_t *)(uintptr_t)layers, at)) {
		const json_t *output = json_object_get(json_object_iter_value(at), "output_tensors");

		if (!is_text(json_object_get(output, "dtype"), "fp8_e4m3") ||
		    !is_text(json_object_get(output, "qscheme"), "per_tensor") || json_is_true(json_object_get(output, "is_dynamic")))
			return NULL;
	}
	return cache_of_name("FP8");
}

json_t *layout_cache_read(const json_t *quantization, const json_t *second, bool *said)
{
	const json_t *scheme = json_object_get(quantization, "kv_cache_scheme");
	const json_t *quark = json_object_get(quantization, "kv_cache_quant_config");
	const json_t *dtype = json_object_get(quantization, "static_kv_dtype"); /* of auto-round */
	const json_t *inner = json_object_get(second, "quantization");
	const json_t *names[] = {scheme, json_object_get(quantization, "kv_cache_quant_algo"),
	                         json_object_get(inner, "kv_cache_quant_algo")};
	const char *name = NULL;

	for (size_t i = 0; i < sizeof names / sizeof names[0] && name == NULL; i++)
		name = json_string_value(names[i]);
	*said = json_object_size(scheme) > 0 || json_object_size(quark) > 0 || name != NULL || json_is_string(dtype);
	if (json_object_size(scheme) > 0) {
		json_t *cache = json_deep_copy(scheme);

		/* ModelOpt leaves out what is always so. */
		json_object_update_missing_new(cache, json_pack("{s:s, s:b}", "strategy", "tensor", "symmetric", 1));
		return cache;
	}
	if (name != NULL)
		return cache_of_name(name);
	if (json_is_string(dtype))
		return cache_of_name(strstr(json_string_value(dtype), "nv") != NULL     ? "NVFP4"
		                     : strstr(json_string_value(dtype), "f") != NULL ? "FP8"
		                                                                     : NULL);
	return json_object_size(quark) > 0 ? cache_of_quark(quark) : NULL;
}
