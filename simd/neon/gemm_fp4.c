/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums with W in MXFP4, which stays in its codes (gemm_fp4.h). Few rows of A are multiplied by nibbles as they
 * are decoded; for more, a panel is expanded to 16-bit integers first. The sums are those of gemm_int16.h, and so are the
 * panels of A, in the order of W's words.
 */
#include "tier.h"

#include "body/gemm_fp4.h"

/* What a panel of W becomes before it is multiplied; for few rows, its codes are taken instead. */
struct fp4_expanded {
	float scales[FP4_BLOCKS * INT16_NR];
	uint32_t plane[FP4_BLOCKS * FP4_WORDS][INT16_WORD / 2][INT16_NR];
};

static void fp4_pack_a(const struct mxfp_gemm_pack_job *job)
{
	int16_pack(job, INT16_MR, true);
}

/* Words of nibbles as pairs of integers. */
static void fp4_expand_codes(struct fp4_expanded *to, const uint8_t *w, size_t words)
{
	for (size_t i = 0; i < words; i++)
		for (size_t v = 0; v < INT16_VECTORS; v++, w += VECTOR_BYTES) {
			vs16 pairs[INT16_WORD / 2];

			decode_nibbles((vu8)load(w), pairs);
			for (size_t p = 0; p < INT16_WORD / 2; p++)
				store(&to->plane[i][p][v * LANES], (vu32)pairs[p]);
		}
}

enum { FP4_FEW_ROWS = BY_CODES_ROWS };

/* A panel of A of few rows, of which the first `rows` count, by nibbles. */
ALWAYS_INLINE void fp4_nibbles(const struct mxfp_gemm_multiply_job *job, const struct int16_panels *t, size_t rows)
{
	const size_t blocks = blocks_count(job->shape, job->k), pass = job->shape->pass / blocks_length(job->shape);

	for (size_t first = 0; first < blocks; first += pass)
		int16_pass(t, first, blocks - first < pass ? blocks : first + pass, rows, false, true, job->c);
}

static NOINLINE void fp4_rows(const struct mxfp_gemm_multiply_job *job)
{
	const size_t blocks = blocks_count(job->shape, job->k), a_bytes = int16_a_bytes(job->shape, job->k);
	const uint8_t *w = job->w, *a = job->a, *codes = w + fp4_codes(job->shape, job->k);
	struct fp4_expanded *expanded = job->scratch;
	struct blocks_head a_head, w_head;
	bool has_scales = false, has_plane = false;
	float *c = job->c;

	memcpy(&w_head, w, sizeof w_head);
	for (size_t row = 0; row < job->rows; row += INT16_MR, a += a_bytes, c += INT16_MR * INT16_NR) {
		memcpy(&a_head, a, sizeof a_head);
		const bool ordinary = scales_are_ordinary(&a_head, &w_head);
		struct int16_panels t = int16_begin(job, a);
		if (!has_scales)
			fp4_expand_scales(expanded->scales, w + BLOCKS_HEAD_BYTES, blocks);
		has_scales = true;
		t.w_scales = (const uint8_t *)expanded->scales;
		t.w = codes;
		if (ordinary && job->rows == 1) {
			fp4_nibbles(job, &t, 1);
			return;
		}
		if (ordinary && job->rows <= FP4_FEW_ROWS) {
			fp4_nibbles(job, &t, FP4_FEW_ROWS);
			return;
		}
		if (!has_plane)
			fp4_expand_codes(expanded, codes, blocks * FP4_WORDS);
		has_plane = true;
		t.w = (const uint8_t *)expanded->plane;
		int16_passes(job, &t, ordinary, job->rows - row, c);
	}
}

static PANELS_KERNEL(fp4_multiply, INT16_MR, INT16_NR, fp4_rows)

const struct mxfp_gemm_kernel TIER(gemm_fp4) = {
	.id = FP4_ID,
	.name = "fp4-" TIER_NAME,
	.mr = INT16_MR,
	.nr = INT16_NR,
	.a_panel_bytes = int16_a_bytes,
	.w_panel_bytes = fp4_w_bytes,
	.takes_panels = true,
	.scratch_bytes = sizeof(struct fp4_expanded),
	.pack_a = fp4_pack_a,
	.pack_w = fp4_pack_w,
	.multiply = fp4_multiply,
};
