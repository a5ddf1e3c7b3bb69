/* SPDX-License-Identifier: MIT */
/* What all micro-kernels of a tier share for packing: loading rows of a matrix as 32-bit words, and transposing them
   into a panel, where the words of all rows are adjacent for each k. */
#ifndef MXFP_BODY_GEMM_PANEL_H
#define MXFP_BODY_GEMM_PANEL_H

#include "blocks.h"
#include "body/slots.h"

/* The rows of a panel over a slice of its chunk, 8 KiB. Rows past the end of the matrix are zeros. */
enum { PANEL_MAX_ROWS = 16, PANEL_SLICE = 128 };
typedef uint32_t panel_rows[PANEL_MAX_ROWS][PANEL_SLICE];

/* The part of a job for columns k, k + 1, ... of its chunk, at most PANEL_SLICE of them. */
ALWAYS_INLINE struct mxfp_gemm_pack_job panel_slice(const struct mxfp_gemm_pack_job *job, size_t k)
{
	struct mxfp_gemm_pack_job slice = *job;

	slice.k0 += k;
	slice.k = job->k - k < PANEL_SLICE ? job->k - k : PANEL_SLICE;
	return slice;
}

ALWAYS_INLINE size_t panel_align(size_t bytes)
{
	return (bytes + MXFP_GEMM_ALIGN - 1) / MXFP_GEMM_ALIGN * MXFP_GEMM_ALIGN;
}

/* Dequantizes the job's rows of a matrix in a block format to rows of `to`, `stride` numbers apart. scales: used for
   every row instead of the matrix's own, unless NULL. tensor_scale replaces the matrix's. */
static inline void dequantize_rows(const struct mxfp_gemm_pack_job *job, const uint8_t *scales, float tensor_scale,
                                   void *to, size_t stride)
{
	const struct mxfp_matrix *m = job->matrix;
	size_t first_scale = mxfp_scales_offset(m->format, m->scales_stride, job->row, job->k0);
	struct mxfp_dequantize_job part = {
		.format = m->format,
		.dst_format = MXFP_FORMAT_F32,
		.rows = job->rows,
		.cols = job->k,
		.codes = (const uint8_t *)m->data + mxfp_codes_offset(m->format, m->stride, job->row, job->k0),
		.scales = scales != NULL ? scales : (const uint8_t *)m->scales + first_scale,
		.codes_stride = m->stride,
		.scales_stride = scales != NULL ? 0 : m->scales_stride,
		.tensor_scale_divides = m->tensor_scale_divides,
		.dst = to,
		.dst_stride = stride,
	};

	memcpy(&part.tensor_scale, &tensor_scale, sizeof part.tensor_scale);
	TIER(dequantize)(&part);
}

/* Loads rows of a matrix in any format as binary32; `widen` converts from the element formats. */
static inline void widen_rows(const struct mxfp_gemm_pack_job *job, mxfp_convert_kernel *widen, uint32_t *to,
                              size_t stride)
{
	const struct mxfp_matrix *m = job->matrix;
	const struct mxfp_format_info *format = mxfp_format_get_info(m->format);
	struct mxfp_counts counts = {0};
	struct mxfp_convert_job part = {
		.dst_format = MXFP_FORMAT_F32,
		.src_format = m->format,
		.n = job->k,
		.counts = &counts,
	};

	if (format->kind == MXFP_KIND_BLOCK) {
		dequantize_rows(job, NULL, m->tensor_scale, to, stride);
		return;
	}
	for (size_t r = 0; r < job->rows; r++) {
		part.src = (const uint8_t *)m->data + ((job->row + r) * m->stride + job->k0) * format->storage_bytes;
		part.dst = to + r * stride;
		if (m->format == MXFP_FORMAT_F32) /* products do not depend on a NaN's payload */
			memcpy(part.dst, part.src, job->k * sizeof(float));
		else
			widen(&part);
	}
}

/* Loads numbers of a transposed matrix: to[k * stride + r] is element k of the job's row r. */
static inline void widen_transposed(const struct mxfp_gemm_pack_job *job, mxfp_convert_kernel *widen, void *to, size_t stride)
{
	struct mxfp_gemm_pack_job stored = *job;

	stored.row = job->k0;
	stored.rows = job->k;
	stored.k0 = job->row;
	stored.k = job->rows;
	widen_rows(&stored, widen, to, stride);
}

/* Defines kernel `name`, which takes_panels. `work`, which is NOINLINE as FP_KERNEL says, multiplies by one: the state changes once
   for all, since a processor finishes what it has begun before that. */
#define PANELS_KERNEL(name, mr, nr, work) \
	void name(const struct mxfp_gemm_multiply_job *job) \
	{ \
		struct mxfp_gemm_multiply_job panel = *job; \
		struct fp_state state = fp_enter(); \
\
		for (size_t i = 0; i < job->panels; i++) { \
			work(&panel); \
			panel.w = (const uint8_t *)panel.w + job->w_bytes; \
			panel.c += (job->rows + (mr) - 1) / (mr) * (mr) * (nr); \
		} \
		fp_leave(state); \
	}

/* Multiplies one panel of A by that of W. `rows` is the number of rows left, which may exceed the panel's. */
typedef void panel_multiply(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, float *c);

ALWAYS_INLINE void multiply_each(const struct mxfp_gemm_multiply_job *job, size_t bytes, size_t mr, size_t nr,
                                 panel_multiply *multiply)
{
	const uint8_t *a = job->a;
	float *c = job->c;

	for (size_t row = 0; row < job->rows; row += mr, a += bytes, c += mr * nr)
		multiply(job, a, job->rows - row, c);
}

/* Stores word i of row r as word i * width + r of the panel. width is an even constant, stride the words of a row. */
ALWAYS_INLINE void store_columns(uint8_t *panel, const uint32_t *rows, size_t stride, size_t width, size_t n)
{
	for (size_t r = 0; r < width; r += 4)
		for (size_t i = 0; i < n; i += LANES) {
			const uint32_t *at = rows + r * stride + i;
			const vu32 words[4] = {load(at), load(at + stride), load(at + 2 * stride), load(at + 3 * stride)};
			uint32_t columns[4 * LANES];

			store_interleaved(columns, words);
			for (size_t k = 0; k < LANES && i + k < n; k++)
				memcpy(panel + 4 * ((i + k) * width + r), columns + 4 * k, width - r < 4 ? 8 : 16);
		}
}

#endif
