/* SPDX-License-Identifier: MIT */
/*
 * The layout of MLX, as mlx-lm loads and writes it. A weight X.weight [..., N, K] becomes
 *
 *   X.weight  U32 [..., N, K * bits / 32]  the codes that other layouts have in bytes, the first in the lowest bits
 *   X.scales  U8 [..., N, K / 32]          E8M0; NVFP4: UE4M3 [..., N, K / 16]
 *
 * NVFP4 has no tensor scale here. mlx-lm has one for each expert of several in one tensor, X.global_scale: that is
 * refused, because blocks of one tensor have one tensor scale here. Modes with X.biases are other numbers.
 */
#include "config.h"

#include "io/file_safetensors.h"
#include "model/layout_config.h"

#define PARTS \
	{[LAYOUT_CODES] = {".weight", ".weight", DTYPE_U32}, [LAYOUT_SCALES] = {".weight", ".scales", DTYPE_U8}}

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, "mxfp4", true, false, PARTS, 0, 0},
	{MXFP_FORMAT_NVFP4, "nvfp4", true, false, PARTS, 0, 0},
	{MXFP_FORMAT_MXFP8_E4M3, "mxfp8", true, false, PARTS, 0, 0},
};

/* What to_quantized() of mlx.nn takes. */
static json_t *arguments(const struct layout_form *form)
{
	const struct mxfp_format_info *block = mxfp_format_get_info(form->format);

	return json_pack("{s:i, s:i, s:s}", "group_size", (int)block->block_length, "bits",
	                 (int)mxfp_format_get_info(block->element)->bits, "mode", form->config_name);
}

/* The arguments of the first format, and under its name those of each module that has another. */
static json_t *config(const struct layout_facts *facts)
{
	json_t *section = arguments(facts->groups[0].choice.form), *module;
	size_t k;

	for (size_t i = 1; i < facts->n_groups; i++)
		json_array_foreach(facts->groups[i].targets, k, module)
			json_object_set_new(section, json_string_value(module), arguments(facts->groups[i].choice.form));
	return section;
}

const struct layout layout_mlx = {
	.name = "mlx",
	.meaning = "MXFP4, MXFP8 and NVFP4 as mlx-lm loads them",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.refuses = layout_takes_linear,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.tensor_scale_optional = true,
	/* mx.quantize() has the same scales, down to subnormal ones, and other codes for ties alone. */
	.recipe = MXFP_RECIPE_GGML,
	.method = "mlx",
	.unnamed_method = true,
	.by_scales = true,
	.twin = "quantization",
	.one_expert_each = true,
	.reads_experts = true, /* QuantizedSwitchLinear of mlx-lm */
	.config = config,
};
