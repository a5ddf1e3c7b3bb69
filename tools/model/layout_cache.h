/* SPDX-License-Identifier: MIT */
/* How the cache of keys and values is quantized, which each layout's configuration says in words of its own. */
#ifndef TOOLS_MODEL_LAYOUT_CACHE_H
#define TOOLS_MODEL_LAYOUT_CACHE_H

#include <jansson.h>
#include <stdbool.h>

/*
 * How a quantization_config, or hf_quant_config.json (NULL: none), says that the cache of keys and values is quantized: in
 * the words of compressed-tensors' kv_cache_scheme, which the caller releases. *said is whether it says anything, which may
 * be what these words do not express: then it is NULL.
 */
json_t *layout_cache_read(const json_t *quantization, const json_t *second, bool *said);

/* Whether such words mean floats of so many bits, with a scale for a tensor, or for 4 bits one for 16 elements besides. */
bool layout_cache_is(const json_t *cache, int bits);

#endif
