/* SPDX-License-Identifier: MIT */
/* Reading rows of f32 or bf16 numbers and writing rows of results, strip by strip: what functions and row operations
   share. */
#ifndef MXFP_ROW_OUTPUT_H
#define MXFP_ROW_OUTPUT_H

#include <stdbool.h>

#include "args.h"
#include "kernels.h"
#include "mxfp/vector.h"

/* Numbers of a row that are computed together, a multiple of every block length. Three strips of f32, as a norm with
   weight and bias has, are 12 KiB of a frame. */
enum { MXFP_STRIP = 1024 };

/* For functions with strips on their stack, whose frames would add up if compilers inlined them. */
#define MXFP_OWN_FRAME __attribute__((noinline))

/* Checked rows of numbers in memory. */
struct mxfp_rows {
	const void *data;
	enum mxfp_format format; /* f32 or bf16 */
	size_t stride;           /* in elements, not 0 */
	struct mxfp_region memory;
};

/* A checked struct mxfp_row_output. */
struct mxfp_row_sink {
	struct mxfp_rows data;      /* .data is NULL if numbers are not wanted */
	struct mxfp_blocks *blocks; /* the caller's; NULL: not wanted */
	struct mxfp_region codes, scales;
	struct mxfp_quantize_job job; /* of the whole matrix */
	struct mxfp_counts *counts;   /* the caller's; NULL: not counted */
};

/* Checks a function and sets *bits to its parameter, given or not. MXFP_ERR_OPTION. */
enum mxfp_status mxfp_check_function(enum mxfp_function function, const float *parameter, uint32_t *bits);

/* Checks rows x cols numbers: MXFP_ERR_FORMAT, MXFP_ERR_NULL, MXFP_ERR_SIZE. */
enum mxfp_status mxfp_check_rows(struct mxfp_rows *checked, const void *data, enum mxfp_format format, size_t stride,
                                 size_t rows, size_t cols);

/* Checks the blocks of a sink and how they are made, except for their memory, which may be NULL. */
enum mxfp_status mxfp_check_sink_blocks(struct mxfp_row_sink *sink, struct mxfp_blocks *blocks,
                                        const struct mxfp_quantize_options *quantize, size_t rows, size_t cols);

/* Checks where rows x cols results go; errors as mxfp_apply(). */
enum mxfp_status mxfp_check_row_output(struct mxfp_row_sink *sink, const struct mxfp_row_output *output, size_t rows,
                                       size_t cols);

/* Whether results may overwrite these numbers, other than each its own: `data` that is the same rows is allowed. */
bool mxfp_sink_overlaps(const struct mxfp_row_sink *sink, const struct mxfp_rows *rows);

/* Writes what the caller's blocks get once a tensor, after all checks. */
void mxfp_sink_start(const struct mxfp_row_sink *sink);

/* Returns n numbers of a row from column col on as f32: where they lie, or in `buffer`. */
const float *mxfp_load_strip(const struct mxfp_kernels *kernels, const struct mxfp_rows *rows, size_t row, size_t col,
                             size_t n, float *buffer);

/* Returns where the numbers of the next of n rows are, for a kernel to fetch while it computes; NULL if there is none, or
   if the rows are not more than a core's own caches hold. */
const void *mxfp_next_strip(const struct mxfp_rows *rows, size_t row, size_t col, size_t n);

/* Returns where a kernel may write a strip of results: in place if that is all that is wanted, else `buffer`. */
float *mxfp_result_strip(const struct mxfp_row_sink *sink, size_t row, size_t col, float *buffer);

/* Writes n results, which lie where mxfp_result_strip() said. col is a multiple of MXFP_STRIP; n is MXFP_STRIP, or what
   remains of the row. */
void mxfp_store_strip(const struct mxfp_kernels *kernels, const struct mxfp_row_sink *sink, size_t row, size_t col,
                      size_t n, const float *values, struct mxfp_counts *counts);

#endif
