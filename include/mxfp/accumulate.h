/* SPDX-License-Identifier: MIT */
/* Sums in memory: one matrix added to another in place, and several buffers to one (doc/numerics.md, section 10). */
#ifndef MXFP_ACCUMULATE_H
#define MXFP_ACCUMULATE_H

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

/* How sums become bf16. All zero: round to nearest even, use all processors. */
struct mxfp_accumulate_options {
	size_t size;                  /* sizeof(struct mxfp_accumulate_options), or 0 (mxfp.h) */
	enum mxfp_round round;        /* of bf16: rne or sr; of f32, which needs no rounding: rne */
	uint64_t seed, stream;        /* of stochastic rounding, as in struct mxfp_convert_options */
	uint64_t first_index;         /* index of the first element in the tensor that dst is a piece of; element (row, col)
	                                 has first_index + row * cols + col */
	const struct mxfp_exec *exec; /* NULL: {0} */
};

/*
 * Adds a matrix to numbers that are there: dst = fl32(dst + src), each element with one rounding to binary32, ties to
 * even; in bf16 that is rounded once more, by options->round.
 *
 * dst has src->rows rows of src->cols numbers in f32 or bf16, dst_stride numbers apart (0: cols). src is in any format,
 * dense and not transposed; its elements are what mxfp_dequantize() and mxfp_convert() to f32 make of them, rounded to
 * binary32 where NVFP4 and overflow need that. Sums are IEEE 754's: -0 + -0 is -0, Inf - Inf is NaN; every NaN becomes
 * 7FC00000 or 7FC0. Nothing but rows and cols of dst is written. options may be NULL: {0}.
 *
 * MXFP_ERR_NULL; MXFP_ERR_FORMAT: src in no format or transposed, dst_format neither f32 nor bf16; MXFP_ERR_OPTION: a
 * sparse src, another rounding than the above, exec->isa; MXFP_ERR_SIZE: a stride shorter than a row, or overflow;
 * MXFP_ERR_OVERLAP: dst overlaps src.
 */
MXFP_API enum mxfp_status mxfp_accumulate(const struct mxfp_matrix *src, void *dst, enum mxfp_format dst_format,
                                          size_t dst_stride, const struct mxfp_accumulate_options *options);

/*
 * Sums n_src buffers of n numbers each, element by element: src[0], plus src[1], and so on in binary64, each sum
 * rounded to nearest even; the last is rounded once to binary32, and for bf16 once more, by options->round. So the
 * result depends on the order of the buffers and on nothing else.
 *
 * Both formats are f32 or bf16. dst may be any of the buffers, if dst_format is src_format; buffers may overlap each
 * other, or be the same. n_src is at least 1; n may be 0, and then pointers may be NULL. Special values are as above. If
 * S is the exact sum, T that of the magnitudes and nothing overflows, then the binary32 result R has
 *
 *     |R - S| <= 2^-24 |S| + (n_src - 1) 2^-52.99 T + 2^-150    for n_src up to 2^40,
 *
 * and R is the binary32 nearest to S, in whatever order, where T is at most 2^53 units of the least bit that any number
 * has set: doc/numerics.md has the proof.
 *
 * MXFP_ERR_NULL; MXFP_ERR_FORMAT; MXFP_ERR_OPTION: a rounding as above, exec->isa; MXFP_ERR_SIZE: no buffer, or n or
 * first_index + n overflows; MXFP_ERR_OVERLAP: dst overlaps a buffer that it is not, or the array
 * of pointers.
 */
MXFP_API enum mxfp_status mxfp_reduce(void *dst, enum mxfp_format dst_format, const void *const *src,
                                      enum mxfp_format src_format, size_t n_src, size_t n,
                                      const struct mxfp_accumulate_options *options);

#ifdef __cplusplus
}
#endif
#endif
