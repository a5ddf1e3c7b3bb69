/* SPDX-License-Identifier: MIT */
/* Structured sparsity n:m: of every m consecutive elements of a row, n are kept. doc/numerics.md, section 7. */
#ifndef MXFP_SPARSE_H
#define MXFP_SPARSE_H

#include <stddef.h>

#include "exec.h"
#include "export.h"
#include "matrix.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A sparse matrix in memory that the caller owns. Groups of m elements start at the first element of a row; a short
 * last group is padded with +0. Exactly n elements of every group are kept, zeros among them if need be.
 *
 * Kept codes lie as the format's codes do in a dense row: in a block format as a little-endian bit stream, else as an
 * array. Masks have m bits per group, bit i for element i, from the low bit. Each row of codes or masks starts at a
 * byte boundary; spare bits are 0. In a block format, blocks and scales are those of the dense matrix.
 */
struct mxfp_sparse {
	size_t size;                  /* sizeof(struct mxfp_sparse) */
	enum mxfp_format format;      /* of the codes: any */
	struct mxfp_sparsity sparsity;
	size_t rows, cols;            /* of the dense matrix */
	void *codes;
	size_t codes_stride;          /* from a row to the next: bytes in a block format, else codes; 0: without a gap */
	void *masks;
	size_t masks_stride;          /* bytes; 0: without a gap */
};

/* Bytes that kept codes and masks need. */
struct mxfp_sparse_sizes {
	size_t codes_row_bytes, masks_row_bytes;
	size_t codes_bytes, masks_bytes; /* rows times the above */
};

/*
 * Computes the sizes for rows x cols elements (either may be 0).
 *
 * MXFP_ERR_FORMAT  not a format
 * MXFP_ERR_OPTION  an unknown pattern
 */
MXFP_API enum mxfp_status mxfp_sparse_size(struct mxfp_sparse_sizes *sizes, enum mxfp_format format,
                                           struct mxfp_sparsity sparsity, size_t rows, size_t cols);

/*
 * Makes the masks of src, numbers in f32, bf16 or f16; format and codes of `masks` are ignored. Keeps the n largest magnitudes
 * of a group, and of equal ones the first. Magnitude bits are compared as integers, so -0 = +0 and NaN is above Inf.
 *
 * pruned, if not NULL, gets src with +0 for every number that is not kept: numbers alone, in the format of src. It may be src,
 * with the same stride. Prune before quantizing, so that a block's scale comes from the numbers that are kept.
 *
 * MXFP_ERR_FORMAT  src not in f32, bf16 or f16, transposed or sparse; pruned in another format
 * MXFP_ERR_SHAPE   masks have other rows or columns than src
 * MXFP_ERR_OPTION  an unknown pattern; a pruned with more than data
 */
MXFP_API enum mxfp_status mxfp_sparse_prune(const struct mxfp_sparse *masks, const struct mxfp_result *pruned,
                                            const struct mxfp_matrix *src, const struct mxfp_exec *exec);

/*
 * Checks masks that come from elsewhere; sparse->codes, but not its stride, is ignored.
 *
 * MXFP_ERR_FORMAT  not a format
 * MXFP_ERR_OPTION  an unknown pattern
 * MXFP_ERR_MASK    a group does not have n bits, has bits past the row other than for the padding that mxfp_sparse_prune()
 *                  keeps (a last group of r < n elements has its n lowest bits), or a spare bit is set
 */
MXFP_API enum mxfp_status mxfp_sparse_check(const struct mxfp_sparse *sparse);

/*
 * Copies the codes that sparse->masks selects from a dense matrix of codes to sparse->codes; kept padding becomes code 0.
 * dense_stride is in the unit of sparse->codes_stride; dense rows are whole blocks in a block format.
 *
 * Errors as mxfp_sparse_check()
 */
MXFP_API enum mxfp_status mxfp_sparse_compress(const struct mxfp_sparse *sparse, const void *dense,
                                               size_t dense_stride, const struct mxfp_exec *exec);

/*
 * The inverse: writes the dense matrix of codes, with code 0 for what was not kept and for the padding of blocks.
 *
 * Errors as mxfp_sparse_check()
 */
MXFP_API enum mxfp_status mxfp_sparse_expand(void *dense, size_t dense_stride, const struct mxfp_sparse *sparse,
                                             const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
