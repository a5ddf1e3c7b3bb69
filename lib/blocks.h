/* SPDX-License-Identifier: MIT */
/* Checks of matrices in a block format and of quantize options, shared by quantizing, dequantizing and products. */
#ifndef MXFP_BLOCKS_H
#define MXFP_BLOCKS_H

#include "args.h"
#include "kernels.h"
#include "mxfp/quantize.h"
#include "tile.h"

/* The memory of a matrix of blocks, and its strides, none of them 0. */
struct mxfp_spans {
	struct mxfp_region codes, scales;
	size_t codes_stride, scales_stride;
};

/* Checks a matrix of blocks, except for its memory, and fills in what *span says of it. */
enum mxfp_status mxfp_check_codes(const struct mxfp_matrix *b, struct mxfp_spans *span);

/* Checks a dense matrix of blocks that is read, and copies it with its strides. */
enum mxfp_status mxfp_check_source_blocks(struct mxfp_matrix *checked, struct mxfp_spans *span,
                                          const struct mxfp_matrix *matrix);

/* Checks options for quantizing rows x cols elements, whose number does not overflow, to a block format. */
enum mxfp_status mxfp_check_quantize_options(enum mxfp_format format, size_t rows, size_t cols,
                                             const struct mxfp_quantize_options *o);

/* Fills in what the options say about a job. */
void mxfp_set_quantize_job(struct mxfp_quantize_job *job, const struct mxfp_quantize_options *o);

/* The pieces of a job, as mxfp_tile() or mxfp_square_tile() cuts them. */
size_t mxfp_quantize_piece_count(const struct mxfp_quantize_job *job);
struct mxfp_tile mxfp_quantize_piece(const struct mxfp_quantize_job *job, size_t piece);

/* Runs the kernel on a part of a job's source: `job` is a copy with the place of that part's blocks and its counts. */
void mxfp_quantize_tile(const struct mxfp_kernels *kernels, const struct mxfp_quantize_job *whole,
                        const struct mxfp_tile *tile, struct mxfp_quantize_job *job);

/* Return the byte offset of element (row, col) in codes or scales; col is a multiple of the block length. */
size_t mxfp_codes_offset(enum mxfp_format format, size_t stride, size_t row, size_t col);
size_t mxfp_scales_offset(enum mxfp_format format, size_t stride, size_t row, size_t col);

#endif
