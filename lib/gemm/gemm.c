/* SPDX-License-Identifier: MIT */
/* mxfp_gemm(), mxfp_gemm_grouped(): check everything, then run. */
#include "run.h"

enum mxfp_status mxfp_gemm_workspace_size_with(const struct mxfp_kernels *kernels, const struct mxfp_gemm *products,
                                               size_t n, const struct mxfp_gemm_options *options, size_t *bytes)
{
	struct mxfp_gemm_call call = {.kernels = kernels, .products = products, .n = n, .options = options};
	struct mxfp_gemm_layout layout = {0};
	struct mxfp_gemm_plan p;
	size_t total;

	if ((n != 0 && products == NULL) || bytes == NULL)
		return MXFP_ERR_NULL;
	enum mxfp_status status = mxfp_gemm_check_options(&call);
	for (size_t i = 0; i < n && status == MXFP_OK; i++) {
		status = mxfp_gemm_plan(&p, &call, i);
		if (status == MXFP_OK)
			status = mxfp_gemm_layout_add(&layout, &call, &p);
	}
	if (status == MXFP_OK)
		status = mxfp_gemm_layout_end(&layout, n, mxfp_runner_width(&call.runner), &total);
	if (status == MXFP_OK)
		*bytes = total;
	return status;
}

/* Everything that can be refused is refused here, before a byte is written. *last becomes the plan of the last. */
static enum mxfp_status check(const struct mxfp_gemm_call *call, struct mxfp_gemm_span workspace,
                              struct mxfp_gemm_layout *layout, struct mxfp_gemm_plan *last)
{
	const struct mxfp_gemm_results results = mxfp_gemm_results(call);
	bool doubt = !results.ascend;
	size_t total;

	for (size_t i = 0; i < call->n; i++) {
		enum mxfp_status status = mxfp_gemm_plan(last, call, i);

		if (status == MXFP_OK)
			status = mxfp_gemm_check_memory(last, call, workspace, &results, &doubt);
		if (status == MXFP_OK)
			status = mxfp_gemm_check_finite(last, call);
		if (status == MXFP_OK)
			status = mxfp_gemm_layout_add(layout, call, last);
		if (status != MXFP_OK)
			return status;
	}
	enum mxfp_status status = mxfp_gemm_layout_end(layout, call->n, call->workers, &total);
	if (status != MXFP_OK)
		return status;
	if (total != 0 && workspace.at == NULL)
		return MXFP_ERR_NULL;
	if (workspace.bytes < total)
		return MXFP_ERR_SIZE;
	return doubt && mxfp_gemm_some_overlap(call) ? MXFP_ERR_OVERLAP : MXFP_OK;
}

enum mxfp_status mxfp_gemm_grouped_with(const struct mxfp_kernels *kernels, const struct mxfp_gemm *products, size_t n,
                                        const struct mxfp_gemm_options *options, void *workspace, size_t bytes)
{
	struct mxfp_gemm_call call = {.kernels = kernels, .products = products, .n = n, .options = options};
	struct mxfp_gemm_layout layout = {0};
	struct mxfp_gemm_plan last;

	if (n != 0 && products == NULL)
		return MXFP_ERR_NULL;
	enum mxfp_status status = mxfp_gemm_check_options(&call);
	if (status != MXFP_OK)
		return status;
	call.workers = mxfp_runner_width(&call.runner);
	status = check(&call, (struct mxfp_gemm_span){workspace, workspace != NULL ? bytes : 0}, &layout, &last);
	if (status != MXFP_OK || layout.shared == 0)
		return status;
	/* While they were checked there was no memory for the plans; that of the last, often the only one, is still there. */
	size_t unaligned = (uintptr_t)workspace % MXFP_GEMM_ALIGN;
	struct mxfp_gemm_plan *plans =
		(void *)((uint8_t *)workspace + (unaligned != 0 ? MXFP_GEMM_ALIGN - unaligned : 0));
	for (size_t i = 0; i + 1 < n; i++)
		(void)mxfp_gemm_plan(&plans[i], &call, i);
	plans[n - 1] = last;
	mxfp_gemm_run(&call, &layout, plans);
	return MXFP_OK;
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
