/* SPDX-License-Identifier: MIT */
/* The slots of tier avx2, and nothing else. */
#include "config.h"

#include "gemm_int16.h"
#include "kernels_avx2.h"

static void set_products(struct mxfp_kernels *table, enum mxfp_format a, enum mxfp_format w)
{
	const struct mxfp_format_info *a_info = mxfp_format_info(a), *w_info = mxfp_format_info(w);
	bool a_blocks = a_info->kind == MXFP_KIND_BLOCK, w_blocks = w_info->kind == MXFP_KIND_BLOCK;

	if ((a_blocks || a_info->bits > 8) && (w_blocks || w_info->bits > 8))
		table->gemm[MXFP_ACC_CHAIN][a][w] = &mxfp_gemm_chain_avx2;
	if (a_blocks && w_blocks)
		table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_exact_avx2;
	if (int16_pair(a, w))
		table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_int16_avx2;
}

void mxfp_kernels_avx2(struct mxfp_kernels *table)
{
	table->gemm_finish = mxfp_gemm_finish_avx2;
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[f] = info->tensor_scale ? mxfp_quantize_nvfp4_avx2 : mxfp_quantize_mx_nearest_avx2;
			table->dequantize[f] = mxfp_dequantize_avx2;
		}
		if (table->scan[f] != NULL)
			table->scan[f] = mxfp_scan_avx2;
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = mxfp_convert_avx2;
	}
	for (int f = 0; f < MXFP_N_FORMATS; f++)
		if (f != MXFP_FORMAT_F32 && table->convert[f][MXFP_FORMAT_F32] != NULL) {
			table->convert[f][MXFP_FORMAT_F32] = mxfp_convert_nearest_avx2;
			table->convert[MXFP_FORMAT_F32][f] = mxfp_widen_avx2;
		}
	for (int a = 0; a < MXFP_N_FORMATS; a++)
		for (int w = 0; w < MXFP_N_FORMATS; w++)
			set_products(table, (enum mxfp_format)a, (enum mxfp_format)w);
}
