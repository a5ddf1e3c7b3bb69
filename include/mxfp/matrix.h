/* SPDX-License-Identifier: MIT */
/* A matrix that a function reads: what mxfp_dequantize() and products take. */
#ifndef MXFP_MATRIX_H
#define MXFP_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

#include "format.h"
#include "sparse.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * rows x cols elements; in a product cols is K. In a block format `data` holds codes in the order of struct
 * mxfp_blocks, which mxfp_blocks_matrix() converts to this; else it holds numbers in f32, tf32, bf16 or f16. Whatever
 * lies past the last element of a row is ignored.
 */
struct mxfp_matrix {
	size_t size;          /* sizeof(struct mxfp_matrix), or 0 (mxfp.h) */
	enum mxfp_format format;
	size_t rows, cols;
	const void *data;
	size_t stride;        /* from a row to the next: bytes in a block format, else elements; 0: without a gap */
	const void *scales;   /* of block formats */
	size_t scales_stride; /* bytes; 0: without a gap */
	float tensor_scale;   /* of block formats that have one */
	bool tensor_scale_divides; /* decoded elements are divided by tensor_scale instead of multiplied */
	bool transposed;      /* numbers, of A or a dense W: stored as cols rows of `rows` numbers, stride apart */
	struct mxfp_sparsity sparsity; /* W only; all zero: dense. Else `data` holds only kept codes (mxfp/sparse.h) */
	const void *masks;
	size_t masks_stride;  /* bytes; 0: without a gap */
};

#ifdef __cplusplus
}
#endif
#endif
