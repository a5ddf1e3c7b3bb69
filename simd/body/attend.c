/* SPDX-License-Identifier: MIT */
/*
 * Products of attention as ref/attend.c defines them. Lanes are columns of a panel, which is read as it lies in the cache; a
 * pass of it stays in the nearest cache while all rows go over it.
 */
#include "tier.h"

#include "body/slots.h"

enum {
	VECTORS = MXFP_ATTEND_COLS / LANES,
	ROWS = LANES == 16 ? 8 : 3, /* whose sums fill the registers */
	HALF = (ROWS + 1) / 2
};

/* One pass. */
struct pass {
	size_t from, k;
	bool first, last;
};

/* One pass of some rows. `rows` is a constant where this is inlined. */
ALWAYS_INLINE void attend_pass(const struct mxfp_attend_job *job, struct pass pass, size_t row, size_t rows)
{
	const float *a = job->a + row * job->a_stride + pass.from, *panel = job->panel + pass.from * MXFP_ATTEND_COLS;
	vf32 p[ROWS][VECTORS] = {0};

	for (size_t i = 0; i < pass.k; i++, panel += MXFP_ATTEND_COLS) {
		vf32 x[ROWS];

#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++) {
			uint32_t number;

			memcpy(&number, a + r * job->a_stride + i, sizeof number);
			x[r] = (vf32)splat(number);
		}
#pragma GCC unroll 8
		for (size_t v = 0; v < VECTORS; v++) {
			const vf32 w = (vf32)load(panel + v * LANES);

#pragma GCC unroll 8
			for (size_t r = 0; r < rows; r++)
				p[r][v] = fma_f32(x[r], w, p[r][v]);
		}
	}
#pragma GCC unroll 8
	for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 8
		for (size_t v = 0; v < VECTORS; v++) {
			float *at = job->c + (row + r) * job->c_stride + v * LANES;
			const vf32 c = (pass.first ? (vf32)splat(0) : (vf32)load(at)) + p[r][v];

			store(at, pass.last ? blend(c == c, (vu32)c, splat(F32_NAN)) : (vu32)c);
		}
}

/* One pass of all rows. */
static void attend_rows(const struct mxfp_attend_job *job, struct pass pass)
{
	for (size_t row = 0, n; row < job->rows; row += n) {
		const size_t left = job->rows - row;

		/* Of four rows, two and two keep more sums at work than three and one. */
		n = left >= ROWS && left != 4 ? ROWS : left >= HALF ? HALF : left >= 2 ? 2 : 1;
		if (n == ROWS)
			attend_pass(job, pass, row, ROWS);
		else if (n == HALF)
			attend_pass(job, pass, row, HALF);
		else if (n == 2)
			attend_pass(job, pass, row, 2);
		else
			attend_pass(job, pass, row, 1);
	}
}

static NOINLINE void attend(const struct mxfp_attend_job *job)
{
	struct pass pass = {0, job->first_pass, true, false};

	do {
		pass.last = job->k - pass.from <= pass.k;
		if (pass.last)
			pass.k = job->k - pass.from;
		attend_rows(job, pass);
		pass = (struct pass){pass.from + pass.k, MXFP_ATTEND_PASS, false, pass.last};
	} while (!pass.last);
}

FP_KERNEL(TIER(attend), mxfp_attend_job, attend)
