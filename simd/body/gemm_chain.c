/* SPDX-License-Identifier: MIT */
/*
 * Chains, for any two formats: P = fma(a, w, P) for each k in turn (numerics, section 5). Panels hold binary32, decoded
 * when they are packed: [k][CHAIN_MR] of A, [k][CHAIN_NR] of W. Lanes lie across the columns of C, and enough sums run
 * beside each other that no FMA waits for the one before it.
 */
#include "tier.h"

#include "body/gemm_panel.h"
#include "body/slots.h"

enum { CHAIN_NR = CHAIN_VECTORS * LANES };

static size_t chain_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return panel_align(k * CHAIN_MR * sizeof(float));
}

static size_t chain_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return k * CHAIN_NR * sizeof(float);
}

static void widen_rows(const struct mxfp_gemm_pack_job *job, panel_rows rows)
{
	const struct mxfp_matrix *m = job->matrix;
	size_t bytes = mxfp_format_get_info(m->format)->storage_bytes;
	struct mxfp_counts counts = {0};
	struct mxfp_convert_job part = {
		.dst_format = MXFP_FORMAT_F32,
		.src_format = m->format,
		.n = job->k,
		.counts = &counts,
	};

	for (size_t r = 0; r < job->rows; r++) {
		part.src = (const uint8_t *)m->data + ((job->row + r) * m->stride + job->k0) * bytes;
		part.dst = rows[r];
		if (m->format == MXFP_FORMAT_F32)
			memcpy(rows[r], part.src, job->k * bytes);
		else
			TIER(widen)(&part);
	}
}

/* width is a constant where this is inlined. */
ALWAYS_INLINE void chain_pack(const struct mxfp_gemm_pack_job *job, size_t width)
{
	panel_rows rows;

	memset(rows + job->rows, 0, (PANEL_MAX_ROWS - job->rows) * sizeof rows[0]);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		const struct mxfp_gemm_pack_job slice = panel_slice(job, k);

		if (mxfp_format_get_info(job->matrix->format)->kind == MXFP_KIND_BLOCK)
			dequantize_rows(&slice, NULL, job->matrix->tensor_scale, rows);
		else
			widen_rows(&slice, rows);
		store_columns((uint8_t *)job->panel + k * width * sizeof(float), rows[0], PANEL_SLICE, width, slice.k);
	}
}

static void chain_pack_a(const struct mxfp_gemm_pack_job *job)
{
	chain_pack(job, CHAIN_MR);
}

static void chain_pack_w(const struct mxfp_gemm_pack_job *job)
{
	chain_pack(job, CHAIN_NR);
}

/* One pass of one panel of A; `rows` of its rows count, a constant where this is inlined. */
ALWAYS_INLINE void chain_pass(const uint32_t *a, const uint8_t *w, size_t k, size_t rows, float *c)
{
	vf32 p[CHAIN_MR][CHAIN_VECTORS] = {0};

#pragma GCC unroll 4
	for (size_t i = 0; i < k; i++, a += CHAIN_MR, w += CHAIN_NR * sizeof(float)) {
		vf32 x[CHAIN_VECTORS];

#pragma GCC unroll 4
		for (size_t v = 0; v < CHAIN_VECTORS; v++)
			x[v] = (vf32)load(w + v * VECTOR_BYTES);
#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++) {
			vf32 y = (vf32)splat(a[r]);

#pragma GCC unroll 4
			for (size_t v = 0; v < CHAIN_VECTORS; v++)
				p[r][v] = fma_f32(y, x[v], p[r][v]);
		}
	}
#pragma GCC unroll 8
	for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (size_t v = 0; v < CHAIN_VECTORS; v++) {
			float *at = c + r * CHAIN_NR + v * LANES;

			store(at, (vu32)((vf32)load(at) + p[r][v]));
		}
}

ALWAYS_INLINE void chain_panel(const struct mxfp_gemm_multiply_job *job, const uint32_t *a, size_t rows, float *c)
{
	size_t pass = job->shape->pass;

	for (size_t k = 0; k < job->k; k += pass)
		chain_pass(a + k * CHAIN_MR, (const uint8_t *)job->w + k * CHAIN_NR * sizeof(float),
		           job->k - k < pass ? job->k - k : pass, rows, c);
}

static NOINLINE void chain_rows(const struct mxfp_gemm_multiply_job *job)
{
	const uint8_t *a = job->a;
	float *c = job->c;

	for (size_t row = 0; row < job->rows; row += CHAIN_MR) {
		size_t rest = job->rows - row;

		if (rest == 1)
			chain_panel(job, (const uint32_t *)a, 1, c);
		else if (rest <= CHAIN_MR / 2)
			chain_panel(job, (const uint32_t *)a, CHAIN_MR / 2, c);
		else
			chain_panel(job, (const uint32_t *)a, CHAIN_MR, c);
		a += chain_a_bytes(job->shape, job->k);
		c += CHAIN_MR * CHAIN_NR;
	}
}

static FP_KERNEL(chain_multiply, mxfp_gemm_multiply_job, chain_rows)

const struct mxfp_gemm_kernel TIER(gemm_chain) = {
	.id = CHAIN_ID,
	.name = "chain-" TIER_NAME,
	.mr = CHAIN_MR,
	.nr = CHAIN_NR,
	.a_panel_bytes = chain_a_bytes,
	.w_panel_bytes = chain_w_bytes,
	.pack_a = chain_pack_a,
	.pack_w = chain_pack_w,
	.multiply = chain_multiply,
};
