/* SPDX-License-Identifier: MIT */
/* Quantizing to and from block formats: MX (32 elements share an E8M0 scale) and NVFP4 (16 share a UE4M3 scale, and the
   tensor has one more). doc/numerics.md, sections 3 and 4. */
#ifndef MXFP_QUANTIZE_H
#define MXFP_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec.h"
#include "export.h"
#include "format.h"
#include "matrix.h"
#include "options.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A matrix of rows x cols elements in a block format, in memory that the caller owns. Blocks run along rows; a row
 * whose length is not a multiple of the block is padded with zeros to whole blocks.
 *
 * Codes lie row-major as a little-endian bit stream: element 2i of a 4-bit format is in the low nibble, 4 codes of a
 * 6-bit format are 3 bytes, and each row starts at a byte boundary. Scales lie row-major, one byte per block.
 */
struct mxfp_blocks {
	size_t size;          /* sizeof(struct mxfp_blocks), or 0 (mxfp.h) */
	enum mxfp_format format;
	size_t rows, cols;
	void *codes;
	size_t codes_stride;  /* bytes from a row to the next; 0: rows follow each other without a gap */
	void *scales;
	size_t scales_stride; /* likewise */
	float tensor_scale;   /* set by mxfp_quantize() if the format has one */
	bool tensor_scale_divides; /* likewise: decoded elements are divided by tensor_scale instead of multiplied */
};

/* Returns blocks as a matrix for mxfp_dequantize() or a product, tensor scale included. */
static inline struct mxfp_matrix mxfp_blocks_matrix(const struct mxfp_blocks *blocks)
{
	struct mxfp_matrix matrix;

	matrix.size = sizeof matrix;
	matrix.format = blocks->format;
	matrix.rows = blocks->rows;
	matrix.cols = blocks->cols;
	matrix.data = blocks->codes;
	matrix.stride = blocks->codes_stride;
	matrix.scales = blocks->scales;
	matrix.scales_stride = blocks->scales_stride;
	matrix.tensor_scale = blocks->tensor_scale;
	matrix.tensor_scale_divides = blocks->tensor_scale_divides;
	matrix.transposed = false;
	matrix.sparsity.n = 0;
	matrix.sparsity.m = 0;
	matrix.masks = NULL;
	matrix.masks_stride = 0;
	return matrix;
}

/* Bytes that a matrix in a block format needs. */
struct mxfp_sizes {
	size_t codes_row_bytes, scales_row_bytes;
	size_t codes_bytes, scales_bytes; /* rows times the above */
};

/* Computes the sizes for rows x cols elements (either may be 0). MXFP_ERR_NULL; MXFP_ERR_FORMAT: not a block format;
   MXFP_ERR_SIZE: they overflow size_t. */
MXFP_API enum mxfp_status mxfp_blocks_size(enum mxfp_format format, size_t rows, size_t cols,
                                           struct mxfp_sizes *size);

/* All zero: rule mse, recipe te, round to nearest even, propagate NaN, keep -0, use all processors, count nothing. */
struct mxfp_quantize_options {
	size_t size;                     /* sizeof(struct mxfp_quantize_options), or 0 (mxfp.h) */
	enum mxfp_rule rule;             /* MX formats */
	enum mxfp_recipe recipe;         /* NVFP4 */
	enum mxfp_round round;           /* of the elements; NVFP4 recipe ggml has its own and takes only rne */
	enum mxfp_non_finite non_finite;
	bool no_negative_zero;           /* as in mxfp_convert_options */
	bool via_bf16;                   /* MX formats: round each element to bf16 (rne) first, for Trainium3 quantizes bf16 and f16
	                                    alone; what becomes Inf is treated as Inf and counted as overflowed */
	uint64_t seed, stream;           /* as in mxfp_convert_options */
	uint64_t first_index;            /* index of element (0, 0) in the tensor that the matrix is a piece of */
	const float *tensor_amax;        /* NVFP4: largest finite magnitude of the whole tensor (mxfp_amax), 0: the tensor
	                                    scale is 1; NULL: that of src */
	uint64_t *first_non_finite;      /* under every policy, set to the index of the first NaN or Inf, first_index
	                                    included; unchanged if there is none; NULL: not wanted */
	struct mxfp_counts *counts;      /* added to; NULL: not counted */
	const struct mxfp_exec *exec;    /* NULL: {0} */
	size_t block_rows;               /* rows whose blocks share a scale: 0 or 1, or 32 in MX formats: squares of 32 x 32,
	                                    as the transposed matrix has them. Read only if size is set. For mxfp_quantize(), mxfp_fake_quantize() */
};

/*
 * Quantizes rows x cols numbers to dst->format. src is f32, bf16 or f16; its rows are src_stride elements apart (0:
 * cols). options may be NULL: {0}. Writes the codes and scales of whole blocks, and dst->tensor_scale and
 * tensor_scale_divides if the format has a tensor scale. Gaps that strides leave are not written.
 *
 * An element becomes round(x / scale), saturating: in the MX formats from the exact quotient, in NVFP4 from the
 * binary32 that the recipe's operations give (doc/numerics.md, section 4). A block of zeros has scale byte 00 (NVFP4:
 * the recipe's). A block with a NaN or Inf follows options->non_finite. Under `mse` the squared error is the sum that
 * doc/numerics.md, section 3, defines. The tensor scale of NVFP4 comes from finite values only.
 *
 * With block_rows 32, rows 0 to 31, 32 to 63 and so on have equal scale bytes in each column of blocks, made from all
 * their elements there, and a NaN or Inf that makes a block NaN makes all of them so. Except for random words of
 * stochastic rounding, the result for the transposed matrix has these codes transposed. A piece of a tensor therefore
 * begins at a row that is a multiple of 32.
 *
 * Policy `error` scans src before anything is written. If what was written can be discarded, `propagate` with
 * first_non_finite is faster: without a NaN or Inf it reads src once (twice with via_bf16, or for NVFP4 without
 * tensor_amax).
 *
 * src, codes and scales may not overlap each other.
 * MXFP_ERR_NULL; MXFP_ERR_FORMAT; MXFP_ERR_OPTION: an enum out of range, rounding other than rne with recipe ggml,
 * via_bf16 with NVFP4, block_rows other than 0, 1 and, in MX formats, 32, a *tensor_amax that is negative, Inf or NaN, exec->isa; MXFP_ERR_SIZE: overflow, or a stride
 * shorter than a row; MXFP_ERR_OVERLAP; MXFP_ERR_NON_FINITE: policy `error` and a NaN or Inf in src.
 */
MXFP_API enum mxfp_status mxfp_quantize(struct mxfp_blocks *dst, const void *src, enum mxfp_format src_format,
                                        size_t src_stride, const struct mxfp_quantize_options *options);

/*
 * Decodes src, a dense matrix in a block format, into rows x cols numbers of dst_format (f32, bf16 or f16), rows
 * dst_stride elements apart (0: cols). exec may be NULL.
 *
 * MX: fl32(code * 2^s), exact except for overflow to Inf, then rounded to nearest even if dst_format is not f32.
 * NVFP4: (code * scale) * tensor_scale, or / tensor_scale, each operation rounded to binary32. A NaN scale gives
 * 7FC00000; padding is not written.
 *
 * MXFP_ERR_NULL, MXFP_ERR_FORMAT, MXFP_ERR_SIZE, MXFP_ERR_OVERLAP as above; MXFP_ERR_FORMAT also if src is
 * transposed; MXFP_ERR_OPTION: a sparse src, exec->isa.
 */
MXFP_API enum mxfp_status mxfp_dequantize(const struct mxfp_matrix *src, void *dst, enum mxfp_format dst_format,
                                          size_t dst_stride, const struct mxfp_exec *exec);

/*
 * Transposes a matrix of squares (block_rows 32): dst, which has the format of src, its rows as cols and its cols as rows,
 * receives the codes of src transposed and each square's scale byte in all its rows. So a W that was quantized once
 * serves X W^T by itself and Y W transposed. Padding of dst is written as zeros. exec may be NULL.
 *
 * MXFP_ERR_NULL; MXFP_ERR_FORMAT: not MX formats, or two; MXFP_ERR_SIZE: another shape, overflow, a stride shorter than a
 * row; MXFP_ERR_OVERLAP; MXFP_ERR_OPTION: rows of a square have different scales, exec->isa. Then nothing is written.
 */
MXFP_API enum mxfp_status mxfp_blocks_transpose(const struct mxfp_blocks *dst, const struct mxfp_blocks *src,
                                                const struct mxfp_exec *exec);

/* What mxfp_fake_quantize() writes. */
struct mxfp_fake_output {
	size_t size;             /* sizeof(struct mxfp_fake_output), or 0 (mxfp.h) */
	void *data;              /* rows of numbers; NULL: not wanted */
	enum mxfp_format format; /* of data: f32, bf16 or f16 */
	size_t stride;           /* of data: elements from a row to the next; 0: rows follow each other without a gap */
	uint8_t *clamped;        /* a byte an element: 1 if it was clamped, else 0; NULL: not wanted */
	size_t clamped_stride;   /* bytes from a row to the next; 0: without a gap */
};

/*
 * Quantizes rows x cols numbers to a block format and dequantizes them, without the blocks between: output->data becomes
 * bit for bit what mxfp_dequantize() makes of what mxfp_quantize() makes of src with these options, in the time of one
 * pass over memory. Training that is aware of quantization computes with these numbers. src is f32, bf16 or f16, and its
 * rows are src_stride elements apart (0: cols); data may be src, with its format and stride. The options, the numbers
 * they count and the index they return are those of mxfp_quantize(); NULL: {0}. Nothing is allocated.
 *
 * output->clamped says where a straight-through gradient is zero, as an array of bool in C, NumPy or PyTorch does. An
 * element is clamped if its magnitude before rounding is above the largest that its block holds: |x| > largest * scale in
 * MX formats, |quotient| > 6 in NVFP4 (doc/numerics.md, section 11). So it depends on the block's scale, but not on the
 * rounding mode or on random numbers, and includes elements that are past the largest one and are rounded to it, which
 * counts->saturated leaves out. In a block that is NaN, none is clamped.
 *
 * MXFP_ERR_NULL: no output, neither data nor clamped in it, or a NULL src, unless there are no elements; MXFP_ERR_FORMAT:
 * not a block format, src or data not in one of the three; MXFP_ERR_OPTION, MXFP_ERR_NON_FINITE as mxfp_quantize(), and
 * then nothing is written; MXFP_ERR_SIZE: overflow, a stride shorter than a row; MXFP_ERR_OVERLAP: data overlaps src other
 * than as above, or clamped overlaps either.
 */
MXFP_API enum mxfp_status mxfp_fake_quantize(enum mxfp_format format, const struct mxfp_fake_output *output,
                                             const void *src, enum mxfp_format src_format, size_t src_stride,
                                             size_t rows, size_t cols, const struct mxfp_quantize_options *options);

/* Raises *amax to the largest finite magnitude among n numbers of src_format (f32, bf16 or f16) if that is larger. The
   caller sets *amax to 0 before the first call; of one that is negative the magnitude counts, and a NaN stays. exec may be
   NULL. MXFP_ERR_NULL (src may be NULL if n is 0); MXFP_ERR_FORMAT; MXFP_ERR_OPTION: exec->isa; MXFP_ERR_SIZE. */
MXFP_API enum mxfp_status mxfp_amax(const void *src, enum mxfp_format src_format, size_t n, float *amax,
                                    const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
