/* SPDX-License-Identifier: MIT */
/* What the calls share about struct mxfp_matrix and struct mxfp_result: checking them, and reading and writing rows strip by
   strip. */
#ifndef MXFP_LIB_RESULT_H
#define MXFP_LIB_RESULT_H

#include <stdbool.h>

#include "args.h"
#include "f64.h"
#include "kernels.h"
#include "mxfp/matrix.h"
#include "mxfp/quantize.h"

/* Numbers of a row that are computed together, a multiple of every block length. Three strips of f32, as a norm with
   weight and bias has, are 12 KiB of a frame. */
enum { MXFP_STRIP = 1024 };

/* For functions with strips on their stack, whose frames would add up if compilers inlined them. */
#define MXFP_OWN_FRAME __attribute__((noinline))

/* Checked rows of numbers in memory. */
struct mxfp_rows {
	const void *data;
	enum mxfp_format format;
	size_t rows, cols;
	size_t stride;           /* in elements, not 0 unless cols is */
	struct mxfp_region memory;
};

/* A checked struct mxfp_result. */
struct mxfp_sink {
	struct mxfp_rows data;      /* .data is NULL if numbers are not wanted */
	uint8_t *clamped;           /* NULL: not wanted */
	size_t clamped_stride;
	struct mxfp_blocks *blocks; /* the caller's; NULL: not wanted */
	struct mxfp_region marks, codes, scales; /* memory of what is clamped, and of blocks */
	struct mxfp_quantize_job job; /* of the whole matrix, if there are blocks */
	struct mxfp_counts *counts;   /* the caller's; NULL: not counted */
	uint64_t *first_non_finite;   /* likewise */
};

/* Whether a call takes numbers in this format. */
typedef bool mxfp_takes(enum mxfp_format format);

/* f32 or bf16; f32. */
mxfp_takes mxfp_is_row_format, mxfp_is_f32;

/* Parts of a result besides numbers that a call takes. */
enum {
	MXFP_TAKES_BLOCKS = 1,
	MXFP_TAKES_CLAMPED = 2,
	MXFP_TAKES_COUNTS = 4,
	MXFP_TAKES_NON_FINITE = 8,
	MXFP_TAKES_NOTHING = 16 /* that no part is wanted */
};

/* Checks a matrix of numbers, dense and not transposed: MXFP_ERR_NULL, _VERSION, _FORMAT, _STRIDE, _SIZE. */
enum mxfp_status mxfp_check_numbers(struct mxfp_rows *checked, const struct mxfp_matrix *matrix, mxfp_takes *takes);

/* The same of rows x cols numbers: MXFP_ERR_SHAPE, too. */
enum mxfp_status mxfp_check_input(struct mxfp_rows *checked, const struct mxfp_matrix *matrix, mxfp_takes *takes, size_t rows,
                                  size_t cols);

/* Checks a result of rows x cols numbers, but for its blocks: MXFP_ERR_NULL if no part is wanted, _OPTION for a part that is not
   among `parts`, and as mxfp_check_input(). */
enum mxfp_status mxfp_check_result(struct mxfp_sink *sink, const struct mxfp_result *result, mxfp_takes *takes, int parts,
                                   size_t rows, size_t cols);

/* Checks the blocks that a sink has, if any, and how they are made, except for their memory, which may be NULL. `options` has
   passed MXFP_SIZED(). */
enum mxfp_status mxfp_check_result_blocks(struct mxfp_sink *sink, const struct mxfp_quantize_options *options, size_t rows,
                                          size_t cols);

/* Both, for results that are not known before they are written: the options are the caller's. */
enum mxfp_status mxfp_check_sink(struct mxfp_sink *sink, const struct mxfp_result *result,
                                 const struct mxfp_quantize_options *options, size_t rows, size_t cols);

/* Whether such results can be quantized with these options. */
bool mxfp_is_one_pass(enum mxfp_format format, const struct mxfp_quantize_options *options);

/* Whether parts of the sink overlap each other, or memory is missing. */
enum mxfp_status mxfp_check_sink_memory(const struct mxfp_sink *sink, size_t rows, size_t cols);

/* Whether results may overwrite these numbers, other than each its own: `data` that is the same rows is allowed. */
bool mxfp_sink_overlaps(const struct mxfp_sink *sink, const struct mxfp_rows *rows);

/* Whether results may overwrite any of this memory. */
bool mxfp_sink_touches(const struct mxfp_sink *sink, const struct mxfp_region *memory);

/* Writes what the caller's blocks get once a tensor, after all checks. */
void mxfp_sink_start(const struct mxfp_sink *sink);

/* Returns n numbers of a row from column col on as f32: where they lie, or in `buffer`. */
const float *mxfp_load_strip(const struct mxfp_kernels *kernels, const struct mxfp_rows *rows, size_t row, size_t col,
                             size_t n, float *buffer);

/* Returns where the numbers of the next of n rows are, for a kernel to fetch while it computes; NULL if there is none, or
   if the rows are not more than a core's own caches hold. */
const void *mxfp_next_strip(const struct mxfp_rows *rows, size_t row, size_t col, size_t n);

/* Returns where a kernel may write a strip of results: in place if that is all that is wanted, else `buffer`. */
float *mxfp_result_strip(const struct mxfp_sink *sink, size_t row, size_t col, float *buffer);

/* Writes n results, which lie where mxfp_result_strip() said. col is a multiple of MXFP_STRIP; n is MXFP_STRIP, or what
   remains of the row. */
void mxfp_store_strip(const struct mxfp_kernels *kernels, const struct mxfp_sink *sink, size_t row, size_t col,
                      size_t n, const float *values, struct mxfp_counts *counts);

/* The numbers from `col` on that one strip of a row of cols numbers holds. */
static inline size_t mxfp_strip_length(size_t cols, size_t col)
{
	return cols - col < MXFP_STRIP ? cols - col : MXFP_STRIP;
}

/* Sets n numbers to the binary32 with these bits. */
void mxfp_fill(float *at, size_t n, uint32_t bits);

/* Returns the sum over cols numbers; `mean` is that of deviations. */
uint64_t mxfp_row_total(const struct mxfp_kernels *kernels, enum mxfp_sum sum, const struct mxfp_rows *rows, size_t row,
                        size_t cols, uint64_t mean);

/* Checks a function and sets *bits to its parameter, given or not. MXFP_ERR_OPTION. */
enum mxfp_status mxfp_check_function(enum mxfp_function function, struct mxfp_optional parameter, uint32_t *bits);

#endif
