/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_QUANTIZE_MACHINES_H
#define TOOLS_QUANTIZE_MACHINES_H

#include "quantize/quantize.h"

/* Prints how long quantizing the model takes on several machines, as text or JSON: what each reads and writes if they
   share the files as --part 1/N to N/N do, at rates that the settings give or that are measured here: reading by some
   of the largest file, quantizing by numbers in memory. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int quantize_machines(struct quantize_plan *plan, struct error *error);

#endif
