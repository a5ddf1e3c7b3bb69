/* SPDX-License-Identifier: MIT */
/* The memory that products read and write is looked at here, before a byte of it is written. */
#include "plan.h"
#include "scan.h"
#include "sparse.h"

enum { MAX_INPUTS = 7 };

static size_t inputs_of(struct mxfp_gemm_span spans[MAX_INPUTS], const struct mxfp_gemm_plan *p,
                        const struct mxfp_gemm_call *call)
{
	const struct mxfp_gemm *product = &call->products[p->index];
	size_t n = mxfp_gemm_matrix_spans(spans, &p->a);

	if (p->w_panels != NULL)
		spans[n++] = (struct mxfp_gemm_span){product->w_packed, product->w_packed_bytes};
	else
		n += mxfp_gemm_matrix_spans(spans + n, &p->w);
	if (p->bias != NULL)
		spans[n++] = (struct mxfp_gemm_span){p->bias, p->n * sizeof *p->bias};
	return n;
}

/* C, of a product that need not have a plan: empty where its plan is going to be refused. */
static struct mxfp_gemm_span result_of(const struct mxfp_gemm_call *call, size_t i)
{
	const struct mxfp_gemm *product = &call->products[i];
	size_t n = product->w_packed != NULL ? mxfp_gemm_packed_n(product) : product->w.rows;
	size_t width = mxfp_format_info(call->options->c_format)->storage_bytes, row, stride, bytes;

	if (n == 0 || product->a.rows == 0 || !mxfp_multiply(n, width, &row) ||
	    !mxfp_multiply(product->c_stride != 0 ? product->c_stride : n, width, &stride) ||
	    !mxfp_span(product->a.rows, row, stride, &bytes))
		bytes = 0;
	return (struct mxfp_gemm_span){product->c, bytes};
}

static bool overlap(struct mxfp_gemm_span a, struct mxfp_gemm_span b)
{
	return mxfp_overlap(a.at, a.bytes, b.at, b.bytes);
}

struct mxfp_gemm_results mxfp_gemm_results(const struct mxfp_gemm_call *call)
{
	struct mxfp_gemm_results r = {.ascend = true};

	for (size_t i = 0; i < call->n; i++) {
		struct mxfp_gemm_span result = result_of(call, i);
		uintptr_t first = (uintptr_t)result.at, end = first + result.bytes;

		if (result.bytes == 0)
			continue;
		r.ascend = r.ascend && (r.end == 0 || first >= r.end);
		r.first = r.end == 0 || first < r.first ? first : r.first;
		r.end = end > r.end ? end : r.end;
	}
	return r;
}

static bool is_wrong(const struct mxfp_matrix *w)
{
	return mxfp_is_sparse(w) && !mxfp_masks_valid(w->sparsity, w->rows, w->cols, w->masks, w->masks_stride);
}

enum mxfp_status mxfp_gemm_check_memory(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        struct mxfp_gemm_span workspace, const struct mxfp_gemm_results *results,
                                        bool *doubt)
{
	struct mxfp_gemm_span inputs[MAX_INPUTS], result = result_of(call, p->index);
	size_t n = inputs_of(inputs, p, call);
	bool overlaps = overlap(workspace, result);

	if (result.bytes != 0 && result.at == NULL)
		return MXFP_ERR_NULL;
	for (size_t i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)inputs[i].at;

		if (inputs[i].bytes == 0)
			continue;
		if (result.bytes != 0 && inputs[i].at == NULL)
			return MXFP_ERR_NULL;
		overlaps |= overlap(workspace, inputs[i]) || overlap(result, inputs[i]);
		*doubt |= at < results->end && at + inputs[i].bytes > results->first;
	}
	if (overlaps)
		return MXFP_ERR_OVERLAP;
	return p->w_panels == NULL && result.bytes != 0 && is_wrong(&p->w) ? MXFP_ERR_MASK : MXFP_OK;
}

bool mxfp_gemm_some_overlap(const struct mxfp_gemm_call *call)
{
	struct mxfp_gemm_span spans[MAX_INPUTS + 1];
	struct mxfp_gemm_plan p;

	for (size_t i = 0; i < call->n; i++) {
		(void)mxfp_gemm_plan(&p, call, i); /* it was checked before */
		size_t n = inputs_of(spans, &p, call);

		spans[n++] = result_of(call, i);
		for (size_t j = 0; j < call->n; j++)
			for (size_t s = 0; s < n - (i == j); s++)
				if (overlap(result_of(call, j), spans[s]))
					return true;
	}
	return false;
}

enum mxfp_status mxfp_gemm_check_weights(const struct mxfp_matrix *w, struct mxfp_gemm_span packed)
{
	struct mxfp_gemm_span inputs[MAX_INPUTS];
	size_t n = mxfp_gemm_matrix_spans(inputs, w);

	for (size_t i = 0; i < n; i++) {
		if (inputs[i].bytes != 0 && inputs[i].at == NULL)
			return MXFP_ERR_NULL;
		if (overlap(inputs[i], packed))
			return MXFP_ERR_OVERLAP;
	}
	return is_wrong(w) ? MXFP_ERR_MASK : MXFP_OK;
}

enum mxfp_status mxfp_gemm_check_finite(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call)
{
	uint64_t first;
	uint32_t amax;

	if (call->quantize->non_finite != MXFP_NON_FINITE_ERROR || p->a_format == p->a.format)
		return MXFP_OK;
	mxfp_scan(&p->quantize, &call->runner, &amax, &first);
	if (first == UINT64_MAX)
		return MXFP_OK;
	if (call->quantize->first_non_finite != NULL)
		*call->quantize->first_non_finite = first;
	return MXFP_ERR_NON_FINITE;
}
