/* SPDX-License-Identifier: MIT */
/* Fills the slots of a tier that has only the kernels of simd/body: avx2 and neon. lib/dispatch.c calls it. */
#include "config.h"

#include "tier.h"

#include "body/slots.h"

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
			table->quantize[f] = info->tensor_scale ? TIER(quantize_nvfp4) : TIER(quantize_mx_nearest);
			if (!info->tensor_scale) {
				table->quantize_squares[f] = TIER(quantize_squares);
				table->transpose[f] = TIER(transpose);
			}
			table->dequantize[f] = TIER(dequantize);
		}
		table->compress[f] = TIER(compress);
		table->expand[f] = TIER(expand);
		if (table->scan[f] != NULL)
			table->scan[f] = TIER(scan);
		if (table->prune[f] != NULL)
			table->prune[f] = TIER(prune);
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = TIER(convert);
	}
	for (int f = 0; f < MXFP_N_FORMATS; f++)
		if (f != MXFP_FORMAT_F32 && table->convert[f][MXFP_FORMAT_F32] != NULL) {
			table->convert[f][MXFP_FORMAT_F32] = TIER(convert_nearest);
			table->convert[MXFP_FORMAT_F32][f] = TIER(widen);
		}
	table->gemm[MXFP_GEMM_CHAIN] = &TIER(gemm_chain);
	table->gemm[MXFP_GEMM_CHAIN_BLOCKS] = &TIER(gemm_chain_blocks);
	table->gemm[MXFP_GEMM_INT16_CODES] = &TIER(gemm_int16_codes);
	table->gemm[MXFP_GEMM_FP4] = &TIER(gemm_fp4);
#ifdef HAS_FP4_BYTES
	table->gemm[MXFP_GEMM_FP4_BYTES] = &TIER(gemm_fp4_bytes);
	table->gemm[MXFP_GEMM_SPARSE_FP4] = &TIER(gemm_sparse_fp4);
#endif
#ifdef HAS_MXFP8
	table->gemm[MXFP_GEMM_MXFP8] = &TIER(gemm_mxfp8);
#endif
	table->gemm[MXFP_GEMM_FP8] = &TIER(gemm_fp8);
}
