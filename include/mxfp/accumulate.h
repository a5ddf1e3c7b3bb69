/* SPDX-License-Identifier: MIT */
/* Sums in memory: one matrix added to another in place, and several arrays to one (doc/numerics.md, section 10). */
#ifndef MXFP_ACCUMULATE_H
#define MXFP_ACCUMULATE_H

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

/* How sums become bf16. All zero: round to nearest even. */
struct mxfp_accumulate_options {
	size_t size;                  /* sizeof(struct mxfp_accumulate_options) */
	enum mxfp_round round;        /* of bf16: rne or sr; of f32, which needs no rounding: rne */
	uint64_t seed, stream, first_index; /* of stochastic rounding, as in struct mxfp_convert_options */
};

/*
 * Adds a matrix to numbers that are there: sum = fl32(sum + src), each element with one rounding to binary32, ties to
 * even; in bf16 that is rounded once more, by options->round.
 *
 * sum->data has src->rows rows of src->cols numbers in f32 or bf16. src is in any format, dense and not transposed; its
 * elements are what mxfp_dequantize() and mxfp_convert() to f32 make of them, rounded to binary32 where NVFP4 and overflow need
 * that. Sums are IEEE 754's: -0 + -0 is -0, Inf - Inf is NaN; every NaN becomes 7FC00000 or 7FC0. Nothing but rows and cols of
 * the sum is written.
 *
 * MXFP_ERR_FORMAT  src in no format, transposed or sparse; a sum neither in f32 nor in bf16
 * MXFP_ERR_OPTION  another rounding than the above; a sum with more than data
 */
MXFP_API enum mxfp_status mxfp_accumulate(const struct mxfp_result *sum, const struct mxfp_matrix *src,
                                          const struct mxfp_accumulate_options *options, const struct mxfp_exec *exec);

/*
 * Sums n_terms arrays of n numbers each, element by element: term 0, plus term 1, and so on in binary64, each sum
 * rounded to nearest even; the last is rounded once to binary32, and for bf16 once more, by options->round. So the
 * result depends on the order of the terms and on nothing else.
 *
 * Both formats are f32 or bf16. `sum` may be any of the terms, if it has their format; terms may overlap each
 * other, or be the same. n_terms is at least 1; n may be 0. Special values are as above. If
 * S is the exact sum, T that of the magnitudes and nothing overflows, then the binary32 result R has
 *
 *     |R - S| <= 2^-24 |S| + (n_terms - 1) 2^-52.99 T + 2^-150    for n_terms up to 2^40,
 *
 * and R is the binary32 nearest to S, in whatever order, where T is at most 2^53 units of the least bit that any number
 * has set: doc/numerics.md has the proof.
 *
 * MXFP_ERR_FORMAT   a format that is neither f32 nor bf16
 * MXFP_ERR_OPTION   a rounding as above
 * MXFP_ERR_SIZE     no term
 * MXFP_ERR_OVERLAP  `sum` overlaps a term that it is not, or the array of pointers
 */
MXFP_API enum mxfp_status mxfp_sum_arrays(void *sum, enum mxfp_format sum_format, const void *const *terms, size_t n_terms,
                                          enum mxfp_format term_format, size_t n,
                                          const struct mxfp_accumulate_options *options, const struct mxfp_exec *exec);

#ifdef __cplusplus
}
#endif
#endif
