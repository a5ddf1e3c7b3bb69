/* SPDX-License-Identifier: MIT */
/* Fills the slots of tier avx512. lib/dispatch.c calls it. */
#include "config.h"

#include <string.h>

#include "tier.h"

#include "body/slots.h"

static mxfp_convert_kernel *converter(enum mxfp_format to, enum mxfp_format from)
{
	if (to == MXFP_FORMAT_F32)
		return mxfp_format_get_info(from)->bits <= 8 ? TIER(decode) : TIER(decode_wide);
	if (from == MXFP_FORMAT_F32)
		return mxfp_format_get_info(to)->bits <= 8 ? TIER(encode) : TIER(encode_wide);
	return TIER(relay);
}

void TIER(kernels)(struct mxfp_kernels *table)
{
	table->row_sum = TIER(row_sum);
	table->row_max = TIER(row_max);
	table->softmax = TIER(softmax);
	table->norm = TIER(norm);
	table->combine = TIER(combine);
	table->rotate = TIER(rotate);
	table->attend = TIER(attend);
	table->gemm_finish = TIER(gemm_finish);
	table->gemm_mma = TIER(gemm_mma);
	for (int f = 0; f < MXFP_N_FUNCTIONS; f++)
		table->apply[f] = TIER(apply);
	table->reduce = TIER(reduce);
	table->clamp = TIER(clamp);
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[f] = info->tensor_scale ? TIER(quantize_nvfp4_groups)
			                                        : TIER(quantize_mx_groups);
			table->dequantize[f] = TIER(dequantize);
		}
		table->compress[f] = TIER(compress);
		table->expand[f] = TIER(expand);
		if (table->scan[f] != NULL)
			table->scan[f] = TIER(scan);
		if (table->prune[f] != NULL)
			table->prune[f] = TIER(prune_vectors);
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = converter((enum mxfp_format)f, (enum mxfp_format)from);
	}
	table->scan[MXFP_FORMAT_F32] = TIER(scan_words);
	table->scan[MXFP_FORMAT_BF16] = TIER(scan_words);
	table->scan[MXFP_FORMAT_F16] = TIER(scan_words);
	/* What avx2 has beside these was not measured here. */
	memset(table->gemm, 0, sizeof table->gemm);
	table->gemm[MXFP_GEMM_CHAIN] = &TIER(gemm_chain);
	table->gemm[MXFP_GEMM_INT16_CODES] = &TIER(gemm_int16_codes);
	table->gemm[MXFP_GEMM_FP8] = &TIER(gemm_fp8);
	table->gemm[MXFP_GEMM_INT8] = &TIER(gemm_int8);
	table->gemm[MXFP_GEMM_E4M3] = &TIER(gemm_e4m3);
	table->gemm[MXFP_GEMM_SPARSE_CHAIN] = &TIER(gemm_sparse_chain);
	table->gemm[MXFP_GEMM_SPARSE_FP4] = &TIER(gemm_sparse_fp4);
}
