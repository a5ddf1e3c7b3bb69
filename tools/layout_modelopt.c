/* SPDX-License-Identifier: MIT */
/*
 * The layout of NVIDIA's Model Optimizer. A tensor NAME [..., N, K] becomes NAME U8 [..., N, K/2], the even element in
 * the low nibble, and NAME_scale: F8_E4M3 [..., N, K/16] beside NAME_scale_2 F32 [], which multiplies, for NVFP4; U8
 * (E8M0) [..., N, K/32] for MXFP4.
 */
#include "config.h"

#include "file_safetensors.h"
#include "layout.h"

static const struct layout_form forms[] = {
	{MXFP_FORMAT_NVFP4, "NVFP4", true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_U8},
	  [LAYOUT_SCALES] = {"", "_scale", DTYPE_F8_E4M3},
	  [LAYOUT_TENSOR_SCALE] = {"", "_scale_2", DTYPE_F32},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32}}},
	{MXFP_FORMAT_MXFP4, "W4A8_MXFP4_FP8", true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_U8},
	  [LAYOUT_SCALES] = {"", "_scale", DTYPE_U8},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32}}},
};

const struct layout layout_modelopt = {
	.name = "modelopt",
	.meaning = "NVFP4 and MXFP4 as NVIDIA's Model Optimizer writes them",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
};
