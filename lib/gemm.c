/* SPDX-License-Identifier: MIT */
/* mxfp_gemm(), mxfp_gemm_grouped(), mxfp_pack(): check everything, then run. */
#include "gemm.h"

#include "scan.h"

static const struct mxfp_gemm_options defaults;

/* A call whose options and products, but not their memory, have been checked. */
static enum mxfp_status check(struct mxfp_gemm_call *call, struct mxfp_gemm_layout *layout)
{
	struct mxfp_gemm_product p;

	if (call->options == NULL)
		call->options = &defaults;
	enum mxfp_status status = mxfp_gemm_check_call(call);
	if (status != MXFP_OK)
		return status;
	call->workers = mxfp_runner_width(&call->runner);
	for (size_t i = 0; i < call->n && status == MXFP_OK; i++)
		status = mxfp_gemm_resolve(&p, call, i);
	return status == MXFP_OK ? mxfp_gemm_layout(layout, call) : status;
}

/* The non-finite policy `error`, for all products before any is computed. */
static enum mxfp_status check_finite(const struct mxfp_gemm_call *call)
{
	struct mxfp_gemm_product p;
	uint64_t first;
	uint32_t amax;

	if (call->quantize->non_finite != MXFP_NON_FINITE_ERROR)
		return MXFP_OK;
	for (size_t i = 0; i < call->n; i++) {
		(void)mxfp_gemm_resolve(&p, call, i);
		if (p.a_format == p.a.format)
			continue;
		struct mxfp_quantize_job job = mxfp_gemm_scan_job(&p, call);
		mxfp_scan(&job, &call->runner, &amax, &first);
		if (first == UINT64_MAX)
			continue;
		if (call->quantize->first_non_finite != NULL)
			*call->quantize->first_non_finite = first;
		return MXFP_ERR_NON_FINITE;
	}
	return MXFP_OK;
}

enum mxfp_status mxfp_gemm_workspace_size_with(const struct mxfp_kernels *kernels, const struct mxfp_gemm *products,
                                               size_t n, const struct mxfp_gemm_options *options, size_t *bytes)
{
	struct mxfp_gemm_call call = {.kernels = kernels, .products = products, .n = n, .options = options};
	struct mxfp_gemm_layout layout;
	enum mxfp_status status = check(&call, &layout);

	if (status == MXFP_OK && bytes == NULL)
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK)
		*bytes = layout.total;
	return status;
}

enum mxfp_status mxfp_gemm_grouped_with(const struct mxfp_kernels *kernels, const struct mxfp_gemm *products, size_t n,
                                        const struct mxfp_gemm_options *options, void *workspace, size_t bytes)
{
	struct mxfp_gemm_call call = {.kernels = kernels, .products = products, .n = n, .options = options};
	struct mxfp_gemm_layout layout;
	enum mxfp_status status = check(&call, &layout);

	if (status == MXFP_OK && layout.total != 0 && workspace == NULL)
		status = MXFP_ERR_NULL;
	if (status == MXFP_OK && bytes < layout.total)
		status = MXFP_ERR_SIZE;
	if (status == MXFP_OK)
		status = mxfp_gemm_check_memory(&call, workspace, layout.total);
	if (status == MXFP_OK)
		status = check_finite(&call);
	if (status == MXFP_OK)
		mxfp_gemm_run(&call, &layout, workspace);
	return status;
}

enum mxfp_status mxfp_gemm_workspace_size(const struct mxfp_gemm *products, size_t n,
                                          const struct mxfp_gemm_options *options, size_t *bytes)
{
	return mxfp_gemm_workspace_size_with(NULL, products, n, options, bytes);
}

enum mxfp_status mxfp_gemm_grouped(const struct mxfp_gemm *products, size_t n, const struct mxfp_gemm_options *options,
                                   void *workspace, size_t workspace_bytes)
{
	return mxfp_gemm_grouped_with(NULL, products, n, options, workspace, workspace_bytes);
}

enum mxfp_status mxfp_gemm(const struct mxfp_gemm *product, const struct mxfp_gemm_options *options, void *workspace,
                           size_t workspace_bytes)
{
	return mxfp_gemm_grouped(product, 1, options, workspace, workspace_bytes);
}

enum mxfp_status mxfp_pack_size(const struct mxfp_matrix *w, enum mxfp_format a_format,
                                const struct mxfp_gemm_options *options, size_t *bytes)
{
	return mxfp_pack_size_with(NULL, w, a_format, options, bytes);
}

enum mxfp_status mxfp_pack(void *packed, size_t bytes, const struct mxfp_matrix *w, enum mxfp_format a_format,
                           const struct mxfp_gemm_options *options)
{
	return mxfp_pack_with(NULL, packed, bytes, w, a_format, options);
}
