/* SPDX-License-Identifier: MIT */
/* Packs rows into panels. Rows of A are first gathered if A is transposed, and quantized if the options say so; rows
   of a sparse W are first expanded if the kernel is for dense W. Where K is so long that this would take too much memory, a
   tile packs its rows of A again, one span of K after the other. */
#include <string.h>

#include "blocks.h"
#include "run.h"
#include "sparse.h"

void mxfp_gemm_columns(struct mxfp_matrix *m, size_t k0, size_t k)
{
	size_t bytes = k0 * mxfp_stride_unit(m->format) * (m->transposed ? m->stride : 1);

	if (mxfp_is_block(m->format)) {
		bytes = mxfp_codes_offset(m->format, 0, 0, k0);
		m->scales = (const uint8_t *)m->scales + mxfp_scales_offset(m->format, 0, 0, k0);
	}
	m->data = (const uint8_t *)m->data + bytes;
	m->cols = k;
}

void mxfp_gemm_gather(const struct mxfp_matrix *m, size_t first, size_t rows, uint8_t *numbers)
{
	size_t width = mxfp_stride_unit(m->format);

	for (size_t k = 0; k < m->cols; k++) {
		const uint8_t *from = (const uint8_t *)m->data + (k * m->stride + first) * width;

		for (size_t i = 0; i < rows; i++)
			memcpy(numbers + (i * m->cols + k) * width, from + i * width, width);
	}
}

/* Quantizes the rows of *m, which begin at row `first` and column k0 of A, to codes followed by scales, and makes *m those
   blocks. Indices of a job's rows follow each other: rows that are parts of A's are a job each. */
static void quantize(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first, size_t k0,
                     struct mxfp_matrix *m, uint8_t *codes)
{
	const size_t rows = m->cols == p->k ? m->rows : 1, width = mxfp_stride_unit(m->format);
	struct mxfp_quantize_job job = p->quantize;
	struct mxfp_counts counts = {0};
	struct mxfp_sizes size = {0};

	(void)mxfp_blocks_size(&size, p->a_format, m->rows, m->cols);
	job.rows = rows;
	job.cols = m->cols;
	job.src_stride = m->stride;
	job.codes_stride = size.codes_row_bytes;
	job.scales_stride = size.scales_row_bytes;
	job.counts = &counts;
	for (size_t i = 0; i < m->rows; i += rows) {
		job.src = (const uint8_t *)m->data + i * m->stride * width;
		job.codes = codes + i * size.codes_row_bytes;
		job.scales = codes + size.codes_bytes + i * size.scales_row_bytes;
		job.first_index = p->quantize.first_index + (uint64_t)(first + i) * p->k + k0;
		call->kernels->quantize[p->a_format](&job);
	}
	m->format = p->a_format;
	m->data = codes;
	m->stride = size.codes_row_bytes;
	m->scales = codes + size.codes_bytes;
	m->scales_stride = size.scales_row_bytes;
}

/* Returns `rows` rows of A from row `first` on, k elements of each from k0 on, in the format that A has in the product. */
static struct mxfp_matrix load(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first,
                               size_t rows, size_t k0, size_t k, const struct mxfp_gemm_area *area)
{
	struct mxfp_matrix m = p->a;

	m.rows = rows;
	mxfp_gemm_columns(&m, k0, k);
	if (m.transposed) {
		mxfp_gemm_gather(&m, first, rows, area->numbers);
		m.transposed = false;
		m.data = area->numbers;
		m.stride = k;
	} else {
		m.data = (const uint8_t *)m.data + first * m.stride * mxfp_stride_unit(m.format);
		if (m.scales != NULL)
			m.scales = (const uint8_t *)m.scales + first * m.scales_stride;
	}
	if (p->a_format != m.format)
		quantize(call, p, first, k0, &m, area->codes);
	return m;
}

/* Packs rows `first` to first + rows - 1 of a unit, a panel or for the reference a row at the most, over the span at k0. They
   are the panel number `pack` of those of `of` rows at `to`. */
static void pack_rows(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t first, size_t rows, size_t k0,
                      uint8_t *to, size_t of, size_t pack, const struct mxfp_gemm_area *area)
{
	const struct mxfp_gemm_plan *p = unit->plan;
	struct mxfp_matrix m = load(call, p, unit->row + first, rows, k0, mxfp_least(p->span, p->k - k0), area);
	struct mxfp_gemm_pack_job job = {.shape = &p->shape, .matrix = &m, .rows = rows, .unit_rows = unit->rows};

	if (p->kernel == NULL) {
		/* Rows of codes or numbers, and after all of these, rows of scales. */
		const struct mxfp_gemm_row bytes = mxfp_gemm_row(m.format, m.cols);

		memcpy(to + pack * bytes.data, m.data, bytes.data);
		if (bytes.scales != 0)
			memcpy(to + of * bytes.data + pack * bytes.scales, m.scales, bytes.scales);
		return;
	}
	for (; job.k0 < m.cols; job.k0 += p->chunk) {
		job.k = mxfp_least(p->chunk, m.cols - job.k0);
		size_t bytes = p->kernel->a_panel_bytes(&p->shape, job.k);

		job.panel = to + pack * bytes;
		p->kernel->pack_a(&job);
		to += mxfp_divide_up(of, p->kernel->mr) * bytes;
	}
}

static size_t panel_rows(const struct mxfp_gemm_plan *p)
{
	return p->kernel != NULL ? p->kernel->mr : 1;
}

void mxfp_gemm_pack_a(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t pack,
                      struct mxfp_gemm_area *area)
{
	const size_t mr = panel_rows(unit->plan), first = pack * mr;

	pack_rows(call, unit, first, mxfp_least(mr, unit->rows - first), 0, unit->a, unit->rows, pack, area);
}

void mxfp_gemm_pack_span(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t row, size_t rows, size_t k0,
                         struct mxfp_gemm_area *area)
{
	const size_t mr = panel_rows(unit->plan);

	for (size_t i = 0; i < rows; i += mr)
		pack_rows(call, unit, row + i, mxfp_least(mr, rows - i), k0, area->a, rows, i / mr, area);
}

/* Returns a number of elements whose kept codes and masks are whole bytes, and whose blocks are whole. */
static size_t expand_step(struct mxfp_sparsity sparsity)
{
	return 32 % sparsity.m == 0 ? 32 : 96;
}

size_t mxfp_gemm_expanded_bytes(const struct mxfp_gemm_plan *p)
{
	size_t beside = expand_step(p->w.sparsity) - 1, bytes;

	(void)mxfp_dense_row_bytes(p->w.format, mxfp_least(p->chunk, p->k) + 2 * beside, &bytes);
	return bytes * p->kernel->nr;
}

struct mxfp_matrix mxfp_gemm_expand(const struct mxfp_gemm_call *call, const struct mxfp_matrix *w,
                                    struct mxfp_gemm_slice *slice, uint8_t *data)
{
	const struct mxfp_format_info *info = mxfp_format_get_info(w->format);
	size_t step = expand_step(w->sparsity), first = slice->k0 / step * step, stride, unit = mxfp_stride_unit(w->format);
	size_t end = mxfp_least(w->cols, mxfp_divide_up(slice->k0 + slice->k, step) * step);
	struct mxfp_matrix dense = *w;

	(void)mxfp_dense_row_bytes(w->format, end - first, &stride);
	const struct mxfp_sparse_job job = {
		.format = w->format,
		.sparsity = w->sparsity,
		.rows = slice->rows,
		.cols = end - first,
		.src = (const uint8_t *)w->data + slice->row * w->stride * unit +
		       first / w->sparsity.m * w->sparsity.n * mxfp_code_bits(w->format) / 8,
		.src_stride = w->stride * unit,
		.masks = (const uint8_t *)w->masks + slice->row * w->masks_stride + first / 8,
		.masks_stride = w->masks_stride,
		.dst = data,
		.dst_stride = stride,
	};
	call->kernels->expand[w->format](&job);
	dense.rows = slice->rows;
	dense.cols = end - first;
	dense.data = data;
	dense.stride = stride / unit;
	dense.sparsity = (struct mxfp_sparsity){0, 0};
	if (info->kind == MXFP_KIND_BLOCK)
		dense.scales = (const uint8_t *)w->scales + slice->row * w->scales_stride + first / info->block_length;
	slice->row = 0;
	slice->k0 -= first;
	return dense;
}

/* Packs one panel of a sparse W for a kernel for dense W. */
static void pack_expanded(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p,
                          struct mxfp_gemm_pack_job *job, uint8_t *data)
{
	struct mxfp_gemm_slice slice = {job->row, job->rows, job->k0, job->k};
	struct mxfp_matrix dense = mxfp_gemm_expand(call, &p->w, &slice, data);

	job->matrix = &dense;
	job->row = slice.row;
	job->k0 = slice.k0;
	p->kernel->pack_w(job);
}

void mxfp_gemm_pack_w(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first, size_t count,
                      size_t k0, uint8_t *dense, uint8_t *panels)
{
	size_t nr = p->kernel->nr, k = mxfp_least(p->chunk, p->k - k0);

	for (size_t i = 0; i < count; i++) {
		struct mxfp_gemm_pack_job job = {
			.shape = &p->shape,
			.matrix = &p->w,
			.row = (first + i) * nr,
			.k0 = k0,
			.k = k,
			.panel = panels + i * p->kernel->w_panel_bytes(&p->shape, k),
		};

		job.rows = mxfp_least(nr, p->n - job.row);
		if (p->expands)
			pack_expanded(call, p, &job, dense);
		else
			p->kernel->pack_w(&job);
	}
}
