/* SPDX-License-Identifier: MIT */
/*
 * What rows ask of the library, by names, on one thread: the one place that knows how its API looked. Commits before
 * mxfp/exec.h have threads in each options struct, and a product holds its matrices.
 */
#ifndef BENCH_COMPARE_API_H
#define BENCH_COMPARE_API_H

#include "side.h"

#include "mxfp.h"

#if __has_include("mxfp/exec.h")
#define API_HAS_EXEC 1
static const struct mxfp_exec api_exec = {.threads = 1};
#define API_ONE_THREAD .exec = &api_exec
#else
#define API_HAS_EXEC 0
#define API_ONE_THREAD .threads = 1
#endif

/* Rule of MX formats or recipe of NVFP4, and rounding, by name; NULL: rceil or te, rne. */
struct api_how {
	const char *rule, *round;
};

static inline const struct mxfp_format_info *api_info(const char *name)
{
	enum mxfp_format format;

	if (mxfp_format_from_name(name, &format) != MXFP_OK)
		return NULL;
#if API_HAS_EXEC
	return mxfp_format_get_info(format);
#else
	return mxfp_format_info(format);
#endif
}

static inline bool api_option(enum mxfp_option option, const char *name, int *value)
{
	return mxfp_option_from_name(option, name, value) == MXFP_OK;
}

/* Sets the options of a quantization to `info`'s format. */
static inline bool api_quantize_options(struct mxfp_quantize_options *options, const struct mxfp_format_info *info,
                                        struct api_how how)
{
	int rule = 0, round = 0;

	if (!api_option(info->tensor_scale ? MXFP_OPTION_RECIPE : MXFP_OPTION_RULE,
	                how.rule != NULL ? how.rule : info->tensor_scale ? "te" : "rceil", &rule) ||
	    !api_option(MXFP_OPTION_ROUND, how.round != NULL ? how.round : "rne", &round))
		return false;
	*options = (struct mxfp_quantize_options){.round = (enum mxfp_round)round, API_ONE_THREAD};
	if (info->tensor_scale)
		options->recipe = (enum mxfp_recipe)rule;
	else
		options->rule = (enum mxfp_rule)rule;
	return true;
}

static inline bool api_convert(void *dst, const char *dst_format, const void *src, const char *src_format, size_t n,
                               const char *round)
{
	int value = 0;

	if (round != NULL && !api_option(MXFP_OPTION_ROUND, round, &value))
		return false;
	const struct mxfp_convert_options options = {.round = (enum mxfp_round)value, API_ONE_THREAD};
	return mxfp_convert(dst, api_info(dst_format)->format, src, api_info(src_format)->format, n, &options) == MXFP_OK;
}

/* Allocates a matrix in blocks and quantizes numbers to it. */
static inline bool api_quantize(struct mxfp_blocks *blocks, const char *format, size_t rows, size_t cols,
                                const float *numbers, struct api_how how, const struct speed_host *host)
{
	const struct mxfp_format_info *info = api_info(format);
	struct mxfp_quantize_options options;
	struct mxfp_sizes size;

	if (info == NULL || !api_quantize_options(&options, info, how) ||
	    mxfp_blocks_size(info->format, rows, cols, &size) != MXFP_OK)
		return false;
	*blocks = (struct mxfp_blocks){.format = info->format, .rows = rows, .cols = cols};
	blocks->codes = host->allocate(size.codes_bytes);
	blocks->scales = host->allocate(size.scales_bytes);
	return blocks->codes != NULL && blocks->scales != NULL &&
	       mxfp_quantize(blocks, numbers, MXFP_FORMAT_F32, 0, &options) == MXFP_OK;
}

#ifdef MXFP_GEMM_H
static inline struct mxfp_matrix api_matrix(const struct mxfp_blocks *blocks)
{
#if API_HAS_EXEC
	return mxfp_blocks_matrix(blocks);
#else
	return (struct mxfp_matrix){
		.format = blocks->format, .rows = blocks->rows, .cols = blocks->cols, .data = blocks->codes,
		.stride = blocks->codes_stride, .scales = blocks->scales, .scales_stride = blocks->scales_stride,
		.tensor_scale = blocks->tensor_scale, .tensor_scale_divides = blocks->tensor_scale_divides,
	};
#endif
}
#endif

static inline bool api_dequantize(const struct mxfp_blocks *blocks, void *dst, enum mxfp_format format)
{
#if API_HAS_EXEC
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	return mxfp_dequantize(&matrix, dst, format, 0, &api_exec) == MXFP_OK;
#else
	const struct mxfp_dequantize_options options = {API_ONE_THREAD};
	return mxfp_dequantize(blocks, dst, format, 0, &options) == MXFP_OK;
#endif
}

static inline bool api_amax(const void *src, enum mxfp_format format, size_t n, float *amax)
{
#if API_HAS_EXEC
	return mxfp_amax(src, format, n, amax, &api_exec) == MXFP_OK;
#else
	const struct mxfp_amax_options options = {API_ONE_THREAD};
	return mxfp_amax(src, format, n, amax, &options) == MXFP_OK;
#endif
}

#ifdef MXFP_GEMM_H /* before it there are no products */
/* Prunes f32 numbers to the pattern: masks, and the numbers that are left. */
static inline bool api_prune(const struct mxfp_sparse *masks, float *pruned, const float *numbers)
{
#if API_HAS_EXEC
	return mxfp_sparse_prune(masks, pruned, 0, numbers, 0, &api_exec) == MXFP_OK;
#else
	const struct mxfp_sparse_options options = {API_ONE_THREAD};
	return mxfp_sparse_prune(masks, pruned, 0, numbers, 0, &options) == MXFP_OK;
#endif
}

static inline bool api_compress(const struct mxfp_sparse *sparse, const void *codes)
{
#if API_HAS_EXEC
	return mxfp_sparse_compress(sparse, codes, 0, &api_exec) == MXFP_OK;
#else
	const struct mxfp_sparse_options options = {API_ONE_THREAD};
	return mxfp_sparse_compress(sparse, codes, 0, &options) == MXFP_OK;
#endif
}

/* A product with packed W, ready to run. */
struct api_product {
	struct mxfp_gemm_options options;
	struct mxfp_quantize_options quantize;
	struct mxfp_matrix a;
#if API_HAS_EXEC
	struct mxfp_product product;
#else
	struct mxfp_gemm product;
#endif
	void *packed, *workspace;
	size_t packed_bytes, workspace_bytes;
};

/* Packs w for products with a, which is quantized to a_format in the call if that is not NULL, and finds the workspace. c has
   a->rows x w->rows numbers of f32. */
static inline bool api_product_make(struct api_product *p, const struct mxfp_matrix *a, const char *a_format,
                                    const struct mxfp_matrix *w, void *c, const struct speed_host *host)
{
	const struct mxfp_format_info *info = a_format != NULL ? api_info(a_format) : NULL;

	*p = (struct api_product){.options = {API_ONE_THREAD}, .a = *a};
	if (a_format != NULL && (info == NULL || !api_quantize_options(&p->quantize, info, (struct api_how){0})))
		return false;
	p->options.a_quantize = &p->quantize;
#if API_HAS_EXEC
	if (info != NULL)
		p->options.a_format = info->format;
	else if (a->scales != NULL)
		p->options.a_format = a->format;
	if (mxfp_pack_size(w, &p->options, &p->packed_bytes) != MXFP_OK)
		return false;
#else
	if (info != NULL)
		p->options.a_format = info->format;
	const enum mxfp_format multiplied = info != NULL ? info->format : a->format;
	if (mxfp_pack_size(w, multiplied, &p->options, &p->packed_bytes) != MXFP_OK)
		return false;
#endif
	p->packed = host->allocate(p->packed_bytes);
	if (p->packed == NULL)
		return false;
#if API_HAS_EXEC
	if (mxfp_pack(p->packed, p->packed_bytes, w, &p->options) != MXFP_OK)
		return false;
	p->product = (struct mxfp_product){.size = sizeof p->product, .a = &p->a, .n = w->rows};
#else
	if (mxfp_pack(p->packed, p->packed_bytes, w, multiplied, &p->options) != MXFP_OK)
		return false;
	p->product = (struct mxfp_gemm){.a = p->a, .w = {.rows = w->rows}};
#endif
	p->product.w_packed = p->packed;
	p->product.w_packed_bytes = p->packed_bytes;
	p->product.c = c;
	if (mxfp_gemm_workspace_size(&p->product, 1, &p->options, &p->workspace_bytes) != MXFP_OK)
		return false;
	p->workspace = host->allocate(p->workspace_bytes);
	return p->workspace != NULL;
}

static inline bool api_product_run(const struct api_product *p)
{
	return mxfp_gemm(&p->product, &p->options, p->workspace, p->workspace_bytes) == MXFP_OK;
}
#endif

#endif
