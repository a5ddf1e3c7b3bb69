/* SPDX-License-Identifier: MIT */
/* The reference kernel of products of attention: doc/numerics.md, section 12, one number after the other. */
#include <string.h>

#include "f32.h"
#include "ref.h"

static uint32_t result(const struct mxfp_attend_job *job, size_t row, size_t col)
{
	size_t pass = job->first_pass;
	uint32_t c = 0;

	for (size_t k = 0; k < job->k; pass = MXFP_ATTEND_PASS) {
		const size_t end = job->k - k < pass ? job->k : k + pass;
		uint32_t p = 0;

		for (; k < end; k++)
			p = mxfp_f32_fma(mxfp_ref_number(job->a, row * job->a_stride + k), mxfp_ref_number(job->panel, k * MXFP_ATTEND_COLS + col), p);
		c = mxfp_f32_add(c, p);
	}
	return c;
}

void mxfp_attend_ref(const struct mxfp_attend_job *job)
{
	for (size_t row = 0; row < job->rows; row++)
		for (size_t col = 0; col < MXFP_ATTEND_COLS; col++) {
			const uint32_t c = result(job, row, col);

			memcpy(job->c + row * job->c_stride + col, &c, sizeof c);
		}
}
