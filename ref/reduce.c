/* SPDX-License-Identifier: MIT */
/* Sums of buffers: doc/numerics.md, section 10. */
#include "f64.h"
#include "minifloat.h"
#include "ref.h"

void mxfp_reduce_ref(const struct mxfp_reduce_job *job)
{
	const struct mxfp_format_info *from = mxfp_format_get_info(job->src_format);

	for (size_t i = 0; i < job->n; i++) {
		uint64_t sum = mxfp_f64_from_f32(mxfp_ref_load(from, job->src[0], job->first + i));

		for (size_t b = 1; b < job->n_src; b++)
			sum = mxfp_f64_add(sum, mxfp_f64_from_f32(mxfp_ref_load(from, job->src[b], job->first + i)));
		mxfp_ref_store(mxfp_format_get_info(MXFP_FORMAT_F32), job->dst, i,
		               mxfp_f64_is_nan(sum) ? MXFP_F32_NAN : mxfp_f64_to_f32(sum));
	}
}
