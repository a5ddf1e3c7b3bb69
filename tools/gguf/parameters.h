/* SPDX-License-Identifier: MIT */
/* The key-values of a GGUF file that say what the model is, from its config.json. */
#ifndef TOOLS_GGUF_PARAMETERS_H
#define TOOLS_GGUF_PARAMETERS_H

#include "base/error.h"
#include "eval/shape.h"
#include "io/gguf_pairs.h"
#include "model/model.h"

/* Adds general.* and ARCHITECTURE.*, as convert_hf_to_gguf.py of llama.cpp has them. EXIT_INPUT, naming the key of
   config.json: llama.cpp runs this family otherwise, whatever the file says. EXIT_MEMORY. */
int parameters_put(struct gguf_pairs *pairs, const struct model *model, const struct shape *shape, struct error *error);

/* What frequencies are divided by, numbers for rope_freqs.weight: shape->rotary_cols / 2 of them, malloc'ed; *factors is
   NULL if the scaling is not Llama 3's. EXIT_MEMORY. */
int parameters_rope_factors(float **factors, const struct shape *shape, struct error *error);

#endif
