/* SPDX-License-Identifier: MIT */
/* What functions read, struct mxfp_matrix, and where they write, struct mxfp_result. */
#ifndef MXFP_MATRIX_H
#define MXFP_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "options.h"
#include "sparsity.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A matrix that is read: rows x cols elements, in a product cols being K. In a block format `data` holds codes in the order of
 * struct mxfp_blocks, which mxfp_blocks_matrix() converts to this; else it holds numbers, which mxfp_numbers() describes. A
 * row's memory past its last element is ignored. An array of n numbers is a matrix of one row.
 */
struct mxfp_matrix {
	size_t size;          /* sizeof(struct mxfp_matrix) */
	enum mxfp_format format;
	size_t rows, cols;
	const void *data;
	size_t stride;        /* from a row to the next: bytes in a block format, else elements; 0: without a gap */
	const void *scales;   /* of block formats */
	size_t scales_stride; /* bytes; 0: without a gap */
	float tensor_scale;   /* of block formats that have one: 0 makes every number 0 */
	bool tensor_scale_divides; /* decoded elements are divided by tensor_scale instead of multiplied */
	bool transposed;      /* numbers, of A or a dense W of a product: stored as cols rows of `rows` numbers, stride apart */
	struct mxfp_sparsity sparsity; /* W of a product; all zero: dense. Else `data` holds only kept codes (mxfp/sparse.h) */
	const void *masks;
	size_t masks_stride;  /* bytes; 0: without a gap */
};

/*
 * A matrix of rows x cols elements in a block format, in memory that the caller owns. Blocks run along rows; a row
 * whose length is not a multiple of the block is padded with zeros to whole blocks.
 *
 * Codes lie row-major as a little-endian bit stream: element 2i of a 4-bit format is in the low nibble, 4 codes of a
 * 6-bit format are 3 bytes, and each row starts at a byte boundary. Scales lie row-major, one byte per block.
 */
struct mxfp_blocks {
	size_t size;          /* sizeof(struct mxfp_blocks) */
	enum mxfp_format format;
	size_t rows, cols;
	void *codes;
	size_t codes_stride;  /* bytes from a row to the next; 0: rows follow each other without a gap */
	void *scales;
	size_t scales_stride; /* likewise */
	float tensor_scale;   /* set by the call that makes the blocks, if the format has one */
	bool tensor_scale_divides; /* likewise: decoded elements are divided by tensor_scale instead of multiplied */
};

/* Where results go: to numbers, to blocks, or to both. */
struct mxfp_result {
	size_t size;              /* sizeof(struct mxfp_result) */
	enum mxfp_format format;  /* of data */
	void *data;               /* rows of numbers; NULL: not wanted */
	size_t stride;            /* of data: elements from a row to the next; 0: rows follow each other without a gap */
	struct mxfp_blocks *blocks; /* of as many rows and columns as there are results; NULL: not wanted */
	uint8_t *clamped;         /* mxfp_quantize(), mxfp_fake_quantize(): which elements were clamped; NULL: not wanted */
	size_t clamped_stride;    /* bytes; 0: without a gap */
	struct mxfp_counts *counts; /* what happened to elements that became codes is added here; NULL: not counted */
	uint64_t *first_non_finite; /* set to the index of the first NaN or Inf that is quantized, first_index of the options
	                             included; unchanged if there is none; NULL: not wanted */
};

/* Inline functions are code of the including program and must not meet its warnings: C++ may warn of 0 or NULL as a pointer,
   C11 of {}. */
#ifdef __cplusplus
#define MXFP_ZEROS {}
#else
#define MXFP_ZEROS {0}
#endif

/* Return a matrix or a result of which the other members are zero: rows follow each other without a gap. */

static inline struct mxfp_matrix mxfp_numbers(enum mxfp_format format, size_t rows, size_t cols, const void *data)
{
	struct mxfp_matrix matrix = MXFP_ZEROS;

	matrix.size = sizeof matrix;
	matrix.format = format;
	matrix.rows = rows;
	matrix.cols = cols;
	matrix.data = data;
	return matrix;
}

static inline struct mxfp_blocks mxfp_blocks_at(enum mxfp_format format, size_t rows, size_t cols, void *codes, void *scales)
{
	struct mxfp_blocks blocks = MXFP_ZEROS;

	blocks.size = sizeof blocks;
	blocks.format = format;
	blocks.rows = rows;
	blocks.cols = cols;
	blocks.codes = codes;
	blocks.scales = scales;
	return blocks;
}

/* Codes and scales that are only read as a matrix. A tensor scale, of a format that has one, is to be set. */
static inline struct mxfp_matrix mxfp_coded(enum mxfp_format format, size_t rows, size_t cols, const void *codes,
                                            const void *scales)
{
	struct mxfp_matrix matrix = mxfp_numbers(format, rows, cols, codes);

	matrix.scales = scales;
	return matrix;
}

/* Blocks as a matrix that is read. It copies the tensor scale, so the blocks must have been made before. */
static inline struct mxfp_matrix mxfp_blocks_matrix(const struct mxfp_blocks *blocks)
{
	struct mxfp_matrix matrix = mxfp_coded(blocks->format, blocks->rows, blocks->cols, blocks->codes, blocks->scales);

	matrix.stride = blocks->codes_stride;
	matrix.scales_stride = blocks->scales_stride;
	matrix.tensor_scale = blocks->tensor_scale;
	matrix.tensor_scale_divides = blocks->tensor_scale_divides;
	return matrix;
}

static inline struct mxfp_result mxfp_to_numbers(enum mxfp_format format, void *data)
{
	struct mxfp_result result = MXFP_ZEROS;

	result.size = sizeof result;
	result.format = format;
	result.data = data;
	return result;
}

static inline struct mxfp_result mxfp_to_blocks(struct mxfp_blocks *blocks)
{
	struct mxfp_result result = MXFP_ZEROS;

	result.size = sizeof result;
	result.blocks = blocks;
	return result;
}

#undef MXFP_ZEROS

/* Bytes that a matrix in a block format needs. */
struct mxfp_sizes {
	size_t codes_row_bytes, scales_row_bytes; /* of whole blocks */
	size_t codes_bytes, scales_bytes; /* rows times the above */
};

/*
 * Computes the sizes for rows x cols elements (either may be 0).
 *
 * MXFP_ERR_FORMAT  not a block format
 */
MXFP_API enum mxfp_status mxfp_blocks_size(struct mxfp_sizes *size, enum mxfp_format format, size_t rows, size_t cols);

#ifdef __cplusplus
}
#endif
#endif
