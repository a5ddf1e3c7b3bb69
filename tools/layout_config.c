/* SPDX-License-Identifier: MIT */
/*
 * quantization_config as compressed-tensors reads it. Its parser refuses unknown keys inside config_groups,
 * takes numbers of bits and "float" or "int" for formats, and a format name of its own or none in a group;
 * other keys at the top pass.
 */
#include "config.h"

#include "layout.h"

#include <stdio.h>

#include "options.h"

static const char mixed_name[] = "mixed-precision";

bool layout_holds_activations(enum mxfp_format format)
{
	const struct layout_form *form = layout_form(&layout_compressed_tensors, format, false);

	/* A tensor scale of activations comes from calibration, which weights alone do not give. */
	return form != NULL && form->known && !mxfp_format_info(format)->tensor_scale;
}

bool layout_holds_recipe(const struct layout *layout, enum mxfp_recipe recipe)
{
	if (recipe == MXFP_RECIPE_TORCHAO_1 || recipe == MXFP_RECIPE_GGML)
		return true;
	return layout->divides == (recipe == MXFP_RECIPE_CT);
}

/* The QuantizationArgs of a format. */
static json_t *arguments(const struct layout_form *form, bool dynamic)
{
	const struct mxfp_format_info *block = mxfp_format_info(form->format);
	const struct mxfp_format_info *element = mxfp_format_info(block->element);

	return json_pack("{s:i, s:s, s:s, s:i, s:b, s:b, s:s}", "num_bits", (int)element->bits, "type",
	                 element->kind == MXFP_KIND_FIXED ? "int" : "float", "strategy",
	                 block->tensor_scale ? "tensor_group" : "group", "group_size", (int)block->block_length,
	                 "symmetric", 1, "dynamic", (int)dynamic, "scale_dtype",
	                 form->parts[LAYOUT_SCALES].dtype == DTYPE_F8_E4M3 ? "torch.float8_e4m3fn" : "torch.uint8");
}

/* The QuantizationScheme of a group; takes the reference to its targets. */
static json_t *scheme(const struct layout_group *group, enum mxfp_format activations)
{
	const struct layout_form *form = group->choice.form;
	json_t *input = json_null();

	if (activations != OPTION_FORMAT_NONE)
		input = arguments(layout_form(&layout_compressed_tensors, activations, false), true);
	return json_pack("{s:o, s:o, s:o, s:n, s:s?}", "targets", group->targets, "weights", arguments(form, false),
	                 "input_activations", input, "output_activations", "format",
	                 form->known ? form->config_name : NULL);
}

json_t *layout_config(const struct layout_group *groups, size_t n_groups, enum mxfp_format activations, json_t *ignore)
{
	json_t *schemes = json_object();
	char name[64];

	for (size_t i = 0; i < n_groups; i++) {
		snprintf(name, sizeof name, "group_%zu", i);
		json_object_set_new(schemes, name, scheme(&groups[i], activations));
	}
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:n}", "quant_method", "compressed-tensors", "format",
	                 n_groups > 1 ? mixed_name : groups[0].choice.form->config_name, "quantization_status",
	                 "compressed", "config_groups", schemes, "ignore", ignore, "kv_cache_scheme");
}
