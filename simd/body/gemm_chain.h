/* SPDX-License-Identifier: MIT */
/*
 * What the chain kernels share: P = fma(a, w, P) for each k in turn (doc/numerics.md, section 5). Panels of A are
 * [k][CHAIN_MR] of binary32, and W is multiplied as [k][CHAIN_NR] of binary32. Lanes are columns of C, and there are enough
 * independent sums that no FMA waits for the one before it.
 */
#ifndef MXFP_BODY_GEMM_CHAIN_H
#define MXFP_BODY_GEMM_CHAIN_H

#include "tier.h"

#include "body/gemm_panel.h"
#include "body/slots.h"

enum {
	CHAIN_NR = CHAIN_VECTORS * LANES,
	CHAIN_FEW = CHAIN_MR / 2 /* rows of A, the most of which are multiplied without the others of a panel */
};

static inline size_t chain_panel_bytes(size_t k)
{
	return panel_align(k * CHAIN_MR * sizeof(float));
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

/* A number of each row of a panel of A. */
struct number_line {
#ifdef HAS_LANE_PRODUCTS
	vu32 x[(CHAIN_MR + LANES - 1) / LANES];
#else
	const uint32_t *at;
#endif
};

ALWAYS_INLINE struct number_line number_line(const uint32_t *a)
{
#ifdef HAS_LANE_PRODUCTS
	struct number_line line;

#pragma GCC unroll 4
	for (size_t i = 0; i < CHAIN_MR; i += LANES)
		line.x[i / LANES] = whole(CHAIN_MR - i < LANES ? load_half(a + i) : load(a + i));
	return line;
#else
	return (struct number_line){a};
#endif
}

/* That of row r, a constant, in all lanes. */
ALWAYS_INLINE vf32 number_of(const struct number_line *line, size_t r)
{
#ifdef HAS_LANE_PRODUCTS
	return (vf32)splat(line->x[r / LANES][r % LANES]);
#else
	return (vf32)splat(line->at[r]);
#endif
}

/* One pass of the first `rows` rows of a panel of A. Lines of W lie w_step bytes apart, rows of sums c_step numbers. `rows`
   and c_step are constants where this is inlined. */
ALWAYS_INLINE void chain_pass(const uint32_t *a, const uint8_t *w, size_t w_step, size_t k, size_t rows, float *c, size_t c_step)
{
	vf32 p[CHAIN_MR][CHAIN_VECTORS] = {0};

#pragma GCC unroll 4
	for (size_t i = 0; i < k; i++, a += CHAIN_MR, w += w_step) {
		const struct number_line line = number_line(a);
		vf32 x[CHAIN_VECTORS];

#pragma GCC unroll 4
		for (size_t v = 0; v < CHAIN_VECTORS; v++)
			x[v] = (vf32)load(w + v * VECTOR_BYTES);
#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++) {
			const vf32 y = number_of(&line, r);

#pragma GCC unroll 4
			for (size_t v = 0; v < CHAIN_VECTORS; v++)
				p[r][v] = fma_f32(y, x[v], p[r][v]);
		}
	}
#pragma GCC unroll 8
	for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (size_t v = 0; v < CHAIN_VECTORS; v++) {
			float *at = c + r * c_step + v * LANES;

			store(at, (vu32)((vf32)load(at) + p[r][v]));
		}
}

/* One pass of a panel of A, of which `rows` rows are left, which may exceed the panel's. */
ALWAYS_INLINE void chain_pass_rows(const uint32_t *a, const uint8_t *w, size_t w_step, size_t k, size_t rows, float *c, size_t c_step)
{
	if (rows == 1)
		chain_pass(a, w, w_step, k, 1, c, c_step);
	else if (rows <= CHAIN_FEW)
		chain_pass(a, w, w_step, k, CHAIN_FEW, c, c_step);
	else
		chain_pass(a, w, w_step, k, CHAIN_MR, c, c_step);
}

#endif
