/* SPDX-License-Identifier: MIT */
/* Writes one file of a quantized model, or what another run has left of it to write. */
#ifndef TOOLS_QUANTIZE_WRITE_H
#define TOOLS_QUANTIZE_WRITE_H

#include "io/partial.h"
#include "io/transfer.h"
#include "quantize/quantize.h"

/* Writes the file and fills in the counts of its entries; transfer->hash is a state of its own. EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY, signals. */
int quantize_write(struct transfer *transfer, struct quantize_plan *plan, const struct quantize_file *file,
                   const struct partial *partial, struct error *error);

/* Fills in the counts of a file's entries from its journal, when another process has written it. EXIT_IO, EXIT_INPUT,
   EXIT_MEMORY. */
int quantize_read_counts(struct quantize_plan *plan, const struct quantize_file *file, const struct partial *partial,
                         struct error *error);

#endif
