/* SPDX-License-Identifier: MIT */
/* Calls of the library whose rows follow each other without a gap, as most of the command's do. */
#ifndef TOOLS_BASE_LIBRARY_H
#define TOOLS_BASE_LIBRARY_H

#include "mxfp/quantize.h"
#include "mxfp/sparse.h"

#define ONE_THREAD (&(const struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = 1})

static inline enum mxfp_status dense_quantize(struct mxfp_blocks *blocks, enum mxfp_format format, const void *x,
                                             const struct mxfp_quantize_options *options, const struct mxfp_exec *exec)
{
	const struct mxfp_result result = mxfp_to_blocks(blocks);
	const struct mxfp_matrix matrix = mxfp_numbers(format, blocks->rows, blocks->cols, x);

	return mxfp_quantize(&result, &matrix, options, exec);
}

static inline enum mxfp_status dense_dequantize(void *x, enum mxfp_format format, const struct mxfp_matrix *blocks,
                                               const struct mxfp_exec *exec)
{
	const struct mxfp_result result = mxfp_to_numbers(format, x);

	return mxfp_dequantize(&result, blocks, exec);
}

static inline enum mxfp_status dense_amax(float *amax, enum mxfp_format format, const void *x, size_t n,
                                       const struct mxfp_exec *exec)
{
	const struct mxfp_matrix matrix = mxfp_numbers(format, 1, n, x);

	return mxfp_amax(amax, &matrix, exec);
}

/* Makes the masks, and in `pruned`, which may be x, the numbers that are kept. */
static inline enum mxfp_status dense_prune(const struct mxfp_sparse *masks, void *pruned, enum mxfp_format format, const void *x,
                                          const struct mxfp_exec *exec)
{
	const struct mxfp_result result = mxfp_to_numbers(format, pruned);
	const struct mxfp_matrix matrix = mxfp_numbers(format, masks->rows, masks->cols, x);

	return mxfp_sparse_prune(masks, &result, &matrix, exec);
}

#endif
