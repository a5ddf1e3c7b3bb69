/* SPDX-License-Identifier: MIT */
/* The reference kernel of mxfp_apply(): one number after the other. */
#include <string.h>

#include "ref.h"

void mxfp_apply_ref(const struct mxfp_apply_job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		uint32_t x;

		memcpy(&x, (const char *)job->src + i * sizeof x, sizeof x);
		x = mxfp_function_ref(job->function, x, job->parameter);
		memcpy((char *)job->dst + i * sizeof x, &x, sizeof x);
	}
}
