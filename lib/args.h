/* SPDX-License-Identifier: MIT */
/* Size arithmetic and argument checks that the public functions share. */
#ifndef MXFP_ARGS_H
#define MXFP_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "mxfp/format.h"
#include "mxfp/options.h"

/* Sets *product to a * b; false on overflow. */
bool mxfp_multiply(size_t a, size_t b, size_t *product);

/* Whether [a, a + a_bytes) and [b, b + b_bytes) share a byte. */
bool mxfp_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

/* Sets *span to the bytes from the first to the last of `rows` rows of row_bytes, stride_bytes apart; false on overflow
   or if the stride is shorter than a row. */
bool mxfp_span(size_t rows, size_t row_bytes, size_t stride_bytes, size_t *span);

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
