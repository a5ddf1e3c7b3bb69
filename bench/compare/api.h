/* SPDX-License-Identifier: MIT */
/* What rows ask of the library, by names, on one thread and of rows without gaps: where its API has another form in another
   commit, this file has, too. */
#ifndef BENCH_COMPARE_API_H
#define BENCH_COMPARE_API_H

#include "side.h"

#include "mxfp.h"

static const struct mxfp_exec api_exec = {.size = sizeof api_exec, .threads = 1};

/* Rule of MX formats or recipe of NVFP4, and rounding, by name; NULL: rceil or te, rne. */
struct api_how {
	const char *rule, *round;
};

static inline const struct mxfp_format_info *api_info(const char *name)
{
	enum mxfp_format format;

	return mxfp_format_from_name(&format, name) == MXFP_OK ? mxfp_format_get_info(format) : NULL;
}

static inline bool api_option(enum mxfp_option option, const char *name, int *value)
{
	return mxfp_option_from_name(value, option, name) == MXFP_OK;
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
	*options = (struct mxfp_quantize_options){.size = sizeof *options, .round = (enum mxfp_round)round};
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
	const struct mxfp_convert_options options = {.size = sizeof options, .round = (enum mxfp_round)value};
	return mxfp_convert_array(dst, api_info(dst_format)->format, src, api_info(src_format)->format, n, &options, &api_exec) ==
	       MXFP_OK;
}

static inline bool api_quantize_to(struct mxfp_blocks *blocks, enum mxfp_format format, const void *src,
                                   const struct mxfp_quantize_options *options)
{
	const struct mxfp_result result = mxfp_to_blocks(blocks);
	const struct mxfp_matrix matrix = mxfp_numbers(format, blocks->rows, blocks->cols, src);

	return mxfp_quantize(&result, &matrix, options, &api_exec) == MXFP_OK;
}

/* Allocates a matrix in blocks and quantizes numbers to it. */
static inline bool api_quantize(struct mxfp_blocks *blocks, const char *format, size_t rows, size_t cols,
                                const float *numbers, struct api_how how, const struct speed_host *host)
{
	const struct mxfp_format_info *info = api_info(format);
	struct mxfp_quantize_options options;
	struct mxfp_sizes size;

	if (info == NULL || !api_quantize_options(&options, info, how) ||
	    mxfp_blocks_size(&size, info->format, rows, cols) != MXFP_OK)
		return false;
	*blocks = mxfp_blocks_at(info->format, rows, cols, host->allocate(size.codes_bytes), host->allocate(size.scales_bytes));
	return blocks->codes != NULL && blocks->scales != NULL && api_quantize_to(blocks, MXFP_FORMAT_F32, numbers, &options);
}

static inline struct mxfp_matrix api_matrix(const struct mxfp_blocks *blocks)
{
	return mxfp_blocks_matrix(blocks);
}

static inline bool api_dequantize(const struct mxfp_blocks *blocks, void *dst, enum mxfp_format format)
{
	const struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	const struct mxfp_result result = mxfp_to_numbers(format, dst);

	return mxfp_dequantize(&result, &matrix, &api_exec) == MXFP_OK;
}

static inline bool api_amax(const void *src, enum mxfp_format format, size_t n, float *amax)
{
	const struct mxfp_matrix matrix = mxfp_numbers(format, 1, n, src);

	return mxfp_amax(amax, &matrix, &api_exec) == MXFP_OK;
}

/* Prunes f32 numbers to the pattern: masks, and the numbers that are left. */
static inline bool api_prune(const struct mxfp_sparse *masks, float *pruned, const float *numbers)
{
	const struct mxfp_matrix matrix = mxfp_numbers(MXFP_FORMAT_F32, masks->rows, masks->cols, numbers);
	const struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, pruned);

	return mxfp_sparse_prune(masks, &result, &matrix, &api_exec) == MXFP_OK;
}

static inline bool api_compress(const struct mxfp_sparse *sparse, const void *codes)
{
	return mxfp_sparse_compress(sparse, codes, 0, &api_exec) == MXFP_OK;
}

/* A product with packed W, ready to run. */
struct api_product {
	struct mxfp_gemm_options options;
	struct mxfp_quantize_options quantize;
	struct mxfp_matrix a;
	struct mxfp_result c;
	struct mxfp_product product;
	void *packed, *workspace;
	size_t packed_bytes, workspace_bytes;
};

/* Packs w for products with a, which is quantized to a_format in the call if that is not NULL, and finds the workspace. c has
   a->rows x w->rows numbers of f32. */
static inline bool api_product_make(struct api_product *p, const struct mxfp_matrix *a, const char *a_format,
                                    const struct mxfp_matrix *w, void *c, const struct speed_host *host)
{
	const struct mxfp_format_info *info = a_format != NULL ? api_info(a_format) : NULL;

	*p = (struct api_product){
		.options = {.size = sizeof p->options},
		.quantize = {.size = sizeof p->quantize},
		.a = *a,
		.c = mxfp_to_numbers(MXFP_FORMAT_F32, c),
	};
	if (a_format != NULL && (info == NULL || !api_quantize_options(&p->quantize, info, (struct api_how){0})))
		return false;
	p->options.a_quantize = &p->quantize;
	if (info != NULL)
		p->options.a_format = info->format;
	else if (a->scales != NULL)
		p->options.a_format = a->format;
	if (mxfp_pack_size(&p->packed_bytes, w, &p->options, &api_exec) != MXFP_OK)
		return false;
	p->packed = host->allocate(p->packed_bytes);
	if (p->packed == NULL || mxfp_pack(p->packed, p->packed_bytes, w, &p->options, &api_exec) != MXFP_OK)
		return false;
	p->product = (struct mxfp_product){
		.size = sizeof p->product,
		.c = &p->c,
		.a = &p->a,
		.w_packed = p->packed,
		.w_packed_bytes = p->packed_bytes,
		.n = w->rows,
	};
	if (mxfp_gemm_workspace_size(&p->workspace_bytes, &p->product, 1, &p->options, &api_exec) != MXFP_OK)
		return false;
	p->workspace = host->allocate(p->workspace_bytes);
	return p->workspace != NULL;
}

static inline bool api_product_run(const struct api_product *p)
{
	return mxfp_gemm(&p->product, &p->options, p->workspace, p->workspace_bytes, &api_exec) == MXFP_OK;
}

#endif
