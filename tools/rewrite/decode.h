/* SPDX-License-Identifier: MIT */
/* A quantized tensor of a model on its way into another file as plain numbers. */
#ifndef TOOLS_REWRITE_DECODE_H
#define TOOLS_REWRITE_DECODE_H

#include "io/transfer.h"
#include "model/quantized.h"

/* The dtype of numbers of a format. */
enum dtype decode_dtype(enum mxfp_format format);

/* Writes it as the tensor of that name, of such a dtype, of transfer->writer. What quantized_read() says; signals. */
int decode_tensor(struct transfer *transfer, const struct quantized *quantized, const char *name, struct error *error);

/* The same of a tensor of ggml's Q8_0 in transfer->file. EXIT_IO; signals. */
int decode_q8_0(struct transfer *transfer, const struct tensor *source, const char *name, struct error *error);

#endif
