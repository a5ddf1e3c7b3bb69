/* SPDX-License-Identifier: MIT */
/* The slots of tier avx512, and nothing else. */
#include "config.h"

#include "tier.h"

#include "body/gemm_int16.h"
#include "body/slots.h"

static mxfp_convert_kernel *converter(enum mxfp_format to, enum mxfp_format from)
{
	if (to == MXFP_FORMAT_F32)
		return mxfp_format_info(from)->bits <= 8 ? TIER(decode) : TIER(decode_wide);
	if (from == MXFP_FORMAT_F32)
		return mxfp_format_info(to)->bits <= 8 ? TIER(encode) : TIER(encode_wide);
	return TIER(relay);
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
				table->gemm[MXFP_ACC_CHAIN][a][w] = &TIER(gemm_chain);
			if (is_block(a) && is_block(w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_exact);
			if (int16_pair((enum mxfp_format)a, (enum mxfp_format)w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_int16);
			if ((is_fp8(a) && is_narrow(w)) || (is_narrow(a) && is_fp8(w)))
				table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_wide);
			if (fits_int8(a) && fits_int8(w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_int8);
			else if (goes_with_e4m3(a) && goes_with_e4m3(w))
				table->gemm[MXFP_ACC_EXACT][a][w] = &TIER(gemm_e4m3);
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
				table->gemm_sparse[i][MXFP_ACC_CHAIN][a][w] = &TIER(gemm_sparse_chain);
		}
	for (int a = 0; a < MXFP_N_FORMATS; a++)
		for (int i = 0; i < MXFP_N_SPARSE_KERNELS; i++)
			if (fits_int8(a) && a != MXFP_FORMAT_NVFP4)
				table->gemm_sparse[i][MXFP_ACC_EXACT][a][MXFP_FORMAT_MXFP4] = &TIER(gemm_sparse_int8);
}

void TIER(kernels)(struct mxfp_kernels *table)
{
	table->gemm_finish = TIER(gemm_finish);
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK) {
			table->quantize[f] = info->tensor_scale ? TIER(quantize_nvfp4_fast)
			                                        : TIER(quantize_mx_groups);
			table->dequantize[f] = TIER(dequantize);
		}
		table->compress[f] = TIER(compress);
		table->expand[f] = TIER(expand);
		if (table->scan[f] != NULL)
			table->scan[f] = TIER(scan);
		for (int from = 0; from < MXFP_N_FORMATS; from++)
			if (table->convert[f][from] != NULL)
				table->convert[f][from] = converter((enum mxfp_format)f, (enum mxfp_format)from);
	}
	sparse_products(table);
	table->scan[MXFP_FORMAT_F32] = TIER(scan_words);
	table->scan[MXFP_FORMAT_BF16] = TIER(scan_words);
	table->scan[MXFP_FORMAT_F16] = TIER(scan_words);
	products(table);
}
