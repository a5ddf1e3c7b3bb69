/* SPDX-License-Identifier: MIT */
/* What quantizing and dequantizing share: the check of a matrix in a block format. */
#ifndef MXFP_BLOCKS_H
#define MXFP_BLOCKS_H

#include "mxfp/quantize.h"

/* The spans in memory of a matrix of numbers and one of blocks. */
struct mxfp_spans {
	size_t numbers, codes, scales;
};

/* Checks a matrix of blocks, and one of numbers in `format` with rows *stride apart, against each other; fills the
   strides that are 0, in *b and *stride. */
enum mxfp_status mxfp_check_blocks(struct mxfp_blocks *b, const void *numbers, enum mxfp_format format, size_t *stride,
                                   struct mxfp_spans *span);

/* Checks options for a matrix of rows x cols, whose product does not overflow, and a block format. */
enum mxfp_status mxfp_check_quantize_options(enum mxfp_format format, size_t rows, size_t cols,
                                             const struct mxfp_quantize_options *o);

/* Byte offset of element (row, col) in codes or scales; col is a multiple of the block length. */
size_t mxfp_codes_offset(enum mxfp_format format, size_t stride, size_t row, size_t col);
size_t mxfp_scales_offset(enum mxfp_format format, size_t stride, size_t row, size_t col);

#endif
