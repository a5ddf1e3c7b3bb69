/* SPDX-License-Identifier: MIT */
/* The work of `mxfp eval`: runs a model on tokens as trials say, scores it, also beside a base, and prints that. */
#ifndef TOOLS_EVAL_EVALUATE_H
#define TOOLS_EVAL_EVALUATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/progress.h"
#include "eval/logits_file.h"
#include "eval/network.h"
#include "eval/profile.h"
#include "eval/score.h"
#include "eval/stays.h"
#include "eval/token_file.h"
#include "eval/tokenizer.h"
#include "eval/trial.h"
#include "model/model.h"

/* How models are run, and on what. */
struct evaluate_settings {
	const char *command;                  /* whose they are, for errors */
	const struct token_sequences *tokens; /* in windows: of each, every token but the first is predicted */
	size_t context;                       /* tokens of a window, at most */
	size_t skip;                          /* the first predictions of a window that are left out */
	size_t batch;                         /* rows that run at once, at most */
	unsigned threads;
	const char *note;                     /* of the tokenizer; NULL: none */
	const char *save;                     /* where the base's logits will be saved; NULL: nowhere */
	bool by_layer;                        /* as of struct network_options */
	bool profile;                         /* say where the time of each run goes */
	bool quiet;
};

/* What a run gave. */
struct evaluate_result {
	char name[TRIAL_TEXT], weights[TRIAL_TEXT], activations[TRIAL_TEXT];
	const char *path;     /* of the model, or of saved logits */
	bool loaded;          /* the next two are known */
	struct network_size size;
	uint64_t quantized;   /* matrices in a block format */
	struct stays stays;   /* matrices that a run that quantizes leaves as stored */
	const char *acc;      /* how products with weights are summed, if that was asked for; else NULL */
	unsigned pass_k;
	struct score_summary summary;
	struct profile profile;    /* without scores of parts; done NULL: it was not asked for */
};

/* Weights of a model that are quantized alone to see what they cost: a layer, or those of one kind. */
struct evaluate_part {
	char name[TRIAL_TEXT]; /* of the kind; empty: a layer */
	size_t layer;
	uint64_t elements;
	struct evaluate_result result;
};

enum { EVALUATE_TRIALS = 64, EVALUATE_BATCH = 512 }; /* at most; the usual one */

/* All that was found. */
struct evaluation {
	const struct evaluate_settings *settings;
	size_t n_tokens, n_predictions;
	size_t *offsets;              /* of each window, its first prediction */
	struct score *scores;         /* one a prediction; */
	double *scratch;
	struct logits_file base;      /* of the base, if it is open */
	struct progress progress;
	size_t n_results;             /* the base first, if there is one */
	struct evaluate_result results[EVALUATE_TRIALS + 1];
	size_t n_parts;               /* by what they cost, the most first: layers, then kinds */
	struct evaluate_part *parts;
};

/* Counts the predictions, of which there must be some. evaluate_free() follows in any case. EXIT_INPUT, EXIT_MEMORY. */
int evaluate_begin(struct evaluation *evaluation, const struct evaluate_settings *settings, struct error *error);

/* Tells how many runs there will be, for the time left. */
void evaluate_expect(struct evaluation *evaluation, size_t n_runs);

/* What kind of logits the predictions take. */
struct logits_kind evaluate_kind(const struct evaluation *evaluation, uint64_t vocabulary);

/* What becomes of the logits of a run. */
enum evaluate_role {
	EVALUATE_ALONE,  /* they are scored, */
	EVALUATE_BESIDE, /* beside the base, */
	EVALUATE_BASE    /* and kept as the base */
};

/* A model in memory as a trial has it. */
struct evaluate_network {
	struct quantize_plan plan;
	struct network *network;
};

/* Weights of the trial that stay as they are stored. */
struct evaluate_kept {
	bool (*keeps)(void *context, const char *tensor); /* NULL: none */
	void *context;
};

/* Opens it; evaluate_close_network() follows in any case. What quantize_plan() and network_open() say. */
int evaluate_open_network(struct evaluate_network *opened, const struct evaluate_settings *settings,
                          const struct model *model, const struct trial *trial, const struct evaluate_kept *kept,
                          struct error *error);
void evaluate_close_network(struct evaluate_network *opened);

/* Bits of a weight on average, scales included, of a run whose model was loaded. */
double evaluate_bits(const struct evaluate_result *result);

/* Describes a run of it, without scores. */
void evaluate_describe(struct evaluate_result *result, const struct model *model, const struct trial *trial,
                       const struct network *network);

/* Runs a model with some weights kept. EXIT_INPUT, EXIT_IO, EXIT_MEMORY, EXIT_USAGE, signals. */
int evaluate_run_kept(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                      enum evaluate_role role, const struct evaluate_kept *kept, struct evaluate_result *result,
                      struct error *error);

/* Runs a model, and adds the result. The same. */
int evaluate_run(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                 enum evaluate_role role, struct error *error);

/* Refuses weights that the options' acc does not take with their inputs; reads only what small tensors hold. As network_open(). */
int evaluate_check_sums(const struct evaluate_settings *settings, const struct model *model, const struct trial *trial,
                        const struct trial_options *options, struct error *error);

/* Runs a model with the operands that machines take, as the base, and beside that summed as the options say; adds both results.
   As evaluate_run(). */
int evaluate_run_sums(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                      const struct trial_options *options, struct error *error);

/*
 * Runs of one model as it is stored and with some weights quantized. They share one network and what the first of them found:
 * the states of all tokens before steps (network.h), as many of these, evenly spread, as fit EVALUATE_STATES_BYTES. A run
 * begins at the last of them that none of its weights comes before, so its bits are those of a whole run.
 */
enum { EVALUATE_STATES_BYTES = 1 << 30 };

struct evaluate_states {
	struct evaluate_network opened;
	size_t n_steps, hidden;
	float **rows;         /* before each step; NULL: not kept */
	size_t done;          /* rows of the run that were run */
	size_t first;         /* where it begins */
	bool keeps;           /* whether its states are to be kept */
};

/* Runs the model as it is stored as the base, adds the result, and keeps states. evaluate_end_states() follows in any case. As
   evaluate_run(). */
int evaluate_run_states(struct evaluation *evaluation, struct evaluate_states *states, const struct model *model,
                        struct error *error);

/* Runs it with what the trial quantizes and is not kept, beside the base. The trial has no kv_cache, no attention and no numbers.
   As evaluate_run_kept(); of the result there are only scores and `quantized`. */
int evaluate_run_changed(struct evaluation *evaluation, struct evaluate_states *states, const struct model *model,
                         const struct trial *trial, const struct evaluate_kept *kept, struct evaluate_result *result,
                         struct error *error);

void evaluate_end_states(struct evaluate_states *states);

/* Takes saved logits as the base, and adds their result. The path must stay. The same. */
int evaluate_open_base(struct evaluation *evaluation, const char *path, uint64_t vocabulary, struct error *error);

/* Runs the trial once for each layer and for each kind of weights, which alone are quantized, beside the base. The
   same. */
int evaluate_by_layer(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                      struct error *error);

/* How many runs that are. The same. */
int evaluate_count_parts(struct evaluation *evaluation, const struct model *model, const struct trial *trial,
                         size_t *n_runs, struct error *error);

void evaluate_free(struct evaluation *evaluation);

/* Text that a model goes on with. */
struct evaluate_generation {
	const struct token_sequences *prompt; /* one sequence */
	size_t n;                             /* tokens to add, at most */
	double temperature;                   /* 0: the most probable token */
	uint64_t seed;
	FILE *stream;                         /* gets the text while it is made, and a newline; NULL: none does */
	size_t n_shown;                       /* bytes of the text that it has */
	struct token_sequences tokens;        /* the prompt and what was added */
	char *text;                           /* of these */
	size_t n_text;
	struct evaluate_result result;        /* without scores; profile: of the prompt */
	struct profile added;                 /* profile of what was added */
};

/* Runs a model until it has added n tokens, or its tokenizer's EOS. evaluate_generation_free() follows in any case. As
   evaluate_run(). */
int evaluate_generate(struct evaluate_generation *generation, const struct evaluate_settings *settings,
                      const struct model *model, const struct trial *trial, const struct tokenizer *tokenizer,
                      struct error *error);

/* Writes what is new of the text to the stream, and nothing that could control a terminal; but for the first bytes of a
   character whose others may follow, unless the text `ends`. */
void evaluate_show(struct evaluate_generation *generation, bool ends);

void evaluate_generation_free(struct evaluate_generation *generation);

/* All that was found, as JSON; NULL if memory ran out. `source` names the tokens. */
json_t *evaluate_facts(const struct evaluation *evaluation, const char *source);

/* Prints what was run on what. */
void evaluate_print_source(const struct evaluation *evaluation, const char *source, FILE *file);

/* Prints that and tables. EXIT_MEMORY. */
int evaluate_print_text(const struct evaluation *evaluation, const char *source, FILE *file, struct error *error);

/* Print to stdout; of a generation without JSON what was not shown. EXIT_MEMORY. */
int evaluate_print_json(const struct evaluation *evaluation, const char *source, struct error *error);
int evaluate_print_generation(const struct evaluate_generation *generation, bool json, struct error *error);

#endif
