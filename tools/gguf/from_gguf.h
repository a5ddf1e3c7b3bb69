/* SPDX-License-Identifier: MIT */
/*
 * A GGUF file as a model directory of Hugging Face: the way back of to_gguf.h, of the same families. MXFP4 and
 * NVFP4 move block for block into a layout, numbers stay as they are.
 */
#ifndef TOOLS_GGUF_FROM_GGUF_H
#define TOOLS_GGUF_FROM_GGUF_H

#include <stdbool.h>

#include "base/error.h"
#include "gguf/to_gguf.h"
#include "model/layout.h"
#include "model/model.h"

/* Whether that is what is asked for: the model is a GGUF file that says how large it is, and OUT is named like no file. */
bool from_gguf_wanted(const char *out, const struct model *model);

/* Writes OUT, or resumes writing it, and prints what was done unless the settings say no. EXIT_USAGE, EXIT_INPUT, EXIT_IO,
   EXIT_MEMORY, signals. */
int from_gguf(const struct to_gguf_settings *settings, const struct layout *layout, const struct model *model, struct error *error);

#endif
