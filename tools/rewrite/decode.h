/* SPDX-License-Identifier: MIT */
/* Decodes a quantized tensor of a model into another file as plain numbers, for dequantize.c and convert.c. */
#ifndef TOOLS_REWRITE_DECODE_H
#define TOOLS_REWRITE_DECODE_H

#include "base/option_kind.h"
#include "io/transfer.h"
#include "model/quantized.h"

/* Returns the dtype of numbers in a format. */
enum dtype decode_dtype(enum mxfp_format format);

/* Sets the shape that it had before it was quantized, of the same rank. */
void decode_shape(uint64_t *shape, const struct quantized *quantized);

/* Where in the target a matrix is written, in elements: by columns, the first and the distance to the next; or, with
   pitch 0, its rows one after the other. */
struct decode_place {
	uint64_t first, pitch;
};

/* Where a tensor is written, and what becomes of finite numbers that are too large for its dtype. */
struct decode_target {
	const char *name;             /* in transfer->writer, where it has such a dtype */
	const struct decode_place *place; /* NULL: the tensor is that alone */
	int overflow;                 /* enum mxfp_overflow, or OPTION_CHOICE_NONE: EXIT_INPUT. An Inf that is stored stays */
	const char *option;           /* of the command, that says the dtype: for the text of that error */
	const char *remedy;           /* for the same, as a phrase */
	struct mxfp_counts *counts;   /* added to: `saturated` became the largest number, `overflowed` Inf */
};

/* Decodes and writes it. Errors of quantized_read(); EXIT_INPUT also for what is too large; signals. */
int decode_tensor(struct transfer *transfer, const struct quantized *quantized, const struct decode_target *target,
                  struct error *error);

/* The same for a tensor in transfer->file that is ggml's Q8_0, has a decoder, or is of floating-point numbers. EXIT_IO, EXIT_INPUT;
   signals. */
int decode_numbers(struct transfer *transfer, const struct tensor *source, const struct decode_target *target,
                   struct error *error);

#endif
