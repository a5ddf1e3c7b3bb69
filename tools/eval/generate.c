/* SPDX-License-Identifier: MIT */
/* Text that a model goes on with: each token is drawn by the logits of the one before. */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "eval/evaluate.h"
#include "mxfp/philox.h"

/* What becomes of the last row of logits. */
struct drawing {
	const struct evaluate_generation *generation;
	size_t vocabulary, drawn; /* how many tokens were drawn before */
	size_t token;
};

/* 53 random bits as a number below 1: words 2 i and 2 i + 1 of Philox's stream 0. */
static double uniform_of(uint64_t seed, size_t i)
{
	const uint32_t high = mxfp_philox_word(seed, 0, 2 * (uint64_t)i) >> 5;
	const uint32_t low = mxfp_philox_word(seed, 0, 2 * (uint64_t)i + 1) >> 6;

	return ((double)high * 0x1p26 + (double)low) * 0x1p-53;
}

/* A network_sink. */
static int draw(void *context, size_t piece, size_t row, size_t n, const float *logits, struct error *error)
{
	struct drawing *d = context;
	const struct evaluate_generation *generation = d->generation;

	(void)piece, (void)row;
	d->token = score_sample(logits + (n - 1) * d->vocabulary, d->vocabulary, generation->temperature,
	                        uniform_of(generation->seed, d->drawn));
	if (d->token == SIZE_MAX)
		return fail(error, EXIT_INPUT, "eval: the logits after %zu tokens are NaN or infinite; try another format",
		            generation->prompt->n_ids + d->drawn);
	return EXIT_OK;
}

/* Runs the tokens from `done` on, in pieces of a batch, and draws the next one. */
static int run_rest(struct network *network, const struct evaluate_settings *settings, struct drawing *drawing,
                    size_t *done, size_t total, struct error *error)
{
	const struct token_sequences *tokens = &drawing->generation->tokens;
	int code = EXIT_OK;

	while (*done < tokens->n_ids && code == EXIT_OK) {
		const size_t left = tokens->n_ids - *done, rows = left < settings->batch ? left : settings->batch;
		const struct network_piece piece = {
			.ids = tokens->ids + *done,
			.first = *done,
			.n = rows,
			.wanted = rows == left ? rows - 1 : rows,
			.total = total,
		};

		code = network_run(network, &piece, 1, draw, drawing, error);
		*done += rows;
	}
	return code;
}

/* The profile of the prompt ends when it has run, and that of the rest begins. */
static int end_prompt(struct evaluate_generation *generation, const struct evaluate_settings *settings,
                      struct network *network, struct error *error)
{
	generation->added.started = clock_seconds();
	return settings->profile ? profile_take(&generation->result.profile, network, error) : EXIT_OK;
}

static int add_token(struct evaluate_generation *generation, uint32_t id, const struct tokenizer *tokenizer,
                     struct error *error)
{
	const int code = tokens_add(&generation->tokens, id, error);

	return code == EXIT_OK ? tokenizer_decode(tokenizer, id, &generation->text, &generation->n_text, error) : code;
}

static int add_tokens(struct evaluate_generation *generation, const struct evaluate_settings *settings,
                      struct network *network, const struct tokenizer *tokenizer, struct progress *progress,
                      struct error *error)
{
	struct drawing drawing = {.generation = generation, .vocabulary = (size_t)network_vocabulary(network)};
	const size_t total = generation->prompt->n_ids + generation->n;
	size_t done = 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < generation->prompt->n_ids && code == EXIT_OK; i++)
		code = add_token(generation, generation->prompt->ids[i], tokenizer, error);
	if (code == EXIT_OK)
		evaluate_show(generation, false);
	for (; drawing.drawn < generation->n && code == EXIT_OK; drawing.drawn++) {
		const size_t before = done;

		code = run_rest(network, settings, &drawing, &done, total, error);
		if (code == EXIT_OK && before == 0)
			code = end_prompt(generation, settings, network, error);
		progress_add(progress, done - before);
		if (code == EXIT_OK && tokenizer_ends(tokenizer, (uint32_t)drawing.token))
			break;
		if (code == EXIT_OK)
			code = add_token(generation, (uint32_t)drawing.token, tokenizer, error);
		if (code == EXIT_OK)
			evaluate_show(generation, false);
	}
	if (code == EXIT_OK || generation->n_shown > 0)
		evaluate_show(generation, true);
	return code;
}

int evaluate_generate(struct evaluate_generation *generation, const struct evaluate_settings *settings,
                      const struct model *model, const struct trial *trial, const struct tokenizer *tokenizer,
                      struct error *error)
{
	const struct evaluate_kept none = {NULL, NULL};
	struct evaluate_network opened;
	struct progress progress;
	const double started = clock_seconds();
	int code = evaluate_open_network(&opened, settings, model, trial, &none, error);

	if (code == EXIT_OK) {
		evaluate_describe(&generation->result, model, trial, opened.network);
		generation->result.profile = (struct profile){
			.tokens = generation->prompt->n_ids,
			.started = started,
			.load = clock_seconds() - started,
		};
		progress_start_tokens(&progress, "generating", generation->prompt->n_ids + generation->n - 1,
		                      settings->quiet || (generation->stream != NULL && isatty(fileno(generation->stream))));
		code = add_tokens(generation, settings, opened.network, tokenizer, &progress, error);
		progress_end(&progress);
	}
	/* The last token that was added has not run. */
	if (code == EXIT_OK && generation->tokens.n_ids > generation->prompt->n_ids + 1) {
		generation->added.tokens = generation->tokens.n_ids - generation->prompt->n_ids - 1;
		if (settings->profile)
			code = profile_take(&generation->added, opened.network, error);
	}
	evaluate_close_network(&opened);
	return code;
}

void evaluate_generation_free(struct evaluate_generation *generation)
{
	profile_free(&generation->result.profile);
	profile_free(&generation->added);
	tokens_free(&generation->tokens);
	free(generation->text);
}
