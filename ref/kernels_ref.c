/* SPDX-License-Identifier: MIT */
/* Fills every slot with the reference kernels. lib/dispatch.c calls it before the other tiers. */
#include "ref.h"

void mxfp_kernels_ref(struct mxfp_kernels *table)
{
	table->row_sum = mxfp_row_sum_ref;
	table->row_max = mxfp_row_max_ref;
	table->softmax = mxfp_softmax_ref;
	table->norm = mxfp_norm_ref;
	table->combine = mxfp_combine_ref;
	table->rotate = mxfp_rotate_ref;
	table->attend = mxfp_attend_ref;
	table->gemm_ref = mxfp_gemm_ref;
	table->gemm_mma = mxfp_gemm_mma_ref;
	table->gemm_finish = mxfp_gemm_finish_ref;
	for (int f = 0; f < MXFP_N_FUNCTIONS; f++)
		table->apply[f] = mxfp_apply_ref;
	table->reduce = mxfp_reduce_ref;
	table->clamp = mxfp_clamp_ref;
	for (int to = 0; to < MXFP_N_FORMATS; to++) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)to);

		table->compress[to] = mxfp_compress_ref;
		table->expand[to] = mxfp_expand_ref;
		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[to] = info->tensor_scale ? mxfp_quantize_nvfp4_ref : mxfp_quantize_mx_ref;
			if (!info->tensor_scale) {
				table->quantize_squares[to] = mxfp_quantize_squares_ref;
				table->transpose[to] = mxfp_transpose_ref;
			}
			table->dequantize[to] = info->tensor_scale ? mxfp_dequantize_nvfp4_ref : mxfp_dequantize_mx_ref;
			continue;
		}
		table->scan[to] = mxfp_scan_ref;
		table->prune[to] = mxfp_prune_ref;
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (mxfp_format_get_info((enum mxfp_format)from)->kind != MXFP_KIND_BLOCK)
				table->convert[to][from] = mxfp_convert_ref;
	}
}
