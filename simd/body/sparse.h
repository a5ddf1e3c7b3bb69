/* SPDX-License-Identifier: MIT */
/* What the kernels of sparse codes share in every tier. */
#ifndef MXFP_BODY_SPARSE_H
#define MXFP_BODY_SPARSE_H

#include "kernels.h"

/* The bytes of a row of kept codes. */
ALWAYS_INLINE size_t sparse_kept_bytes(const struct mxfp_sparse_job *job, unsigned bits)
{
	return ((job->cols + job->sparsity.m - 1) / job->sparsity.m * job->sparsity.n * bits + 7) / 8;
}

/* Calls `run` with the bits of a code as a constant. */
ALWAYS_INLINE void sparse_run_width(const struct mxfp_sparse_job *job,
                                    void run(const struct mxfp_sparse_job *job, unsigned bits))
{
	switch (mxfp_code_bits(job->format)) {
	case 4:
		run(job, 4);
		break;
	case 6:
		run(job, 6);
		break;
	case 8:
		run(job, 8);
		break;
	case 16:
		run(job, 16);
		break;
	default:
		run(job, 32);
	}
}

#endif
