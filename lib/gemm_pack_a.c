/* SPDX-License-Identifier: MIT */
/* Rows of A on their way into panels: gathered if A is transposed, quantized if the options say so, packed. */
#include <string.h>

#include "args.h"
#include "blocks.h"
#include "gemm_tile.h"

struct mxfp_quantize_job mxfp_gemm_scan_job(const struct mxfp_gemm_product *p, const struct mxfp_gemm_call *call)
{
	const struct mxfp_quantize_options *o = call->quantize;

	return (struct mxfp_quantize_job){
		.format = p->a_format,
		.src_format = p->a.format,
		.rows = p->a.transposed ? p->k : p->m,
		.cols = p->a.transposed ? p->m : p->k,
		.src = p->a.data,
		.src_stride = p->a.stride,
		.first_index = o->first_index,
		.rounding = {o->round, MXFP_OVERFLOW_SAT, o->no_negative_zero, o->seed, o->stream},
		.rule = o->rule,
		.recipe = o->recipe,
		.saturate_inf = o->non_finite == MXFP_NON_FINITE_SATURATE,
		.via_bf16 = o->via_bf16,
	};
}

/* Rows first .. first + rows - 1 of a transposed A, side by side. */
static void gather(const struct mxfp_gemm_product *p, size_t first, size_t rows, uint8_t *numbers)
{
	size_t width = mxfp_format_info(p->a.format)->storage_bytes;

	for (size_t k = 0; k < p->k; k++) {
		const uint8_t *from = (const uint8_t *)p->a.data + (k * p->a.stride + first) * width;

		for (size_t i = 0; i < rows; i++)
			memcpy(numbers + (i * p->k + k) * width, from + i * width, width);
	}
}

/* Quantizes the rows of `m`, the first of them row `first` of A, to codes and, behind these, scales: what m becomes. */
static void quantize(const struct mxfp_gemm_call *call, const struct mxfp_gemm_product *p, size_t first,
                     struct mxfp_matrix *m, uint8_t *codes)
{
	struct mxfp_quantize_job job = mxfp_gemm_scan_job(p, call);
	struct mxfp_counts counts = {0};
	struct mxfp_sizes size = {0};

	(void)mxfp_blocks_size(p->a_format, m->rows, p->k, &size);
	job.rows = m->rows;
	job.cols = p->k;
	job.src = m->data;
	job.src_stride = m->stride;
	job.codes = codes;
	job.codes_stride = size.codes_row_bytes;
	job.scales = codes + size.codes_bytes;
	job.scales_stride = size.scales_row_bytes;
	job.first_index += (uint64_t)first * p->k;
	job.tensor_amax = p->a_amax;
	job.counts = &counts;
	call->kernels->quantize[p->a_format](&job);
	m->format = p->a_format;
	m->data = codes;
	m->stride = size.codes_row_bytes;
	m->scales = job.scales;
	m->scales_stride = size.scales_row_bytes;
}

/* `rows` rows of A from `first` on, in the format that A has in the product. */
static struct mxfp_matrix load(const struct mxfp_gemm_call *call, const struct mxfp_gemm_product *p, size_t first,
                               size_t rows, const struct mxfp_gemm_area *area)
{
	struct mxfp_matrix m = p->a;

	m.rows = rows;
	if (m.transposed) {
		gather(p, first, rows, area->numbers);
		m.transposed = false;
		m.data = area->numbers;
		m.stride = p->k;
	} else {
		size_t width = mxfp_is_block(m.format) ? 1 : mxfp_format_info(m.format)->storage_bytes;

		m.data = (const uint8_t *)m.data + first * m.stride * width;
		if (m.scales != NULL)
			m.scales = (const uint8_t *)m.scales + first * m.scales_stride;
	}
	if (p->a_format != m.format)
		quantize(call, p, first, &m, area->codes);
	return m;
}

/* The reference reads rows: one of codes or numbers, and one of scales behind all of the former. */
static void store_row(const struct mxfp_gemm_unit *unit, size_t row, const struct mxfp_matrix *m)
{
	struct mxfp_sizes size = {0};
	size_t bytes = m->cols * mxfp_format_info(m->format)->storage_bytes;

	if (mxfp_is_block(m->format)) {
		(void)mxfp_blocks_size(m->format, unit->rows, m->cols, &size);
		bytes = size.codes_row_bytes;
		memcpy(unit->a + size.codes_bytes + row * size.scales_row_bytes, m->scales, size.scales_row_bytes);
	}
	memcpy(unit->a + row * bytes, m->data, bytes);
}

void mxfp_gemm_pack_a(const struct mxfp_gemm_call *call, const struct mxfp_gemm_unit *unit, size_t pack,
                      struct mxfp_gemm_area *area)
{
	const struct mxfp_gemm_product *p = &unit->product;
	size_t mr = p->kernel != NULL ? p->kernel->mr : 1, rows = mxfp_least(mr, unit->rows - pack * mr);
	struct mxfp_matrix m = load(call, p, unit->row + pack * mr, rows, area);
	struct mxfp_gemm_pack_job job = {.shape = &p->shape, .matrix = &m, .rows = rows};
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
