/* SPDX-License-Identifier: MIT */
/*
 * The chain kernel, for any two formats: P = fma(a, w, P) for each k in turn (doc/numerics.md, section 5). Packing
 * decodes to binary32: panels of A are [k][CHAIN_MR], those of W [k][CHAIN_NR]. Lanes are columns of C, and there are
 * enough independent sums that no FMA waits for the one before it.
 */
#include "tier.h"

#include "body/gemm_panel.h"
#include "body/slots.h"

enum {
	CHAIN_NR = CHAIN_VECTORS * LANES,
	CHAIN_FEW = CHAIN_MR / 2 /* rows of A, the most of which are multiplied without the others of a panel */
};

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

/* width is a constant where this is inlined. */
ALWAYS_INLINE void chain_pack(const struct mxfp_gemm_pack_job *job, size_t width)
{
	panel_rows rows;

	memset(rows + job->rows, 0, (PANEL_MAX_ROWS - job->rows) * sizeof rows[0]);
	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		const struct mxfp_gemm_pack_job slice = panel_slice(job, k);

		widen_rows(&slice, TIER(widen), rows[0], PANEL_SLICE);
		store_columns((uint8_t *)job->panel + k * width * sizeof(float), rows[0], PANEL_SLICE, width, slice.k);
	}
}

/* Few rows, as attention has them with one token: only those that are multiplied. */
static void chain_pack_few(const struct mxfp_gemm_pack_job *job)
{
	uint32_t rows[CHAIN_FEW][PANEL_SLICE] = {0};
	uint8_t *to = job->panel;

	for (size_t k = 0; k < job->k; k += PANEL_SLICE) {
		const struct mxfp_gemm_pack_job slice = panel_slice(job, k);

		widen_rows(&slice, TIER(widen), rows[0], PANEL_SLICE);
		for (size_t i = 0; i < slice.k; i++, to += CHAIN_MR * sizeof(float))
			for (size_t r = 0; r < CHAIN_FEW; r++)
				memcpy(to + r * sizeof(float), &rows[r][i], sizeof(float));
	}
}

static void chain_pack_a(const struct mxfp_gemm_pack_job *job)
{
	if (job->rows <= CHAIN_FEW)
		chain_pack_few(job);
	else
		chain_pack(job, CHAIN_MR);
}

static void chain_pack_w(const struct mxfp_gemm_pack_job *job)
{
	if (!job->matrix->transposed) {
		chain_pack(job, CHAIN_NR);
		return;
	}
	if (job->rows < CHAIN_NR)
		memset(job->panel, 0, chain_w_bytes(job->shape, job->k));
	widen_transposed(job, TIER(widen), job->panel, CHAIN_NR);
}

/* One pass of the first `rows` rows of a panel of A; `rows` is a constant where this is inlined. Lines of W lie w_step bytes apart. */
ALWAYS_INLINE void chain_pass(const uint32_t *a, const uint8_t *w, size_t w_step, size_t k, size_t rows, float *c)
{
	vf32 p[CHAIN_MR][CHAIN_VECTORS] = {0};

#pragma GCC unroll 4
	for (size_t i = 0; i < k; i++, a += CHAIN_MR, w += w_step) {
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

ALWAYS_INLINE void chain_passes(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, float *c)
{
	const size_t pass = job->shape->pass, w_step = (job->w_stride != 0 ? job->w_stride : (size_t)CHAIN_NR) * sizeof(float);

	for (size_t k = 0; k < job->k; k += pass)
		chain_pass((const uint32_t *)a + k * CHAIN_MR, (const uint8_t *)job->w + k * w_step, w_step,
		           job->k - k < pass ? job->k - k : pass, rows, c);
}

ALWAYS_INLINE void chain_panel(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, float *c)
{
	if (rows == 1)
		chain_passes(job, a, 1, c);
	else if (rows <= CHAIN_FEW)
		chain_passes(job, a, CHAIN_FEW, c);
	else
		chain_passes(job, a, CHAIN_MR, c);
}

static NOINLINE void chain_rows(const struct mxfp_gemm_multiply_job *job)
{
	multiply_each(job, chain_a_bytes(job->shape, job->k), CHAIN_MR, CHAIN_NR, chain_panel);
}

static PANELS_KERNEL(chain_multiply, CHAIN_MR, CHAIN_NR, chain_rows)

const struct mxfp_gemm_kernel TIER(gemm_chain) = {
	.id = CHAIN_ID,
	.name = "chain-" TIER_NAME,
	.mr = CHAIN_MR,
	.nr = CHAIN_NR,
	.a_panel_bytes = chain_a_bytes,
	.w_panel_bytes = chain_w_bytes,
	.takes_panels = true,
	.reads_lines = true,
	.pack_a = chain_pack_a,
	.pack_w = chain_pack_w,
	.multiply = chain_multiply,
};
