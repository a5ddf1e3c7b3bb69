/* SPDX-License-Identifier: MIT */
/* Checks of the memory that products read and write, for gemm.c and weights.c, before a byte is written. */
#include "plan.h"
#include "product.h"
#include "sized.h"
#include "scan.h"
#include "sparse.h"

enum { MAX_INPUTS = 9 };

static size_t inputs_of(struct mxfp_region regions[MAX_INPUTS], const struct mxfp_gemm_plan *p)
{
	size_t n = mxfp_gemm_matrix_regions(regions, &p->a);

	if (p->w_panels != NULL)
		regions[n++] = mxfp_bytes(p->w_panels - MXFP_GEMM_HEADER_BYTES, p->w_packed_bytes);
	else
		n += mxfp_gemm_matrix_regions(regions + n, &p->w);
	if (p->bias != NULL)
		regions[n++] = mxfp_bytes(p->bias, p->n * sizeof *p->bias);
	if (!mxfp_gemm_in_place(p, &p->gate))
		regions[n++] = p->gate.memory;
	if (!mxfp_gemm_in_place(p, &p->residual))
		regions[n++] = p->residual.memory;
	return n;
}

/* The region of rows, or of nothing if they cannot be. */
static struct mxfp_region region_of(const void *at, size_t rows, size_t row_bytes, size_t stride)
{
	struct mxfp_region region;

	if (row_bytes == 0 || !mxfp_region(&region, at, rows, row_bytes, stride != 0 ? stride : row_bytes))
		return mxfp_bytes(at, 0);
	return region;
}

/* Fills in the numbers of a result of m x n. */
static void numbers_of(struct mxfp_region regions[MXFP_GEMM_RESULTS], const struct mxfp_result *c, size_t m, size_t n)
{
	size_t row, stride;

	if (c->data == NULL || !mxfp_is_row_format(c->format))
		return;
	const size_t width = mxfp_format_get_info(c->format)->storage_bytes;
	if (mxfp_multiply(n, width, &row) && mxfp_multiply(c->stride, width, &stride))
		regions[MXFP_GEMM_C] = region_of(c->data, m, row, stride);
}

static void blocks_of(struct mxfp_region regions[MXFP_GEMM_RESULTS], const struct mxfp_blocks *blocks)
{
	struct mxfp_blocks copy;
	const struct mxfp_blocks *b = MXFP_SIZED(blocks, &copy);
	struct mxfp_sizes size;

	if (blocks == NULL || b == NULL || mxfp_blocks_size(&size, b->format, b->rows, b->cols) != MXFP_OK)
		return;
	regions[MXFP_GEMM_CODES] = region_of(b->codes, b->rows, size.codes_row_bytes, b->codes_stride);
	regions[MXFP_GEMM_SCALES] = region_of(b->scales, b->rows, size.scales_row_bytes, b->scales_stride);
}

/* Fills in the memory that a product writes, which may have no plan yet; empty if its plan will be refused anyway. */
static void results_of(struct mxfp_region regions[MXFP_GEMM_RESULTS], const struct mxfp_gemm_call *call, size_t i)
{
	struct mxfp_product copy;
	struct mxfp_result c_copy;
	const struct mxfp_product *p = mxfp_product_at(call->products, i, &copy);

	for (int kind = 0; kind < MXFP_GEMM_RESULTS; kind++)
		regions[kind] = mxfp_bytes(NULL, 0);
	if (p == NULL || p->c == NULL || p->a == NULL || (p->w_packed == NULL && p->w == NULL))
		return;
	const struct mxfp_result *c = MXFP_SIZED(p->c, &c_copy);
	if (c == NULL)
		return;
	numbers_of(regions, c, p->a->rows, p->w_packed != NULL ? p->n : p->w->rows);
	blocks_of(regions, c->blocks);
}

struct mxfp_gemm_results mxfp_gemm_results(const struct mxfp_gemm_call *call)
{
	struct mxfp_region regions[MXFP_GEMM_RESULTS];
	struct mxfp_gemm_results r = {.ascend = true};

	for (size_t i = 0; i < call->n; i++) {
		results_of(regions, call, i);
		for (int kind = 0; kind < MXFP_GEMM_RESULTS; kind++) {
			uintptr_t first = (uintptr_t)regions[kind].at, end = first + regions[kind].bytes;

			if (regions[kind].bytes == 0)
				continue;
			r.ascend = r.ascend && (r.end[kind] == 0 || first >= r.end[kind]);
			r.first[kind] = r.end[kind] == 0 || first < r.first[kind] ? first : r.first[kind];
			r.end[kind] = end > r.end[kind] ? end : r.end[kind];
		}
	}
	for (int kind = 0; kind < MXFP_GEMM_RESULTS; kind++)
		for (int other = 0; other < kind; other++)
			r.ascend = r.ascend && (r.first[kind] >= r.end[other] || r.first[other] >= r.end[kind]);
	return r;
}

static bool may_overlap(const struct mxfp_gemm_results *results, struct mxfp_region input)
{
	for (int kind = 0; kind < MXFP_GEMM_RESULTS; kind++)
		if ((uintptr_t)input.at < results->end[kind] && (uintptr_t)input.at + input.bytes > results->first[kind])
			return true;
	return false;
}

static bool is_wrong(const struct mxfp_matrix *w)
{
	return mxfp_is_sparse(w) && !mxfp_masks_valid(w->sparsity, w->rows, w->cols, w->masks, w->masks_stride);
}

enum mxfp_status mxfp_gemm_check_memory(const struct mxfp_gemm_plan *p, const struct mxfp_gemm_call *call,
                                        struct mxfp_region workspace, const struct mxfp_gemm_results *results,
                                        bool *doubt)
{
	struct mxfp_region inputs[MAX_INPUTS], own[MXFP_GEMM_RESULTS];
	size_t n = inputs_of(inputs, p);
	bool overlaps = false, empty = p->m == 0 || p->n == 0;

	if (!empty && p->c.data.data == NULL && (p->c.blocks == NULL || call->options->accumulate))
		return MXFP_ERR_NULL;
	results_of(own, call, p->index);
	for (size_t i = 0; i < MXFP_GEMM_RESULTS; i++) {
		if (own[i].bytes != 0 && own[i].at == NULL)
			return MXFP_ERR_NULL;
		overlaps |= mxfp_overlap(&workspace, &own[i]) || mxfp_overlap_any(&own[i], own, i);
	}
	for (size_t i = 0; i < n; i++) {
		if (inputs[i].bytes == 0)
			continue;
		if (!empty && inputs[i].at == NULL)
			return MXFP_ERR_NULL;
		overlaps |= mxfp_overlap(&workspace, &inputs[i]) || mxfp_overlap_any(&inputs[i], own, MXFP_GEMM_RESULTS);
		*doubt |= may_overlap(results, inputs[i]);
	}
	if (overlaps)
		return MXFP_ERR_OVERLAP;
	return p->w_panels == NULL && !empty && is_wrong(&p->w) ? MXFP_ERR_MASK : MXFP_OK;
}

size_t mxfp_gemm_find_overlap(const struct mxfp_gemm_call *call)
{
	struct mxfp_region regions[MAX_INPUTS + MXFP_GEMM_RESULTS], results[MXFP_GEMM_RESULTS];
	struct mxfp_gemm_plan p;

	for (size_t i = 0; i < call->n; i++) {
		(void)mxfp_gemm_plan(&p, call, i); /* cannot fail: it succeeded before */
		size_t n = inputs_of(regions, &p);

		results_of(regions + n, call, i);
		for (size_t j = 0; j < call->n; j++) {
			results_of(results, call, j);
			/* The results of one product have been held against each other. */
			for (int kind = 0; kind < MXFP_GEMM_RESULTS; kind++)
				if (mxfp_overlap_any(&results[kind], regions, i == j ? n : n + MXFP_GEMM_RESULTS))
					return j;
		}
	}
	return call->n;
}

enum mxfp_status mxfp_gemm_check_weights(const struct mxfp_matrix *w, struct mxfp_region packed)
{
	struct mxfp_region inputs[MAX_INPUTS];
	size_t n = mxfp_gemm_matrix_regions(inputs, w);

	for (size_t i = 0; i < n; i++) {
		if (inputs[i].bytes != 0 && inputs[i].at == NULL)
			return MXFP_ERR_NULL;
		if (mxfp_overlap(&inputs[i], &packed))
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
	if (p->c.first_non_finite != NULL)
		*p->c.first_non_finite = p->a.transposed ? first_of_transposed(p, call) : first;
	return MXFP_ERR_NON_FINITE;
}
