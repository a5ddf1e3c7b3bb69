/* SPDX-License-Identifier: MIT */
/*
 * The layout of DeepSeek's FP8 where its scales are powers of two, as DeepSeek-V4, MiniMax-M3 and others publish it and
 * quant_method fp8 and mxfp8 of transformers and SGLang load it. A tensor NAME [..., N, K] becomes
 *
 *   NAME            F8_E4M3 [..., N, K]                           MXFP8
 *   NAME            I8 or U8 [..., N, K / 2], or F4 [..., N, K]   MXFP4, the even element in the low nibble
 *   NAME_scale_inv  U8 or F8_E8M0 [..., n, k]                     multiplies, whatever its name says
 *
 * or with X.scale of X.weight instead, or NAME_scale of MXFP4; of MXFP8 that is compressed-tensors' own. A scale is that of a
 * block of MXFP4, N = n and K = 32 k; of MXFP8 it is that of a grid of rows and columns (layout_grid), 1 x 32, 128 x 128 or
 * others, which is MXFP8 whose blocks share scales. Bytes are powers of two also where the dtype says U8: 2^(byte - 127).
 *
 * MXFP8 is written as MiniMax-M3 has it, 1 x 32. No loader takes MXFP4 for any linear layer; so that is only read.
 */
#include "config.h"

#include "io/file_safetensors.h"
#include "model/layout_config.h"

#define ACTIVATIONS (1u << MXFP_FORMAT_MXFP8_E4M3)

#define FORM(id, codes, remove, suffix, scales) \
	{MXFP_FORMAT_##id, NULL, true, false, \
	 {[LAYOUT_CODES] = {"", "", DTYPE_##codes}, \
	  [LAYOUT_SCALES] = {remove, suffix, DTYPE_##scales}, \
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32}}, \
	 ACTIVATIONS, 0}

static const struct layout_form forms[] = {
	FORM(MXFP8_E4M3, F8_E4M3, "", "_scale_inv", U8),
	FORM(MXFP8_E4M3, F8_E4M3, ".weight", ".scale", U8),
	FORM(MXFP4, I8, ".weight", ".scale", U8),
	FORM(MXFP4, U8, ".weight", ".scale", U8),
	FORM(MXFP4, F4, ".weight", ".scale", U8),
	FORM(MXFP4, I8, "", "_scale_inv", U8),
	FORM(MXFP4, U8, "", "_scale_inv", U8),
	FORM(MXFP4, F4, "", "_scale_inv", U8),
	FORM(MXFP4, I8, "", "_scale", U8),
	FORM(MXFP4, F4, "", "_scale", U8),
};

/* FineGrainedFP8Config of transformers, Fp8Config of SGLang, which reads U8 as powers of two for mxfp8 alone; FP4 is there in
   files that were read. */
static json_t *config(const struct layout_facts *facts)
{
	bool fp4 = false;

	for (size_t i = 0; i < facts->n_groups; i++)
		fp4 |= facts->groups[i].choice.form->format == MXFP_FORMAT_MXFP4;
	return json_pack("{s:s, s:s, s:[i, i], s:s, s:s*, s:O}", "quant_method", fp4 ? "fp8" : "mxfp8", "activation_scheme",
	                 "dynamic", "weight_block_size", 1, 32, "scale_fmt", "ue8m0", "expert_dtype", fp4 ? "fp4" : NULL,
	                 "modules_to_not_convert", facts->ignore);
}

const struct layout layout_fp8 = {
	.name = "fp8",
	.meaning = "MXFP8 as in MiniMax-M3, for transformers and SGLang",
	.file_format = &file_safetensors,
	.order = &layout_grid,
	.refuses = layout_takes_linear,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.n_made = 1,
	.method = "fp8",
	.lists_optional = true,
	.one_expert_each = true,
	.reads_experts = true, /* FP8Experts of transformers */
	.config = config,
};
