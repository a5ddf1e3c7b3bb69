/* SPDX-License-Identifier: MIT */
/* The mathematics around products: functions of one number, each result the binary32 nearest to the true value
   (doc/numerics.md, section 8). */
#ifndef MXFP_VECTOR_H
#define MXFP_VECTOR_H

#include <stddef.h>

#include "exec.h"
#include "export.h"
#include "format.h"
#include "options.h"
#include "quantize.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where rows of results go: to numbers, to blocks, or to both. */
struct mxfp_row_output {
	size_t size;                /* sizeof(struct mxfp_row_output), or 0 (mxfp.h) */
	void *data;                 /* rows of numbers; NULL: not wanted */
	enum mxfp_format format;    /* of data: f32, or bf16, rounded from the binary32 result to nearest even */
	size_t stride;              /* of data: elements from a row to the next; 0: rows follow each other without a gap */
	struct mxfp_blocks *blocks; /* has as many rows and cols, and gets what mxfp_quantize() makes of the binary32
	                               results, in the same pass; NULL: not wanted */
	const struct mxfp_quantize_options *quantize; /* how; exec is ignored. Results are not known before they are written,
	                               so policy `error`, first_non_finite, and a tensor scale without tensor_amax are
	                               MXFP_ERR_OPTION. NULL: {0} */
};

/* All zero: the function's default parameter, all processors. */
struct mxfp_apply_options {
	size_t size;                  /* sizeof(struct mxfp_apply_options), or 0 (mxfp.h) */
	const float *parameter;       /* finite: slope of leaky-relu, alpha of elu, beta of silu. NULL: 0.01, 1, 1 */
	const struct mxfp_exec *exec; /* NULL: {0} */
};

/*
 * Computes the function of rows x cols numbers. src is f32 or bf16; its rows are src_stride elements apart (0: cols).
 * output->data may be src, with its format and stride. options may be NULL: {0}.
 *
 * Each result is the binary32 number nearest to the true value of the function, ties to even, subnormals and overflow to
 * Inf included; NaN gives 7FC00000. Limits stand for values at zeros and infinities, and a zero has the sign that the
 * function has beside it.
 *
 * MXFP_ERR_NULL: no output, neither data nor blocks in it, or a NULL array that is not empty; MXFP_ERR_FORMAT: a src or
 * output format that is not f32 or bf16, blocks not in a block format; MXFP_ERR_OPTION: a function out of range, a
 * parameter that is NaN or Inf, exec->isa, quantize as above or as mxfp_quantize(); MXFP_ERR_SIZE: overflow, a stride
 * shorter than a row, blocks of another shape; MXFP_ERR_OVERLAP: an array overlaps another, except data that is src.
 */
MXFP_API enum mxfp_status mxfp_apply(enum mxfp_function function, const struct mxfp_row_output *output, const void *src,
                                     enum mxfp_format src_format, size_t src_stride, size_t rows, size_t cols,
                                     const struct mxfp_apply_options *options);

#ifdef __cplusplus
}
#endif
#endif
