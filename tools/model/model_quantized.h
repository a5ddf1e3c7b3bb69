/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_MODEL_MODEL_QUANTIZED_H
#define TOOLS_MODEL_MODEL_QUANTIZED_H

#include "model/model.h"

/* Finds what model_quantized_by() tells of a model whose files and config are open: malloc'ed, NULL for nothing.
   EXIT_MEMORY. */
int model_find_quantizer(const struct model *model, char **phrase, struct error *error);

#endif
