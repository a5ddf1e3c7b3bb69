/* SPDX-License-Identifier: MIT */
/* The fingerprint of a run: all that decides the bytes of a quantized model, as an object of strings that can be compared
   and shown. */
#ifndef TOOLS_QUANTIZE_FINGERPRINT_H
#define TOOLS_QUANTIZE_FINGERPRINT_H

#include <stdbool.h>

#include "quantize/quantize.h"

/* With `times` it holds when the source's files were changed last: that is for one machine, since a copy of them
   elsewhere may have other times. Data are looked at in a few places only. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int quantize_fingerprint(json_t **fingerprint, const struct quantize_plan *plan, const json_t *config, bool times,
                         struct error *error);

#endif
