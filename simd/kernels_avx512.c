/* SPDX-License-Identifier: MIT */
/* The slots of tier avx512, and nothing else. */
#include "config.h"

#include "kernels_avx512.h"

static mxfp_convert_kernel *converter(enum mxfp_format to, enum mxfp_format from)
{
	if (to == MXFP_FORMAT_F32)
		return mxfp_format_info(from)->bits <= 8 ? mxfp_decode_avx512 : mxfp_decode_wide_avx512;
	if (from == MXFP_FORMAT_F32)
		return mxfp_format_info(to)->bits <= 8 ? mxfp_encode_avx512 : mxfp_encode_wide_avx512;
	return mxfp_relay_avx512;
}

void mxfp_kernels_avx512(struct mxfp_kernels *table)
{
	table->gemm_finish = mxfp_gemm_finish_avx512;
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[f] = info->tensor_scale ? mxfp_quantize_nvfp4_fast_avx512
			                                        : mxfp_quantize_mx_groups_avx512;
			table->dequantize[f] = mxfp_dequantize_avx512;
		}
		table->compress[f] = mxfp_compress_avx512;
		table->expand[f] = mxfp_expand_avx512;
		if (table->scan[f] != NULL)
			table->scan[f] = mxfp_scan_avx512;
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = converter((enum mxfp_format)f, (enum mxfp_format)from);
	}
	table->scan[MXFP_FORMAT_F32] = mxfp_scan_words_avx512;
	table->scan[MXFP_FORMAT_BF16] = mxfp_scan_words_avx512;
	table->scan[MXFP_FORMAT_F16] = mxfp_scan_words_avx512;
	table->gemm[MXFP_GEMM_CHAIN] = &mxfp_gemm_chain_avx512;
	table->gemm[MXFP_GEMM_EXACT] = &mxfp_gemm_exact_avx512;
	table->gemm[MXFP_GEMM_INT16] = &mxfp_gemm_int16_avx512;
	table->gemm[MXFP_GEMM_WIDE] = &mxfp_gemm_wide_avx512;
	table->gemm[MXFP_GEMM_INT8] = &mxfp_gemm_int8_avx512;
	table->gemm[MXFP_GEMM_E4M3] = &mxfp_gemm_e4m3_avx512;
	table->gemm[MXFP_GEMM_SPARSE_CHAIN] = &mxfp_gemm_sparse_chain_avx512;
	table->gemm[MXFP_GEMM_SPARSE_INT8] = &mxfp_gemm_sparse_int8_avx512;
}
