/* SPDX-License-Identifier: MIT */
/* Conversion of numbers between element formats (doc/numerics.md, sections 1 and 2). */
#ifndef MXFP_CONVERT_H
#define MXFP_CONVERT_H

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

/* All zero: round to nearest even, saturate, keep -0. */
struct mxfp_convert_options {
	size_t size;                /* sizeof(struct mxfp_convert_options) */
	enum mxfp_round round;
	enum mxfp_overflow overflow;
	bool no_negative_zero;      /* -0, and a negative that rounds to zero, give +0 */
	uint64_t seed;              /* of stochastic rounding: the Philox key */
	uint64_t stream;            /* counter words 2 and 3: a different number for each tensor */
	uint64_t first_index;       /* index of element (0, 0) in the tensor that the matrix is a piece of; element (row, col)
	                               has first_index + row * cols + col */
};

/*
 * Converts numbers of src->format to result->format, each rounded once from its exact value. Both are element formats. The
 * result has numbers alone.
 *
 * Codes of at most 8 bits are one to a byte (spare high bits are ignored on input and 0 on output), bf16 and f16 are 2-byte
 * words, f32 and tf32 4-byte words in the machine's byte order; the low 13 bits of a tf32 word are ignored on input and 0 on
 * output.
 *
 * NaN stays NaN with its sign: the canonical code in an 8-bit format, the top payload bits and the quiet bit in a
 * wider one. In a format without NaN it becomes +max; in ue4m3 it becomes 7F and in e8m0 FF, as does any negative. Inf
 * clamps to +-max (sat), or becomes Inf, or NaN if there is no Inf (ovf). Subnormals are kept, and so is -0 except in
 * int8, e8m0 and ue4m3, which have none. Every source is exact in binary32, so the binary32 case defines all pairs.
 *
 * MXFP_ERR_FORMAT  src or the result is not in an element format; src is transposed or sparse
 * MXFP_ERR_OPTION  an enum out of range; a result with blocks, clamped or first_non_finite
 */
MXFP_API enum mxfp_status mxfp_convert(const struct mxfp_result *result, const struct mxfp_matrix *src,
                                       const struct mxfp_convert_options *options, const struct mxfp_exec *exec);

/* The same of an array of n numbers. */
static inline enum mxfp_status mxfp_convert_array(void *dst, enum mxfp_format dst_format, const void *src,
                                                  enum mxfp_format src_format, size_t n,
                                                  const struct mxfp_convert_options *options, const struct mxfp_exec *exec)
{
	const struct mxfp_result result = mxfp_to_numbers(dst_format, dst);
	const struct mxfp_matrix matrix = mxfp_numbers(src_format, 1, n, src);

	return mxfp_convert(&result, &matrix, options, exec);
}

#ifdef __cplusplus
}
#endif
#endif
