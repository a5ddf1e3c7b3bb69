/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/corpus.h"

#include <inttypes.h>
#include <stdlib.h>

#include "io/descriptor.h"
#include "io/json.h"

enum {
	CONTEXT_USUAL = 512,
	TEXT_BYTES_MAX = 1 << 30
};

void corpus_set_file(struct corpus_options *options, const char *path)
{
	if (tokens_is_file(path))
		options->tokens = path;
	else
		options->text = path;
}

static int set_context(struct corpus *corpus, const struct model *model, uint64_t context, struct error *error)
{
	const size_t positions = corpus->shape.positions;

	if (context == CORPUS_ALL)
		context = positions != 0 && positions < CONTEXT_USUAL ? positions : CONTEXT_USUAL;
	else if (context < 2)
		return fail(error, EXIT_USAGE, "--context: %" PRIu64 " tokens predict nothing; give 2 or more", context);
	else if (positions != 0 && context > positions)
		return fail(error, EXIT_USAGE, "--context: %" PRIu64 " tokens, and %s has %zu positions; give at most as many",
		            context, model->path, positions);
	corpus->context = (size_t)context;
	return EXIT_OK;
}

int corpus_open(struct corpus *corpus, const struct model *model, const struct corpus_options *options,
                struct error *error)
{
	if (options->sequences == 0)
		return fail(error, EXIT_USAGE, "--sequences: 0 leaves nothing; give 1 or more");
	int code = shape_read(&corpus->shape, model, error);

	if (code == EXIT_OK)
		code = set_context(corpus, model, options->context, error);
	/* First, so that a text that is missing is not taken for a want of a tokenizer. */
	if (code == EXIT_OK && options->text != NULL)
		code = json_read_bytes(descriptor_open, options->text, TEXT_BYTES_MAX, &corpus->text, &corpus->n_text, error);
	if (code == EXIT_OK && options->tokens == NULL)
		code = tokenizer_open(&corpus->tokenizer, model, options->tokenizer, corpus->shape.vocabulary, error);
	return code;
}

/* Leaves the first n sequences. */
static void shorten(struct token_sequences *tokens, uint64_t n)
{
	if (n < tokens->n)
		tokens->n = (size_t)n;
}

/* As llama-perplexity has it: every window of a text begins with BOS if the text does, and the last one is left out
   unless it is whole or the only one. */
static void cut_as_llama(struct corpus *corpus)
{
	struct token_sequences *tokens = &corpus->tokens;
	uint32_t begin;

	if (tokens->n > 1 && tokens->starts[tokens->n] - tokens->starts[tokens->n - 1] < corpus->context)
		tokens->n--;
	if (tokenizer_bos(corpus->tokenizer, &begin))
		for (size_t i = 1; i < tokens->n; i++)
			tokens->ids[tokens->starts[i]] = begin;
}

static int encode_text(struct corpus *corpus, const char *path, struct error *error)
{
	int code = tokenizer_read_text(corpus->tokenizer, path, corpus->text, &corpus->n_text, error);

	if (code == EXIT_OK)
		code = tokenizer_encode(corpus->tokenizer, corpus->text, corpus->n_text, &corpus->tokens, error);
	free(corpus->text);
	corpus->text = NULL;
	return code;
}

int corpus_read(struct corpus *corpus, const struct corpus_options *options, struct error *error)
{
	int code = options->text != NULL ? encode_text(corpus, options->text, error)
	                                 : tokens_read(&corpus->tokens, options->tokens, corpus->shape.vocabulary, error);

	if (code != EXIT_OK)
		return code;
	/* A text, and a file that does not tell sequences apart, have their windows counted. */
	const bool one = corpus->tokens.n == 1;
	if (!one)
		shorten(&corpus->tokens, options->sequences);
	code = tokens_cut(&corpus->tokens, corpus->context, error);
	if (code == EXIT_OK && options->text != NULL)
		cut_as_llama(corpus);
	if (one)
		shorten(&corpus->tokens, options->sequences);
	return code;
}

void corpus_close(struct corpus *corpus)
{
	free(corpus->text);
	tokens_free(&corpus->tokens);
	tokenizer_close(corpus->tokenizer);
	shape_free(&corpus->shape);
}
