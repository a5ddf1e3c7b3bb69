/* SPDX-License-Identifier: MIT */
/* What decides every byte of a quantized model, as an object of strings that can be compared and shown. */
#ifndef TOOLS_QUANTIZE_FINGERPRINT_H
#define TOOLS_QUANTIZE_FINGERPRINT_H

#include <stdbool.h>

#include "quantize/quantize.h"

/* With `times` it holds when the source's files were changed last: that is for one machine, since a copy of them
   elsewhere may have other times. Data are looked at in a few places only. EXIT_IO, EXIT_INPUT, EXIT_MEMORY. */
int quantize_fingerprint(json_t **fingerprint, const struct quantize_plan *plan, const json_t *config, bool times,
                         struct error *error);

enum { FINGERPRINT_TEXT = 33 };

/* XXH3-128 of a fingerprint, as hexadecimal digits. EXIT_MEMORY. */
int quantize_fingerprint_text(const json_t *fingerprint, char text[FINGERPRINT_TEXT], struct error *error);

#endif
