/* SPDX-License-Identifier: MIT */
/*
 * The layout of AMD Quark: MXFP4. A tensor NAME [..., N, K] becomes NAME U8 [..., N, K/2], the even element in the low
 * nibble, and NAME_scale U8 (E8M0) [..., N, K/32].
 */
#include "config.h"

#include "file_safetensors.h"
#include "layout.h"

static const struct layout_form forms[] = {
	{MXFP_FORMAT_MXFP4, NULL, true, false,
	 {[LAYOUT_CODES] = {"", "", DTYPE_U8},
	  [LAYOUT_SCALES] = {"", "_scale", DTYPE_U8},
	  [LAYOUT_INPUT_SCALE] = {".weight", ".input_scale", DTYPE_F32}}},
};

const struct layout layout_quark = {
	.name = "quark",
	.meaning = "MXFP4 as AMD Quark writes it",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
};
