/* SPDX-License-Identifier: MIT */
/* mxfp_gemm(), mxfp_gemm_grouped(): check everything, then run. */
#include "run.h"

static enum mxfp_status fail(size_t *failed, size_t product, enum mxfp_status status)
{
	if (failed != NULL)
		*failed = product;
	return status;
}

enum mxfp_status mxfp_gemm_workspace_size(size_t *bytes, const struct mxfp_product *products, size_t n,
                                          const struct mxfp_gemm_options *options, const struct mxfp_exec *exec)
{
	struct mxfp_gemm_call call = {.products = products, .n = n, .options = options};
	struct mxfp_gemm_layout layout = {0};
	struct mxfp_gemm_plan p;
	size_t workers;

	enum mxfp_status status = bytes != NULL ? mxfp_gemm_check_options(&call, exec) : MXFP_ERR_NULL;
	for (size_t i = 0; i < n && status == MXFP_OK; i++) {
		status = mxfp_gemm_plan(&p, &call, i);
		if (status == MXFP_OK)
			status = mxfp_gemm_layout_add(&layout, &call, &p);
	}
	if (status == MXFP_OK)
		status = mxfp_gemm_layout_end(&layout, n);
	if (status != MXFP_OK)
		return status;
	if (!mxfp_multiply(layout.worker, mxfp_runner_width(&call.runner), &workers) ||
	    workers > PTRDIFF_MAX - layout.shared)
		return MXFP_ERR_SIZE;
	*bytes = layout.shared + workers;
	return MXFP_OK;
}

/* Refuses whatever can be refused, before a byte is written. *last becomes the plan of the last product. */
static enum mxfp_status check(size_t *failed, const struct mxfp_gemm_call *call, struct mxfp_region workspace,
                              struct mxfp_gemm_layout *layout, struct mxfp_gemm_plan *last)
{
	const struct mxfp_gemm_results results = mxfp_gemm_results(call);
	bool doubt = !results.ascend;

	for (size_t i = 0; i < call->n; i++) {
		enum mxfp_status status = mxfp_gemm_plan(last, call, i);

		if (status == MXFP_OK)
			status = mxfp_gemm_check_memory(last, call, workspace, &results, &doubt);
		if (status == MXFP_OK)
			status = mxfp_gemm_check_finite(last, call);
		if (status == MXFP_OK)
			status = mxfp_gemm_layout_add(layout, call, last);
		if (status != MXFP_OK)
			return fail(failed, i, status);
	}
	enum mxfp_status status = mxfp_gemm_layout_end(layout, call->n);
	if (status != MXFP_OK || layout->shared == 0)
		return status;
	if (workspace.at == NULL)
		return MXFP_ERR_NULL;
	if (workspace.bytes < layout->shared + layout->worker)
		return MXFP_ERR_WORKSPACE;
	size_t overlap = doubt ? mxfp_gemm_find_overlap(call) : call->n;
	return overlap == call->n ? MXFP_OK : fail(failed, overlap, MXFP_ERR_OVERLAP);
}

enum mxfp_status mxfp_gemm_grouped(size_t *failed, const struct mxfp_product *products, size_t n,
                                   const struct mxfp_gemm_options *options, void *workspace, size_t workspace_bytes,
                                   const struct mxfp_exec *exec)
{
	struct mxfp_gemm_call call = {.products = products, .n = n, .options = options};
	struct mxfp_gemm_layout layout = {0};
	struct mxfp_gemm_plan last;

	enum mxfp_status status = mxfp_gemm_check_options(&call, exec);
	if (status != MXFP_OK)
		return status;
	status = check(failed, &call, mxfp_bytes(workspace, workspace != NULL ? workspace_bytes : 0), &layout, &last);
	if (status != MXFP_OK)
		return status;
	if (layout.shared == 0) { /* all results are empty, but blocks have a tensor scale even so */
		for (size_t i = 0; i < n; i++) {
			(void)mxfp_gemm_plan(&last, &call, i);
			mxfp_sink_start(&last.c);
		}
		return MXFP_OK;
	}
	call.fp_state = mxfp_fp_state_get();
	call.workers = mxfp_least(mxfp_runner_width(&call.runner), (workspace_bytes - layout.shared) / layout.worker);
	/* The check had no memory to keep plans in, so they are made again; the last one, often the only one, was kept. */
	size_t unaligned = (uintptr_t)workspace % MXFP_GEMM_ALIGN;
	struct mxfp_gemm_plan *plans =
		(void *)((uint8_t *)workspace + (unaligned != 0 ? MXFP_GEMM_ALIGN - unaligned : 0));
	for (size_t i = 0; i + 1 < n; i++)
		(void)mxfp_gemm_plan(&plans[i], &call, i);
	plans[n - 1] = last;
	for (size_t i = 0; i < n; i++)
		mxfp_sink_start(&plans[i].c);
	mxfp_gemm_run(&call, &layout, plans);
	return MXFP_OK;
}

enum mxfp_status mxfp_gemm(const struct mxfp_product *product, const struct mxfp_gemm_options *options, void *workspace,
                           size_t workspace_bytes, const struct mxfp_exec *exec)
{
	return mxfp_gemm_grouped(NULL, product, 1, options, workspace, workspace_bytes, exec);
}
