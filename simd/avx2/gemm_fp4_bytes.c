/* SPDX-License-Identifier: MIT */
/*
 * Exact block sums of W in MXFP4 and A in an MX format whose elements are integers of 8 bits in a unit: by bytes, as
 * fp4_bytes.h says. Few rows of A are multiplied by codes as they are decoded; for more, a panel of W is decoded first.
 */
#include "fp4_bytes.h"

/* What a panel of W becomes for that. */
struct bytes_expanded {
	float scales[FP4_BLOCKS * INT16_NR];
	uint8_t plane[FP4_BLOCKS * BYTES_WORDS][INT16_VECTORS][VECTOR_BYTES];
};

static size_t bytes_a_bytes(const struct mxfp_gemm_shape *shape, size_t k)
{
	(void)shape;
	return bytes_panel_bytes(k, 1);
}

static void bytes_pack_a(const struct mxfp_gemm_pack_job *job)
{
	bytes_pack(job, 1);
}

/* One pass over blocks first to end - 1 for all rows of a panel, by the expanded one. general, a constant: the scales are not ordinary. */
ALWAYS_INLINE void expanded_pass(const struct bytes_panels *t, const struct bytes_expanded *expanded, size_t first, size_t end, bool general, float *c)
{
	float p[BYTES_MR * INT16_NR] = {0};

	for (size_t b = first; b < end; b++) {
		const uint32_t *a = t->a + b * BYTES_LIMB * BYTES_MR;
		const uint8_t *w = expanded->plane[b * BYTES_WORDS][0];
		const float *w_scales = expanded->scales + b * INT16_NR;
		vu16 sum[BYTES_MR][INT16_VECTORS];

#pragma GCC unroll 8
		for (size_t r = 0; r < BYTES_MR; r++)
			for (size_t v = 0; v < INT16_VECTORS; v++)
				sum[r][v] = (vu16)splat(a[r]);
		for (size_t i = 0; i < BYTES_WORDS; i++, w += INT16_VECTORS * VECTOR_BYTES) {
			const vu8 w0 = (vu8)load(w), w1 = (vu8)load(w + VECTOR_BYTES);

			a += BYTES_MR;
#pragma GCC unroll 8
			for (size_t r = 0; r < BYTES_MR; r++) {
				sum[r][0] = add_products(sum[r][0], w0, a[r]);
				sum[r][1] = add_products(sum[r][1], w1, a[r]);
			}
		}
#pragma GCC unroll 16
		for (size_t i = 0; i < BYTES_MR * INT16_VECTORS; i++) {
			const size_t r = i / INT16_VECTORS, v = i % INT16_VECTORS;
			const vf32 term = __builtin_convertvector(add_halves(sum[r][v], 1), vf32);
			const float a_scale = t->a_scales[b * BYTES_MR + r];
			float *at = p + i * LANES, part[LANES];

			if (general) {
				store(part, (vu32)(term * t->unit));
				add_scaled(at, part, a_scale, (const uint8_t *)(w_scales + v * LANES));
			} else {
				store(at, (vu32)fma_f32(term, (vf32)load(w_scales + v * LANES) * t->unit * splat_f32(a_scale), (vf32)load(at)));
			}
		}
	}
	for (size_t i = 0; i < BYTES_MR * INT16_NR; i += LANES)
		store(c + i, (vu32)((vf32)load(c + i) + (vf32)load(p + i)));
}

static NOINLINE void expand(struct bytes_expanded *to, const uint8_t *w, size_t blocks, const uint8_t *codes)
{
	fp4_expand_scales(to->scales, w + BLOCKS_HEAD_BYTES, blocks);
	for (size_t i = 0; i < blocks * FP4_WORDS; i++)
		for (size_t v = 0; v < INT16_VECTORS; v++, codes += VECTOR_BYTES) {
			vu8 bytes[2];

			decode_word((vu8)load(codes), bytes);
			store(to->plane[2 * i][v], (vu32)bytes[0]);
			store(to->plane[2 * i + 1][v], (vu32)bytes[1]);
		}
}

static NOINLINE void ordinary_pass(const struct bytes_panels *t, const struct bytes_expanded *expanded, size_t first, size_t end,
                                   float *c)
{
	expanded_pass(t, expanded, first, end, false, c);
}

static NOINLINE void general_pass(const struct bytes_panels *t, const struct bytes_expanded *expanded, size_t first, size_t end,
                                  float *c)
{
	expanded_pass(t, expanded, first, end, true, c);
}

static BYTES_PASS(one_row, 1, 1, 2, false)
static BYTES_PASS(two_rows, 1, 2, 2, false)
static BYTES_PASS(four_rows, 1, 4, 2, false)
static BYTES_PASS(six_rows, 1, BYTES_MR, 2, false)

static NOINLINE void bytes_rows(const struct mxfp_gemm_multiply_job *job)
{
	static bytes_pass *const by_rows[BYTES_MR] = {one_row, two_rows, four_rows, four_rows, six_rows, six_rows};
	const size_t blocks = mx_blocks(job->k), pass = job->shape->pass / MXFP_MX_BLOCK;
	const uint8_t *a = job->a;
	struct bytes_panels t = bytes_begin(job);
	struct blocks_head a_head, w_head;
	bool is_expanded = false;
	float *c = job->c;

	memcpy(&w_head, job->w, sizeof w_head);
	for (size_t row = 0; row < job->rows; row += BYTES_MR, a += bytes_panel_bytes(job->k, 1), c += BYTES_MR * INT16_NR) {
		memcpy(&a_head, a, sizeof a_head);
		const bool ordinary = scales_are_ordinary(&a_head, &w_head);
		const bool by_codes = job->rows <= BYTES_SOME_ROWS && codes_are_ordinary(&a_head, &w_head);
		bytes_pass *const few = by_rows[job->rows - row < BYTES_MR ? job->rows - row - 1 : BYTES_MR - 1];

		bytes_take(&t, a, job->k);
		if (!by_codes)
			fetch_next_w(job, row / BYTES_MR, (job->rows + BYTES_MR - 1) / BYTES_MR);
		if (!by_codes && !is_expanded) {
			expand(job->scratch, job->w, blocks, t.codes);
			is_expanded = true;
		}
		for (size_t first = 0; first < blocks; first += pass) {
			const size_t end = blocks - first < pass ? blocks : first + pass;

			if (by_codes)
				few(&t, first, end, c);
			else if (ordinary)
				ordinary_pass(&t, job->scratch, first, end, c);
			else
				general_pass(&t, job->scratch, first, end, c);
		}
	}
}

static PANELS_KERNEL(bytes_multiply, BYTES_MR, INT16_NR, bytes_rows)

const struct mxfp_gemm_kernel TIER(gemm_fp4_bytes) = {
	.id = FP4_BYTES_ID,
	.name = "fp4-bytes-" TIER_NAME,
	.mr = BYTES_MR,
	.nr = INT16_NR,
	.a_panel_bytes = bytes_a_bytes,
	.w_panel_bytes = fp4_w_bytes,
	.takes_panels = true,
	.scratch_bytes = sizeof(struct bytes_expanded),
	.pack_a = bytes_pack_a,
	.pack_w = fp4_pack_w,
	.multiply = bytes_multiply,
};
