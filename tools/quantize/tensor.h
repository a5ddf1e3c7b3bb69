/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_QUANTIZE_TENSOR_H
#define TOOLS_QUANTIZE_TENSOR_H

#include "io/transfer.h"
#include "quantize/quantize.h"

/* Reads a tensor from transfer->file, hashing it, writes its parts and counts what happened to its elements.
   EXIT_INPUT, EXIT_IO, EXIT_MEMORY, signals. */
int quantize_tensor(struct transfer *transfer, const struct quantize_plan *plan, struct quantize_entry *entry,
                    struct error *error);

#endif
