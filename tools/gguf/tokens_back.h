/* SPDX-License-Identifier: MIT */
/* tokenizer.json and tokenizer_config.json from the vocabulary of a GGUF file. */
#ifndef TOOLS_GGUF_TOKENS_BACK_H
#define TOOLS_GGUF_TOKENS_BACK_H

#include <jansson.h>

#include "base/error.h"
#include "io/file.h"

/* Makes both, which the caller releases: *tokenizer of *config's class. EXIT_INPUT: the vocabulary is missing, damaged, or
   of a kind that no tokenizer.json says; EXIT_IO, EXIT_MEMORY. */
int tokens_back(json_t **tokenizer, json_t **config, const struct file *file, struct error *error);

#endif
