/* SPDX-License-Identifier: MIT */
/* What a model is run on: tokens from a file, or a text and the tokenizer that reads it, in windows. */
#ifndef TOOLS_EVAL_CORPUS_H
#define TOOLS_EVAL_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "eval/shape.h"
#include "eval/token_file.h"
#include "eval/tokenizer.h"
#include "model/model.h"

#define CORPUS_ALL UINT64_MAX

/* What the command's options say. */
struct corpus_options {
	const char *tokens, *text; /* at most one of them */
	const char *tokenizer;     /* NULL: the model's */
	uint64_t context;          /* CORPUS_ALL: as many as the model has positions, but not more than is usual */
	uint64_t sequences;        /* taken; of a single sequence, windows; CORPUS_ALL: all */
};

/* Has it take a file, by its name: tokens of token_file.h, or a text. */
void corpus_set_file(struct corpus_options *options, const char *path);

struct corpus {
	struct shape shape;             /* of the model */
	char *text;                     /* until corpus_read() */
	size_t n_text;
	struct tokenizer *tokenizer;    /* NULL: none is needed */
	struct token_sequences tokens;
	size_t context;                 /* tokens of a window, at most */
};

/* Reads what the model is and the text, and opens the tokenizer unless there are tokens; corpus_close() follows in any
   case. EXIT_USAGE, EXIT_INPUT, EXIT_IO, EXIT_MEMORY. */
int corpus_open(struct corpus *corpus, const struct model *model, const struct corpus_options *options,
                struct error *error);

/* Reads the tokens, or makes them of the text, and cuts them into windows. The same. */
int corpus_read(struct corpus *corpus, const struct corpus_options *options, struct error *error);

void corpus_close(struct corpus *corpus);

#endif
