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
#include "matrix.h"
#include "options.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: rule mse, recipe te, round to nearest even, propagate NaN, keep -0. */
struct mxfp_quantize_options {
	size_t size;                     /* sizeof(struct mxfp_quantize_options) */
	enum mxfp_rule rule;             /* MX formats */
	enum mxfp_recipe recipe;         /* NVFP4 */
	enum mxfp_round round;           /* of the elements; NVFP4 recipe ggml has its own and takes only rne */
	enum mxfp_non_finite non_finite;
	bool no_negative_zero;           /* as in mxfp_convert_options */
	bool via_bf16;                   /* MX formats: round each element to bf16 (rne) first, for Trainium3 quantizes bf16 and f16
	                                    alone; what becomes Inf is treated as Inf and counted as overflowed */
	uint64_t seed, stream, first_index; /* as in mxfp_convert_options */
	struct mxfp_optional tensor_amax; /* NVFP4: largest finite magnitude of the whole tensor (mxfp_amax), 0: the tensor
	                                    scale is 1; none: that of src */
	size_t block_rows;               /* mxfp_quantize(), mxfp_fake_quantize(): rows whose blocks share a scale: 0 or 1, or 32 in
	                                    MX formats: squares of 32 x 32, as the transposed matrix has them */
};

/*
 * Quantizes src, numbers in f32, bf16 or f16, to result->blocks. Writes the codes and scales of whole blocks, and the tensor
 * scale if the format has one. Gaps that strides leave are not written.
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
 * result->data and result->clamped, if they are wanted too, are those of mxfp_fake_quantize().
 *
 * Policy `error` scans src before anything is written. If what was written can be discarded, `propagate` with
 * first_non_finite is faster: without a NaN or Inf it reads src once (twice with via_bf16, or for NVFP4 without
 * tensor_amax).
 *
 * MXFP_ERR_FORMAT      src is not f32, bf16 or f16, or is transposed or sparse; blocks not in a block format; data as below
 * MXFP_ERR_SHAPE       blocks have other rows or columns than src
 * MXFP_ERR_OPTION      an enum out of range; rounding other than rne with recipe ggml; via_bf16 with NVFP4; block_rows other than
 *                      0, 1 and, in MX formats, 32; a tensor_amax that is negative, Inf or NaN
 * MXFP_ERR_NON_FINITE  policy `error` and a NaN or Inf in src; *first_non_finite is set
 */
MXFP_API enum mxfp_status mxfp_quantize(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                        const struct mxfp_quantize_options *options, const struct mxfp_exec *exec);

/*
 * Decodes src, a dense matrix in a block format, to result->data (f32, bf16 or f16).
 *
 * MX: fl32(code * 2^s), exact except for overflow to Inf, then rounded to nearest even if the result is not f32.
 * NVFP4: (code * scale) * tensor_scale, or / tensor_scale, each operation rounded to binary32. A NaN scale gives
 * 7FC00000; padding is not written.
 *
 * MXFP_ERR_FORMAT  src is not in a block format, or is transposed or sparse; data not f32, bf16 or f16
 * MXFP_ERR_OPTION  a result with blocks, clamped, counts or first_non_finite
 */
MXFP_API enum mxfp_status mxfp_dequantize(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                          const struct mxfp_exec *exec);

/*
 * Fake quantization, as in quantization-aware training: result->data becomes bit for bit what mxfp_dequantize() makes of what
 * mxfp_quantize() makes of src in `format`, in one pass over memory and without the blocks between. src is f32, bf16 or f16,
 * and so is data, which may be src, with its format and stride.
 *
 * A straight-through estimator passes the gradient of every element, of clamped ones too: a block's scale follows its largest
 * number, which could never grow if its gradient stopped. It stops only beyond a scale that is given and follows nothing: of
 * NVFP4 with tensor_amax, where |x| > tensor_amax.
 *
 * result->clamped gets a byte an element, 1 if it was clamped, else 0: what the format and the rule cost. An element is clamped
 * if its magnitude before rounding is above the largest that its block holds: |x| > largest * scale in MX formats, |quotient| >
 * 6 in NVFP4 (doc/numerics.md, section 11). So it depends on the block's scale, but not on the rounding mode or on random
 * numbers, and includes elements that are past the largest one and are rounded to it, which counts->saturated leaves out. In a
 * block that is NaN, none is clamped.
 *
 * MXFP_ERR_NULL        neither data nor clamped in the result, unless there are no elements
 * MXFP_ERR_FORMAT      not a block format; src or data not f32, bf16 or f16; src transposed or sparse
 * MXFP_ERR_OPTION      as mxfp_quantize(); a result with blocks, which mxfp_quantize() makes beside these
 * MXFP_ERR_NON_FINITE  as mxfp_quantize()
 */
MXFP_API enum mxfp_status mxfp_fake_quantize(const struct mxfp_result *result, enum mxfp_format format,
                                             const struct mxfp_matrix *src, const struct mxfp_quantize_options *options,
                                             const struct mxfp_exec *exec);

/*
 * Transposes a matrix of squares (block_rows 32): dst, which has the format of src, its rows as cols and its cols as rows,
 * receives the codes of src transposed and each square's scale byte in all its rows. So a W that was quantized once
 * serves X W^T by itself and Y W transposed. Padding of dst is written as zeros.
 *
 * MXFP_ERR_FORMAT  src or dst not in an MX format, or in two; src transposed or sparse
 * MXFP_ERR_SHAPE   dst has other rows or columns
 * MXFP_ERR_OPTION  rows of a square have different scales
 */
MXFP_API enum mxfp_status mxfp_blocks_transpose(struct mxfp_blocks *dst, const struct mxfp_matrix *src,
                                                const struct mxfp_exec *exec);

/*
 * Raises *amax to the largest finite magnitude in src (f32, bf16 or f16) if that is larger. The caller sets *amax to 0
 * before the first call; of one that is negative the magnitude counts, and a NaN stays.
 *
 * MXFP_ERR_FORMAT  src is not f32, bf16 or f16, or is transposed or sparse
 */
MXFP_API enum mxfp_status mxfp_amax(float *amax, const struct mxfp_matrix *src, const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
