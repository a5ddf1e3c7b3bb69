/* SPDX-License-Identifier: MIT */
/* What products need of sparsity: sizes in bytes, and the check of masks. */
#ifndef MXFP_LIB_SPARSE_H
#define MXFP_LIB_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "mxfp/sparse.h"

/* Whether a matrix is sparse. */
static inline bool mxfp_is_sparse(const struct mxfp_matrix *matrix)
{
	return matrix->sparsity.n != 0 || matrix->sparsity.m != 0;
}

/* Whether the library knows the pattern. */
bool mxfp_is_sparsity(struct mxfp_sparsity sparsity);

/* Computes the bytes of a dense row in any format: whole blocks in a block format. False on overflow. */
bool mxfp_dense_row_bytes(enum mxfp_format format, size_t cols, size_t *bytes);

/* Whether every group keeps exactly n elements, none past the row except the padding that pruning keeps, and no spare
   bit is set. The stride is not 0. */
bool mxfp_masks_valid(struct mxfp_sparsity sparsity, size_t rows, size_t cols, const uint8_t *masks, size_t stride);

#endif
