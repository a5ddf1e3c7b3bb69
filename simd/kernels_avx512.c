/* SPDX-License-Identifier: MIT */
/* The slots of tier avx512, and nothing else. */
#include "config.h"

#include "gemm_int16.h"
#include "kernels_avx512.h"

static mxfp_convert_kernel *converter(enum mxfp_format to, enum mxfp_format from)
{
	if (to == MXFP_FORMAT_F32)
		return mxfp_format_info(from)->bits <= 8 ? mxfp_decode_avx512 : mxfp_decode_wide_avx512;
	if (from == MXFP_FORMAT_F32)
		return mxfp_format_info(to)->bits <= 8 ? mxfp_encode_avx512 : mxfp_encode_wide_avx512;
	return mxfp_relay_avx512;
}

static bool is_operand(int f)
{
	const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

	return info->kind == MXFP_KIND_BLOCK || info->storage_bytes > 1;
}

/* Whether the elements are integers of 8 bits. */
static bool fits_int8(int f)
{
	return f == MXFP_FORMAT_MXFP4 || f == MXFP_FORMAT_NVFP4 || f == MXFP_FORMAT_MXFP6_E2M3 || f == MXFP_FORMAT_MXINT8;
}

/* Whether elements of e4m3 have a kernel with the format's. */
static bool goes_with_e4m3(int f)
{
	return f == MXFP_FORMAT_MXFP8_E4M3 || (f != MXFP_FORMAT_NVFP4 && fits_int8(f));
}

static bool is_block(int f)
{
	return mxfp_format_info((enum mxfp_format)f)->kind == MXFP_KIND_BLOCK;
}

static bool is_fp8(int f)
{
	return f == MXFP_FORMAT_MXFP8_E4M3 || f == MXFP_FORMAT_MXFP8_E5M2;
}

/* Whether the elements are integers of at most 9 bits. */
static bool is_narrow(int f)
{
	return fits_int8(f) || f == MXFP_FORMAT_MXFP6_E3M2;
}

static void products(struct mxfp_kernels *table)
{
	for (int a = 0; a < MXFP_N_FORMATS; a++)
		for (int w = 0; w < MXFP_N_FORMATS; w++) {
			if (is_operand(a) && is_operand(w))
				table->gemm[MXFP_ACC_CHAIN][a][w] = &mxfp_gemm_chain_avx512;
			if (is_block(a) && is_block(w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_exact_avx512;
			if (int16_pair((enum mxfp_format)a, (enum mxfp_format)w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_int16_avx512;
			if ((is_fp8(a) && is_narrow(w)) || (is_narrow(a) && is_fp8(w)))
				table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_wide_avx512;
			if (fits_int8(a) && fits_int8(w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_int8_avx512;
			else if (goes_with_e4m3(a) && goes_with_e4m3(w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &mxfp_gemm_e4m3_avx512;
		}
}

/* A W in NVFP4 is expanded: its tensor scale may make a zero anything. */
static void sparse_products(struct mxfp_kernels *table)
{
	for (int a = 0; a < MXFP_N_FORMATS; a++)
		for (int w = 0; w < MXFP_N_FORMATS; w++) {
			if (!is_operand(a) || !is_operand(w) || w == MXFP_FORMAT_NVFP4)
				continue;
			for (int i = 0; i < MXFP_N_SPARSE_KERNELS; i++)
				table->gemm_sparse[i][MXFP_ACC_CHAIN][a][w] = &mxfp_gemm_sparse_chain_avx512;
		}
	for (int a = 0; a < MXFP_N_FORMATS; a++)
		for (int i = 0; i < MXFP_N_SPARSE_KERNELS; i++)
			if (fits_int8(a) && a != MXFP_FORMAT_NVFP4)
				table->gemm_sparse[i][MXFP_ACC_EXACT][a][MXFP_FORMAT_MXFP4] = &mxfp_gemm_sparse_int8_avx512;
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
	sparse_products(table);
	table->scan[MXFP_FORMAT_F32] = mxfp_scan_words_avx512;
	table->scan[MXFP_FORMAT_BF16] = mxfp_scan_words_avx512;
	table->scan[MXFP_FORMAT_F16] = mxfp_scan_words_avx512;
	products(table);
}
