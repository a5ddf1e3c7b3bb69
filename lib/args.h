/* SPDX-License-Identifier: MIT */
/* Size arithmetic and argument checks that the public functions share. */
#ifndef MXFP_ARGS_H
#define MXFP_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mxfp/format.h"
#include "mxfp/options.h"

/* Sets *product to a * b; false on overflow. */
bool mxfp_multiply(size_t a, size_t b, size_t *product);

/* Memory that a call reads or writes: rows, a stride apart. One row, or rows without gaps, are one row as long as all. */
struct mxfp_region {
	const void *at;
	size_t bytes;             /* from the first to the last; 0: nothing */
	size_t row_bytes, stride; /* bytes */
};

/* Makes a region of `rows` rows of row_bytes; false on overflow or if the stride is shorter than a row. */
bool mxfp_region(struct mxfp_region *region, const void *at, size_t rows, size_t row_bytes, size_t stride);

/* The same as a status: MXFP_ERR_STRIDE, MXFP_ERR_SIZE. */
enum mxfp_status mxfp_check_region(struct mxfp_region *region, const void *at, size_t rows, size_t row_bytes, size_t stride);

/* The region of that many bytes. */
static inline struct mxfp_region mxfp_bytes(const void *at, size_t bytes)
{
	return (struct mxfp_region){at, bytes, bytes, bytes};
}

/* Whether two regions share a byte, of which the second begins between the first and the last byte of the first. */
bool mxfp_rows_overlap(const struct mxfp_region *a, const struct mxfp_region *b);

/* Whether two regions share a byte. If both have gaps, and other strides, then the gaps count as theirs. */
static inline bool mxfp_overlap(const struct mxfp_region *a, const struct mxfp_region *b)
{
	const uintptr_t first = (uintptr_t)a->at, other = (uintptr_t)b->at;

	return first - other < b->bytes && a->bytes != 0 ? mxfp_rows_overlap(b, a)
	                                                  : other - first < a->bytes && b->bytes != 0 && mxfp_rows_overlap(a, b);
}

bool mxfp_overlap_any(const struct mxfp_region *a, const struct mxfp_region *others, size_t n);

/* Whether two regions are the same rows. */
bool mxfp_same_region(const struct mxfp_region *a, const struct mxfp_region *b);

bool mxfp_is_element(enum mxfp_format format);
bool mxfp_is_block(enum mxfp_format format);

/* Whether the format is f32, bf16 or f16, which can be quantized from and dequantized to. */
bool mxfp_is_source(enum mxfp_format format);

bool mxfp_option_valid(enum mxfp_option option, int value);

/* Returns a / b rounded up. */
static inline size_t mxfp_divide_up(size_t a, size_t b)
{
	return a / b + (a % b != 0);
}

static inline size_t mxfp_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

#endif
