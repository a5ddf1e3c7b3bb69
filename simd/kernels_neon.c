/* SPDX-License-Identifier: MIT */
/* The slots of tier neon, and nothing else. */
#include "config.h"

#include "kernels_neon.h"

void mxfp_kernels_neon(struct mxfp_kernels *table)
{
	table->gemm_finish = mxfp_gemm_finish_neon;
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[f] = info->tensor_scale ? mxfp_quantize_nvfp4_neon : mxfp_quantize_mx_nearest_neon;
			table->dequantize[f] = mxfp_dequantize_neon;
		}
		if (table->scan[f] != NULL)
			table->scan[f] = mxfp_scan_neon;
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = mxfp_convert_neon;
	}
	for (int f = 0; f < MXFP_N_FORMATS; f++)
		if (f != MXFP_FORMAT_F32 && table->convert[f][MXFP_FORMAT_F32] != NULL) {
			table->convert[f][MXFP_FORMAT_F32] = mxfp_convert_nearest_neon;
			table->convert[MXFP_FORMAT_F32][f] = mxfp_widen_neon;
		}
	table->gemm[MXFP_GEMM_CHAIN] = &mxfp_gemm_chain_neon;
	table->gemm[MXFP_GEMM_EXACT] = &mxfp_gemm_exact_neon;
	table->gemm[MXFP_GEMM_INT16] = &mxfp_gemm_int16_neon;
}
