/* SPDX-License-Identifier: MIT */
/*
 * Text to token ids and back, as the program does it that a model's vocabulary was made for:
 *
 *   Hugging Face  tokenizer.json of a byte pair encoding (tokenizer_hf.c), and tokenizer_config.json beside it
 *                 (tokenizer_config.c)
 *   GGUF          the vocabulary in a model's key-values (tokenizer_gguf.c)
 *   llama2.c      tokenizer.bin (tokenizer_llama2.c)
 *   bytes         id = byte, of a vocabulary of 256
 *
 * Text is UTF-8. Bytes that are not are U+FFFD, one for each longest part of a character, as Python's
 * bytes.decode(errors='replace') and Rust's from_utf8_lossy() have it; only llama2.c and bytes take them as they are.
 */
#ifndef TOOLS_EVAL_TOKENIZER_H
#define TOOLS_EVAL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "eval/token_file.h"
#include "model/model.h"

struct tokenizer;

/* The tokenizer at `path`: tokenizer.json, a directory with one, a GGUF file or llama2.c's *.bin. Of the model if
   `path` is NULL: its GGUF key-values, tokenizer.json in its directory, or bytes if the vocabulary is 256. No id that
   it gives is `vocabulary` or more. EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int tokenizer_open(struct tokenizer **tokenizer, const struct model *model, const char *path, uint64_t vocabulary,
                   struct error *error);

/* EXIT_INPUT with the line if a text from `where` is not UTF-8, unless any bytes are a text for the tokenizer. */
int tokenizer_check_text(const struct tokenizer *tokenizer, const char *where, const char *text, size_t n,
                         struct error *error);

/* The same for a file's bytes; makes of them the text that the tokenizer's program reads there, in place: CR LF and CR are LF
   where that is Python's open(). */
int tokenizer_read_text(const struct tokenizer *tokenizer, const char *path, char *text, size_t *n, struct error *error);

/* Appends the ids of a text as one sequence, with BOS before and EOS behind it if the tokenizer adds them. EXIT_INPUT
   if the text has no ids in the vocabulary, EXIT_MEMORY; nothing is appended then. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
                     struct error *error);

/* Appends the bytes of an id to *text, malloc'ed, of *n bytes, which begins as NULL and 0; a NUL stands behind them.
   The first token loses the space that encoding puts before a text. Special tokens have no bytes, and leave NULL as
   it is. EXIT_INPUT if no token has the id; EXIT_MEMORY. */
int tokenizer_decode(const struct tokenizer *tokenizer, uint32_t id, char **text, size_t *n, struct error *error);

/* What stands before a text, if the tokenizer adds that, and what ends one, if it is known. */
bool tokenizer_bos(const struct tokenizer *tokenizer, uint32_t *id);
bool tokenizer_eos(const struct tokenizer *tokenizer, uint32_t *id);

/* Whether a token ends a text that a model makes: one of eos_token_id of generation_config.json, or of config.json if that
   is not there, as transformers has it; else what the tokenizer says. */
bool tokenizer_ends(const struct tokenizer *tokenizer, uint32_t id);

/* Where the files of a tokenizer disagree, one line that says what was done; else NULL. NULL is fine. */
const char *tokenizer_note(const struct tokenizer *tokenizer);

/* NULL is fine. */
void tokenizer_close(struct tokenizer *tokenizer);

#endif
