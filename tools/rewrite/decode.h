/* SPDX-License-Identifier: MIT */
/* Decodes a quantized tensor of a model into another file as plain numbers, for dequantize.c and relayout.c. */
#ifndef TOOLS_REWRITE_DECODE_H
#define TOOLS_REWRITE_DECODE_H

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

/* Writes it to tensor `name`, of such a dtype, of transfer->writer, which is that alone if `place` is NULL. Errors of
   quantized_read(); signals. */
int decode_tensor(struct transfer *transfer, const struct quantized *quantized, const char *name,
                  const struct decode_place *place, struct error *error);

/* The same for a tensor of ggml's Q8_0 in transfer->file. EXIT_IO; signals. */
int decode_q8_0(struct transfer *transfer, const struct tensor *source, const char *name, struct error *error);

#endif
