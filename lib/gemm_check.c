/* SPDX-License-Identifier: MIT */
/* The checks of a call of mxfp_gemm_grouped(): everything that can be refused is refused here, before a byte is
   written. */
#include "args.h"
#include "blocks.h"
#include "gemm.h"
#include "sparse.h"

static bool is_operand(enum mxfp_format format)
{
	return mxfp_is_block(format) || mxfp_is_source(format) || format == MXFP_FORMAT_TF32;
}

/* Bytes of a row of a matrix as stored, of its scales and of its masks. */
struct row_bytes {
	size_t rows, data, stride, scales, masks;
};

/* Of a sparse matrix, instead of what a dense one would have. */
static enum mxfp_status find_kept_bytes(const struct mxfp_matrix *matrix, struct row_bytes *row)
{
	struct mxfp_sparse_sizes sizes;

	if (!mxfp_is_sparse(matrix))
		return MXFP_OK;
	enum mxfp_status status = mxfp_sparse_size(matrix->format, matrix->sparsity, matrix->rows, matrix->cols, &sizes);
	if (status == MXFP_OK) {
		row->data = sizes.codes_row_bytes;
		row->masks = sizes.masks_row_bytes;
	}
	return status;
}

static enum mxfp_status find_row_bytes(const struct mxfp_matrix *matrix, struct row_bytes *row)
{
	const struct mxfp_format_info *info = mxfp_format_info(matrix->format);
	struct mxfp_sizes size;

	*row = (struct row_bytes){.rows = matrix->transposed ? matrix->cols : matrix->rows};
	if (info->kind == MXFP_KIND_BLOCK) {
		enum mxfp_status status = mxfp_blocks_size(matrix->format, matrix->rows, matrix->cols, &size);

		row->data = size.codes_row_bytes;
		row->scales = size.scales_row_bytes;
		return status == MXFP_OK ? find_kept_bytes(matrix, row) : status;
	}
	if (!mxfp_multiply(matrix->transposed ? matrix->rows : matrix->cols, info->storage_bytes, &row->data))
		return MXFP_ERR_SIZE;
	return find_kept_bytes(matrix, row);
}

enum mxfp_status mxfp_gemm_check_matrix(struct mxfp_matrix *matrix)
{
	struct row_bytes row;
	size_t span, elements;

	if (!is_operand(matrix->format) || (matrix->transposed && mxfp_is_block(matrix->format)))
		return MXFP_ERR_FORMAT;
	if (mxfp_is_sparse(matrix) && matrix->transposed)
		return MXFP_ERR_FORMAT;
	enum mxfp_status status = find_row_bytes(matrix, &row);
	if (status != MXFP_OK)
		return status;
	size_t width = mxfp_is_block(matrix->format) ? 1 : mxfp_format_info(matrix->format)->storage_bytes;
	if (matrix->stride == 0)
		matrix->stride = row.data / width;
	if (matrix->scales_stride == 0)
		matrix->scales_stride = row.scales;
	if (matrix->masks_stride == 0)
		matrix->masks_stride = row.masks;
	if (!mxfp_multiply(matrix->stride, width, &row.stride) || !mxfp_multiply(matrix->rows, matrix->cols, &elements) ||
	    !mxfp_span(row.rows, row.data, row.stride, &span) ||
	    !mxfp_span(row.rows, row.scales, matrix->scales_stride, &span) ||
	    !mxfp_span(row.rows, row.masks, matrix->masks_stride, &span))
		return MXFP_ERR_SIZE;
	return MXFP_OK;
}

enum mxfp_status mxfp_gemm_check_call(struct mxfp_gemm_call *call)
{
	static const struct mxfp_quantize_options quantize = {.rule = MXFP_RULE_RCEIL};
	const struct mxfp_gemm_options *o = call->options;

	if (call->n != 0 && call->products == NULL)
		return MXFP_ERR_NULL;
	if ((o->c_format != MXFP_FORMAT_F32 && o->c_format != MXFP_FORMAT_BF16) ||
	    (o->psum != MXFP_FORMAT_F32 && o->psum != MXFP_FORMAT_BF16) || mxfp_format_info(o->a_format) == NULL)
		return MXFP_ERR_FORMAT;
	if (!mxfp_option_valid(MXFP_OPTION_ACC, (int)o->acc) ||
	    (o->psum_round != MXFP_ROUND_RNE && o->psum_round != MXFP_ROUND_SR) ||
	    (o->pass_k != 0 && o->pass_k != 128 && o->pass_k != 256 && o->pass_k != 512))
		return MXFP_ERR_OPTION;
	enum mxfp_status status = mxfp_runner_init(&call->runner, o->exec);
	if (status != MXFP_OK)
		return status;
	if (call->kernels == NULL)
		call->kernels = call->runner.kernels;
	call->quantize = o->a_quantize != NULL ? o->a_quantize : &quantize;
	return MXFP_OK;
}

/* A, and the format it has in the product. */
static enum mxfp_status resolve_a(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call)
{
	enum mxfp_status status = mxfp_is_sparse(&p->a) ? MXFP_ERR_OPTION : mxfp_gemm_check_matrix(&p->a);

	p->m = p->a.rows;
	p->k = p->a.cols;
	p->a_format = p->a.format;
	if (status != MXFP_OK || !mxfp_is_block(call->options->a_format))
		return status;
	if (!mxfp_is_source(p->a.format))
		return MXFP_ERR_FORMAT;
	p->a_format = call->options->a_format;
	return mxfp_check_quantize_options(p->a_format, p->m, p->k, call->quantize);
}

enum mxfp_status mxfp_gemm_resolve(struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call, size_t i)
{
	const struct mxfp_gemm *product = &call->products[i];
	size_t elements, bytes;

	*p = (struct mxfp_gemm_product){.index = i, .a = product->a, .w = product->w, .c = product->c,
	                                .c_stride = product->c_stride, .bias = product->bias};
	enum mxfp_status status = resolve_a(p, call);
	if (status != MXFP_OK)
		return status;
	if (product->w_packed != NULL)
		status = mxfp_gemm_unpack(p, call, product);
	else
		status = product->w.transposed ? MXFP_ERR_FORMAT : mxfp_gemm_check_matrix(&p->w);
	if (status != MXFP_OK)
		return status;
	p->n = p->w.rows;
	if (p->c_stride == 0)
		p->c_stride = p->n;
	if (p->w.cols != p->k || p->c_stride < p->n || !mxfp_multiply(p->m, p->n, &elements) ||
	    !mxfp_multiply(p->m, p->c_stride, &elements) || !mxfp_multiply(elements, sizeof(float), &bytes) ||
	    bytes > PTRDIFF_MAX)
		return MXFP_ERR_SIZE;
	mxfp_gemm_choose(p, call);
	return MXFP_OK;
}

/* A stretch of memory. */
struct span {
	const void *at;
	size_t bytes;
};

enum { MAX_INPUTS = 8 };

static size_t span_of(size_t rows, size_t row_bytes, size_t stride)
{
	return rows == 0 || row_bytes == 0 ? 0 : (rows - 1) * stride + row_bytes;
}

static size_t matrix_spans(struct span *spans, const struct mxfp_matrix *matrix)
{
	size_t width = mxfp_is_block(matrix->format) ? 1 : mxfp_format_info(matrix->format)->storage_bytes;
	struct row_bytes row;

	(void)find_row_bytes(matrix, &row); /* it was checked before */
	spans[0] = (struct span){matrix->data, span_of(row.rows, row.data, matrix->stride * width)};
	spans[1] = (struct span){matrix->scales, span_of(row.rows, row.scales, matrix->scales_stride)};
	spans[2] = (struct span){matrix->masks, span_of(row.rows, row.masks, matrix->masks_stride)};
	return 3;
}

static enum mxfp_status check_masks(const struct mxfp_matrix *w)
{
	return !mxfp_is_sparse(w) || mxfp_masks_valid(w->sparsity, w->rows, w->cols, w->masks, w->masks_stride)
	               ? MXFP_OK
	               : MXFP_ERR_MASK;
}

enum mxfp_status mxfp_gemm_check_source(const struct mxfp_matrix *matrix, const void *memory, size_t bytes)
{
	struct span inputs[MAX_INPUTS];
	size_t n = matrix_spans(inputs, matrix);

	for (size_t s = 0; s < n; s++) {
		if (inputs[s].bytes != 0 && inputs[s].at == NULL)
			return MXFP_ERR_NULL;
		if (mxfp_overlap(inputs[s].at, inputs[s].bytes, memory, bytes))
			return MXFP_ERR_OVERLAP;
	}
	return check_masks(matrix);
}

static size_t inputs_of(struct span *spans, const struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call)
{
	const struct mxfp_gemm *product = &call->products[p->index];
	size_t n = matrix_spans(spans, &p->a);

	if (p->w_panels != NULL)
		spans[n++] = (struct span){product->w_packed, product->w_packed_bytes};
	else
		n += matrix_spans(spans + n, &p->w);
	if (p->bias != NULL)
		spans[n++] = (struct span){p->bias, p->n * sizeof *p->bias};
	return n;
}

static struct span result_of(const struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call)
{
	size_t width = mxfp_format_info(call->options->c_format)->storage_bytes;

	return (struct span){p->c, span_of(p->m, p->n * width, p->c_stride * width)};
}

static bool overlap(struct span a, struct span b)
{
	return mxfp_overlap(a.at, a.bytes, b.at, b.bytes);
}

/* Whether a result meets an input of product j, or j's result if that is another. */
static bool meets(const struct mxfp_gemm_call *call, const struct mxfp_gemm_product *p, size_t j)
{
	struct span inputs[MAX_INPUTS], result = result_of(p, call);
	struct mxfp_gemm_product other;

	(void)mxfp_gemm_resolve(&other, call, j);
	size_t n = inputs_of(inputs, &other, call);
	for (size_t s = 0; s < n; s++)
		if (overlap(result, inputs[s]))
			return true;
	return p->index != j && overlap(result, result_of(&other, call));
}

/* n times n questions. */
static bool some_overlap(const struct mxfp_gemm_call *call)
{
	struct mxfp_gemm_product p;

	for (size_t i = 0; i < call->n; i++) {
		(void)mxfp_gemm_resolve(&p, call, i);
		for (size_t j = 0; j < call->n; j++)
			if (meets(call, &p, j))
				return true;
	}
	return false;
}

/* The stretch that holds all results; whether each starts behind the one before it. */
struct results {
	uintptr_t first, end;
	bool ascend;
};

static void add_result(struct results *r, struct span result)
{
	uintptr_t first = (uintptr_t)result.at, end = first + result.bytes;

	if (result.bytes == 0)
		return;
	if (r->end != 0 && first < r->end)
		r->ascend = false;
	if (r->end == 0 || first < r->first)
		r->first = first;
	if (end > r->end)
		r->end = end;
}

/* NULL where memory is read or written, masks, and the workspace over anything. Gathers the results. */
static enum mxfp_status check_pointers(const struct mxfp_gemm_call *call, struct span space, struct results *results)
{
	struct span inputs[MAX_INPUTS];
	struct mxfp_gemm_product p;
	bool overlaps = false;

	for (size_t i = 0; i < call->n; i++) {
		(void)mxfp_gemm_resolve(&p, call, i);
		struct span result = result_of(&p, call);
		size_t n = inputs_of(inputs, &p, call);

		if (result.bytes != 0 && result.at == NULL)
			return MXFP_ERR_NULL;
		for (size_t s = 0; s < n; s++) {
			if (result.bytes != 0 && inputs[s].bytes != 0 && inputs[s].at == NULL)
				return MXFP_ERR_NULL;
			overlaps |= overlap(space, inputs[s]);
		}
		overlaps |= overlap(space, result);
		add_result(results, result);
		if (p.w_panels == NULL && result.bytes != 0 && check_masks(&p.w) != MXFP_OK)
			return MXFP_ERR_MASK;
	}
	return overlaps ? MXFP_ERR_OVERLAP : MXFP_OK;
}

/* Experts lie one after the other as a rule, and then one look at each is enough. */
enum mxfp_status mxfp_gemm_check_memory(const struct mxfp_gemm_call *call, const void *workspace, size_t bytes)
{
	struct results results = {.ascend = true};
	struct span inputs[MAX_INPUTS];
	struct mxfp_gemm_product p;
	enum mxfp_status status = check_pointers(call, (struct span){workspace, bytes}, &results);
	bool doubt = !results.ascend;

	if (status != MXFP_OK)
		return status;
	for (size_t i = 0; i < call->n && !doubt; i++) {
		(void)mxfp_gemm_resolve(&p, call, i);
		size_t n = inputs_of(inputs, &p, call);
		for (size_t s = 0; s < n; s++)
			doubt |= inputs[s].bytes != 0 && (uintptr_t)inputs[s].at < results.end &&
			         (uintptr_t)inputs[s].at + inputs[s].bytes > results.first;
	}
	return doubt && some_overlap(call) ? MXFP_ERR_OVERLAP : MXFP_OK;
}
