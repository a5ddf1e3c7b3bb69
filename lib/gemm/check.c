/* SPDX-License-Identifier: MIT */
/* Checks of the memory that products read and write, for gemm.c and weights.c, before a byte is written. */
#include "plan.h"
#include "scan.h"
#include "sparse.h"

enum { MAX_INPUTS = 7 };

static size_t inputs_of(struct mxfp_gemm_span spans[MAX_INPUTS], const struct mxfp_gemm_plan *p)
{
	size_t n = mxfp_gemm_matrix_spans(spans, &p->a);

	if (p->w_panels != NULL)
		spans[n++] = (struct mxfp_gemm_span){p->w_panels - MXFP_GEMM_HEADER_BYTES, p->w_packed_bytes};
	else
		n += mxfp_gemm_matrix_spans(spans + n, &p->w);
	if (p->bias != NULL)
		spans[n++] = (struct mxfp_gemm_span){p->bias, p->n * sizeof *p->bias};
	return n;
}

/* Returns the memory of C of a product that may have no plan yet; empty if its plan will be refused anyway. */
static struct mxfp_gemm_span result_of(const struct mxfp_gemm_call *call, size_t i)
{
	struct mxfp_product copy;
	const struct mxfp_product *p = mxfp_product_at(call->products, i, &copy);
	size_t width = mxfp_format_get_info(call->options->c_format)->storage_bytes, n, row, stride, bytes;

	if (p == NULL || p->a == NULL || (p->w_packed == NULL && p->w == NULL))
		return (struct mxfp_gemm_span){NULL, 0};
	n = p->w_packed != NULL ? p->n : p->w->rows;
	if (n == 0 || !mxfp_multiply(n, width, &row) ||
	    !mxfp_multiply(p->c_stride != 0 ? p->c_stride : n, width, &stride) ||
	    !mxfp_span(p->a->rows, row, stride, &bytes))
		bytes = 0;
	return (struct mxfp_gemm_span){p->c, bytes};
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
	size_t n = inputs_of(inputs, p);
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

size_t mxfp_gemm_find_overlap(const struct mxfp_gemm_call *call)
{
	struct mxfp_gemm_span spans[MAX_INPUTS + 1];
	struct mxfp_gemm_plan p;

	for (size_t i = 0; i < call->n; i++) {
		(void)mxfp_gemm_plan(&p, call, i); /* cannot fail: it succeeded before */
		size_t n = inputs_of(spans, &p);

		spans[n++] = result_of(call, i);
		for (size_t j = 0; j < call->n; j++)
			for (size_t s = 0; s < n - (i == j); s++)
				if (overlap(result_of(call, j), spans[s]))
					return j;
	}
	return call->n;
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

/* Returns the index of the first NaN or Inf of a transposed A along A's rows; each stored row is a column of A. */
static uint64_t first_of_transposed(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call)
{
	struct mxfp_quantize_job row = p->quantize;
	uint64_t first = UINT64_MAX, m;
	uint32_t amax;

	row.rows = 1;
	row.first_index = 0;
	for (size_t k = 0; k < p->k; k++) {
		row.src = (const uint8_t *)p->a.data + k * p->a.stride * mxfp_stride_unit(p->a.format);
		mxfp_scan(&row, &call->runner, &amax, &m);
		if (m != UINT64_MAX && m * p->k + k < first)
			first = m * p->k + k;
	}
	return p->quantize.first_index + first;
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
		*call->quantize->first_non_finite = p->a.transposed ? first_of_transposed(p, call) : first;
	return MXFP_ERR_NON_FINITE;
}
