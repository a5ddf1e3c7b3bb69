/* SPDX-License-Identifier: MIT */
/* The chain kernel for W in no block format (gemm_chain.h): packing decodes to binary32. */
#include "body/gemm_chain.h"

static size_t chain_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return chain_panel_bytes(k);
}

static size_t chain_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return k * CHAIN_NR * sizeof(float);
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

ALWAYS_INLINE void chain_panel(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, float *c)
{
	const size_t pass = job->shape->pass, w_step = (job->w_stride != 0 ? job->w_stride : (size_t)CHAIN_NR) * sizeof(float);

	for (size_t k = 0; k < job->k; k += pass)
		chain_pass_rows((const uint32_t *)a + k * CHAIN_MR, (const uint8_t *)job->w + k * w_step, w_step,
		                job->k - k < pass ? job->k - k : pass, rows, c, CHAIN_NR);
}

static NOINLINE void chain_rows(const struct mxfp_gemm_multiply_job *job)
{
	multiply_each(job, chain_panel_bytes(job->k), CHAIN_MR, CHAIN_NR, chain_panel);
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
