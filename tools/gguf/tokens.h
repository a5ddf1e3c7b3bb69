/* SPDX-License-Identifier: MIT */
/* The vocabulary of a GGUF file, tokenizer.*, from a model's tokenizer.json and tokenizer_config.json. */
#ifndef TOOLS_GGUF_TOKENS_H
#define TOOLS_GGUF_TOKENS_H

#include <stdint.h>

#include "base/error.h"
#include "io/gguf_pairs.h"
#include "model/model.h"

/* What was made, for a summary. */
struct tokens_made {
	const char *model, *pre; /* tokenizer.ggml.model and .pre */
	uint64_t tokens, padded; /* all, and those of them that no token of tokenizer.json has */
	uint64_t merges;
};

/* Adds them; the model has `vocabulary` tokens. EXIT_INPUT: there is no tokenizer.json, or llama.cpp has no such
   tokenizer; EXIT_IO, EXIT_MEMORY. */
int tokens_put(struct gguf_pairs *pairs, const struct model *model, uint64_t vocabulary, struct tokens_made *made,
               struct error *error);

/* The same of the tokenizer.json at `path`. The model may be NULL: then neither its config.json nor a chat template beside
   it count. */
int tokens_put_file(struct gguf_pairs *pairs, const char *path, const struct model *model, uint64_t vocabulary,
                    struct tokens_made *made, struct error *error);

#endif
