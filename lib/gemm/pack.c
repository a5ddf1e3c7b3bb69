/* SPDX-License-Identifier: MIT */
/* Packs rows into panels. Rows of A are first gathered if A is transposed, and quantized if the options say so; rows
   of a sparse W are first expanded if the kernel is for dense W. */
#include <string.h>

#include "blocks.h"
#include "run.h"
#include "sparse.h"

void mxfp_gemm_gather(const struct mxfp_matrix *m, size_t first, size_t rows, uint8_t *numbers)
{
	size_t width = mxfp_stride_unit(m->format);

	for (size_t k = 0; k < m->cols; k++) {
		const uint8_t *from = (const uint8_t *)m->data + (k * m->stride + first) * width;

		for (size_t i = 0; i < rows; i++)
			memcpy(numbers + (i * m->cols + k) * width, from + i * width, width);
	}
}

/* Quantizes the rows of *m, which begin at row `first` of A, to codes followed by scales, and makes *m those blocks. */
static void quantize(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first,
                     struct mxfp_matrix *m, uint8_t *codes)
{
	struct mxfp_quantize_job job = p->quantize;
	struct mxfp_counts counts = {0};
	struct mxfp_sizes size = {0};

	(void)mxfp_blocks_size(&size, p->a_format, m->rows, p->k);
	job.rows = m->rows;
	job.cols = p->k;
	job.src = m->data;
	job.src_stride = m->stride;
	job.codes = codes;
	job.codes_stride = size.codes_row_bytes;
	job.scales = codes + size.codes_bytes;
	job.scales_stride = size.scales_row_bytes;
	job.first_index += (uint64_t)first * p->k;
	job.counts = &counts;
	call->kernels->quantize[p->a_format](&job);
	m->format = p->a_format;
	m->data = codes;
	m->stride = size.codes_row_bytes;
	m->scales = job.scales;
	m->scales_stride = size.scales_row_bytes;
}

/* Returns `rows` rows of A from row `first` on, in the format that A has in the product. */
static struct mxfp_matrix load(const struct mxfp_gemm_call *call, const struct mxfp_gemm_plan *p, size_t first,
                               size_t rows, const struct mxfp_gemm_area *area)
{
	struct mxfp_matrix m = p->a;

	m.rows = rows;
	if (m.transposed) {
		mxfp_gemm_gather(&p->a, first, rows, area->numbers);
		m.transposed = false;
		m.data = area->numbers;
		m.stride = p->k;
	} else {
		m.data = (const uint8_t *)m.data + first * m.stride * mxfp_stride_unit(m.format);
		if (m.scales != NULL)
			m.scales = (const uint8_t *)m.scales + first * m.scales_stride;
	}
	if (p->a_format != m.format)
		quantize(call, p, first, &m, area->codes);
	return m;
}

/* Stores a row for the reference, which reads rows of codes or numbers, and after all of these, rows of scales. */
static void store_row(const struct mxfp_gemm_unit *unit, size_t row, const struct mxfp_matrix *m)
{
	const struct mxfp_gemm_row bytes = mxfp_gemm_row(m->format, m->cols);

	memcpy(unit->a + row * bytes.data, m->data, bytes.data);
	if (bytes.scales != 0)
		memcpy(unit->a + unit->rows * bytes.data + row * bytes.scales, m->scales, bytes.scales);
}

void mxfp_gemm_pack_a(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t pack,
                      struct mxfp_gemm_area *area)
{
	const struct mxfp_gemm_plan *p = unit->plan;
	size_t mr = p->kernel != NULL ? p->kernel->mr : 1, rows = mxfp_least(mr, unit->rows - pack * mr);
	struct mxfp_matrix m = load(call, p, unit->row + pack * mr, rows, area);
	struct mxfp_gemm_pack_job job = {.shape = &p->shape, .matrix = &m, .rows = rows, .unit_rows = unit->rows};
	uint8_t *chunk = unit->a;

	if (p->kernel == NULL) {
		store_row(unit, pack, &m);
		return;
	}
	for (; job.k0 < p->k; job.k0 += p->chunk) {
		job.k = mxfp_least(p->chunk, p->k - job.k0);
		size_t bytes = p->kernel->a_panel_bytes(&p->shape, job.k);

		job.panel = chunk + pack * bytes;
		p->kernel->pack_a(&job);
		chunk += mxfp_divide_up(unit->rows, mr) * bytes;
	}
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
