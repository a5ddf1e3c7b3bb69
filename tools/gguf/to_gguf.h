/* SPDX-License-Identifier: MIT */
/*
 * A model of Hugging Face as a GGUF file that llama.cpp runs: of the families that `mxfp eval` runs, MXFP4 and NVFP4 block
 * for block, numbers as they are.
 */
#ifndef TOOLS_GGUF_TO_GGUF_H
#define TOOLS_GGUF_TO_GGUF_H

#include <stdbool.h>

#include "base/error.h"
#include "model/model.h"

struct to_gguf_settings {
	const char *in, *out;
	unsigned threads;
	bool allow_rounding, force, json, resume, quiet;
};

/* Whether that is what is asked for: OUT is named like a GGUF file, and the model is a directory with a config.json. */
bool to_gguf_wanted(const char *out, const struct model *model);

/* Writes OUT, or resumes writing it, and prints what was done unless the settings say no; of a model whose codes are as
   they are stored, of which model_decode_scaled() makes numbers here. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY,
   signals. */
int to_gguf(const struct to_gguf_settings *settings, struct model *model, struct error *error);

#endif
