/* SPDX-License-Identifier: MIT */
/* The slots of the tiers that have the shared kernels alone. */
#include "config.h"

#include "tier.h"

#include "body/gemm_int16.h"
#include "body/slots.h"

static void set_products(struct mxfp_kernels *table, enum mxfp_format a, enum mxfp_format w)
{
	const struct mxfp_format_info *a_info = mxfp_format_info(a), *w_info = mxfp_format_info(w);
	bool a_blocks = a_info->kind == MXFP_KIND_BLOCK, w_blocks = w_info->kind == MXFP_KIND_BLOCK;

	if ((a_blocks || a_info->bits > 8) && (w_blocks || w_info->bits > 8))
		table->gemm[MXFP_ACC_CHAIN][a][w] = &TIER(gemm_chain);
	if (a_blocks && w_blocks)
		table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_exact);
	if (int16_pair(a, w))
		table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_int16);
}

void TIER(kernels)(struct mxfp_kernels *table)
{
	table->gemm_finish = TIER(gemm_finish);
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[f] = info->tensor_scale ? TIER(quantize_nvfp4) : TIER(quantize_mx_nearest);
			table->dequantize[f] = TIER(dequantize);
		}
		if (table->scan[f] != NULL)
			table->scan[f] = TIER(scan);
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = TIER(convert);
	}
	for (int f = 0; f < MXFP_N_FORMATS; f++)
		if (f != MXFP_FORMAT_F32 && table->convert[f][MXFP_FORMAT_F32] != NULL) {
			table->convert[f][MXFP_FORMAT_F32] = TIER(convert_nearest);
			table->convert[MXFP_FORMAT_F32][f] = TIER(widen);
		}
	for (int a = 0; a < MXFP_N_FORMATS; a++)
		for (int w = 0; w < MXFP_N_FORMATS; w++)
			set_products(table, (enum mxfp_format)a, (enum mxfp_format)w);
}
