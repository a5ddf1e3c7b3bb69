/* SPDX-License-Identifier: MIT */
/* Asks for panels of W ahead of their use, where a product of few rows waits for memory. */
#ifndef MXFP_AVX512_FETCH_W_H
#define MXFP_AVX512_FETCH_W_H

#include "tier.h"

#include "kernels.h"

enum { W_NEAR = 2048 }; /* bytes ahead that a line is asked for into L1 */

/* Returns how many bytes after a line of the panel that of a later panel lies which is asked for meanwhile. */
ALWAYS_INLINE ptrdiff_t w_ahead(const struct mxfp_gemm_multiply_job *job)
{
	return (ptrdiff_t)((uintptr_t)job->w_later - (uintptr_t)job->w);
}

/* Into L2, which waits for more lines at once than L1 can. */
ALWAYS_INLINE void fetch_w(const void *at, ptrdiff_t ahead)
{
	_mm_prefetch((const char *)at + ahead, _MM_HINT_T1);
}

/* And from there into L1. */
ALWAYS_INLINE void fetch_w_near(const void *at)
{
	_mm_prefetch((const char *)at + W_NEAR, _MM_HINT_T0);
}

#endif
