/* SPDX-License-Identifier: MIT */
/* Exact block sums of elements that are 16-bit integers (gemm_int16.h), in panels of such integers. */
#include "tier.h"

#include "body/gemm_int16.h"

static size_t int16_w_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	return int16_bytes(shape, shape->w_format, k, INT16_NR);
}

static void int16_pack_a(const struct mxfp_gemm_pack_job *job)
{
	int16_pack(job, INT16_MR, false);
}

static void int16_pack_w(const struct mxfp_gemm_pack_job *job)
{
	int16_pack(job, INT16_NR, false);
}

static void int16_panel(const struct mxfp_gemm_multiply_job *job, const uint8_t *a, size_t rows, float *c)
{
	const uint8_t *w = job->w;
	struct int16_panels t = int16_begin(job, a);
	struct blocks_head a_head, w_head;

	t.w_scales = w + BLOCKS_HEAD_BYTES;
	t.w = w + blocks_elements(job->shape, job->k, INT16_NR);
	t.w_flags = w + INT16_LOW_FLAGS;
	memcpy(&a_head, a, sizeof a_head);
	memcpy(&w_head, w, sizeof w_head);
	int16_passes(job, &t, scales_are_ordinary(&a_head, &w_head), rows, c);
}

static NOINLINE void int16_rows(const struct mxfp_gemm_multiply_job *job)
{
	multiply_each(job, int16_a_bytes(job->shape, job->k), INT16_MR, INT16_NR, int16_panel);
}

static PANELS_KERNEL(int16_multiply, INT16_MR, INT16_NR, int16_rows)

const struct mxfp_gemm_kernel TIER(gemm_int16) = {
	.id = INT16_ID,
	.name = "int16-" TIER_NAME,
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = int16_a_bytes,
	.w_panel_bytes = int16_w_bytes,
	.takes_panels = true,
	.pack_a = int16_pack_a,
	.pack_w = int16_pack_w,
	.multiply = int16_multiply,
};
