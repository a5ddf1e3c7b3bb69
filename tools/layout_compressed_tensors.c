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

#include "file_safetensors.h"
#include "layout.h"

/* The parts of a form: the suffix and dtype of the codes, the dtype of the scales. */
#define PARTS(suffix, codes, scales) \
	{[LAYOUT_CODES] = {"", suffix, DTYPE_##codes}, \
	 [LAYOUT_SCALES] = {"", "_scale", DTYPE_##scales}, \
	 [LAYOUT_TENSOR_SCALE] = {"", "_global_scale", DTYPE_F32}, \
	 [LAYOUT_MASKS] = {"", "_mask", DTYPE_U8}, \
	 [LAYOUT_INPUT_SCALE] = {".weight", ".input_global_scale", DTYPE_F32}}

/* A format dense, and sparse. */
#define FORMS(id, name, known, suffix, codes, scales) \
	{MXFP_FORMAT_##id, name, known, false, PARTS(suffix, codes, scales)}, \
	{MXFP_FORMAT_##id, name "-sparse", false, true, PARTS("_sparse", U8, scales)}

static const struct layout_form forms[] = {
	FORMS(MXFP4, "mxfp4-pack-quantized", true, "_packed", U8, U8),
	FORMS(NVFP4, "nvfp4-pack-quantized", true, "_packed", U8, F8_E4M3),
	FORMS(MXFP8_E4M3, "mxfp8-quantized", true, "", F8_E4M3, U8),
	FORMS(MXFP6_E2M3, "mxfp6-pack-quantized", true, "_packed", U8, U8),
	FORMS(MXFP6_E3M2, "mxfp6-e3m2-pack-quantized", false, "_packed", U8, U8),
	FORMS(MXFP8_E5M2, "mxfp8-e5m2-quantized", false, "", F8_E5M2, U8),
	FORMS(MXINT8, "mxint8-quantized", false, "", I8, U8),
};

const struct layout layout_compressed_tensors = {
	.name = "compressed-tensors",
	.meaning = "as vLLM and llm-compressor load it",
	.file_format = &file_safetensors,
	.order = &layout_rows,
	.forms = forms,
	.n_forms = sizeof forms / sizeof forms[0],
	.divides = true,
	.tensor_scale_rank = 1,
};
