/* SPDX-License-Identifier: MIT */
/* What the kinds of tokenizers give to tokenizer.c. */
#ifndef TOOLS_EVAL_TOKENIZER_KIND_H
#define TOOLS_EVAL_TOKENIZER_KIND_H

#include "eval/pieces.h"
#include "eval/tokenizer.h"
#include "io/descriptor.h"

enum { TOKENIZER_NOTE = 256, TOKENIZER_ENDS = 32 };

struct tokenizer {
	const struct tokenizer_kind *kind;
	void *state;
	char *path;          /* for errors */
	uint64_t vocabulary; /* the model's */
	bool has_bos, has_eos;
	uint32_t bos, eos;
	size_t n_ends;             /* what the model's files say ends a text; 0: eos does */
	uint32_t ends[TOKENIZER_ENDS];
	char note[TOKENIZER_NOTE]; /* where files disagree, what was done; or empty */
};

/* How the program that a vocabulary is for reads a file of text. */
enum tokenizer_text {
	TOKENIZER_TEXT_BYTES, /* as it is */
	TOKENIZER_TEXT_UTF8,
	TOKENIZER_TEXT_PYTHON /* UTF-8, and CR LF and CR end lines as LF does: Python's open() has it so */
};

struct tokenizer_kind {
	/* Adds the ids of a text behind the sequences, and leaves it to the caller to end them and to check them against the
	   model's vocabulary. */
	int (*encode)(const struct tokenizer *tokenizer, const char *text, size_t n, struct token_sequences *tokens,
	              struct error *error);
	/* Appends the bytes of a token; `first`: of a text's first. Clears *shown if it is special and has none. */
	int (*decode)(const struct tokenizer *tokenizer, uint32_t id, bool first, struct pieces *out, bool *shown,
	              struct error *error);
	void (*close)(void *state);
	enum tokenizer_text text;
};

/* Read a tokenizer, whose path is set, and set the rest; tokenizer_close() cleans up after a failure. EXIT_INPUT,
   EXIT_IO, EXIT_MEMORY. */
int tokenizer_read_hf(struct tokenizer *tokenizer, descriptor_opener *opener, struct error *error);
int tokenizer_read_gguf(struct tokenizer *tokenizer, const struct file *file, struct error *error);
int tokenizer_read_llama2(struct tokenizer *tokenizer, struct error *error);

#endif
