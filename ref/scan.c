/* SPDX-License-Identifier: MIT */
/* Finds the largest finite magnitude and the first non-finite number of an array, one number at a time. */
#include "minifloat.h"
#include "ref.h"

void mxfp_scan_ref(struct mxfp_scan_job *job)
{
	const struct mxfp_format_info *format = mxfp_format_get_info(job->src_format);

	for (size_t i = 0; i < job->n; i++) {
		uint32_t magnitude = mxfp_ref_load(format, job->src, i) & ~MXFP_F32_SIGN;

		if (magnitude >= job->non_finite_from) {
			if (job->first_index + i < job->first_non_finite)
				job->first_non_finite = job->first_index + i;
		} else if (magnitude > job->amax) {
			job->amax = magnitude;
		}
	}
}
