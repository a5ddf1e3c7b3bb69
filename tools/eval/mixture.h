/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of formats chosen by what the model loses, not by errors of weights: each unit (fused.h) is quantized alone in
 * each variant, with the activations of its products, while all others stay as they are stored, and its cost is the mean
 * Kullback-Leibler divergence of the predictions from those of the model as it is stored.
 *
 * The divergence is at least 0, as the knapsack wants errors, it is 0 only if no prediction changes, and it compares whole
 * distributions; the rise of the negative log-likelihood may be negative, and of one layer its standard error is many
 * times as large a part of it (doc/accuracy.md). Small changes of logits that are independent add up in it, so the sum over units predicts a mixture's.
 */
#ifndef TOOLS_EVAL_MIXTURE_H
#define TOOLS_EVAL_MIXTURE_H

#include "analyse/advise.h"
#include "eval/chosen.h"
#include "eval/evaluate.h"
#include "eval/trial.h"

/* Every format alone, and the chosen mixture with that of the errors of weights, or those that a search for the smallest runs; and
   some of these again with weights that are chosen on a text: fewer than the evaluation holds. */
enum { MIXTURES_SEARCHED = 8, MIXTURES_MAX = EVALUATE_TRIALS };

/* A mixture that was run. */
struct mixture {
	struct advise_mix mix;
	bool calibrated;                  /* with weights chosen on a text */
	bool written;                     /* mxfp quantize writes it: config.json can say its activations */
};

/* The caller sets the members before n_trials; mixtures_free() follows in any case. */
struct mixtures {
	struct advice *advice;
	struct evaluation *evaluation;
	struct trial_options options;     /* without weights: activations, and what goes for every run */
	struct chosen chosen;             /* weights that are run too */
	size_t n_trials;
	struct trial *trials;             /* one a variant */
	struct score_mean *divergences;   /* [unit][variant] */
	double *costs;                    /* the means; HUGE_VAL: NaN */
	size_t n;
	size_t made;                      /* the best result that a command makes; 0: none */
	const char *command;              /* makes the best; NULL: none */
	struct mixture items[MIXTURES_MAX]; /* result i + 1 of the evaluation, after the base, is of item i */
};

/* Makes the trials, which checks the options. EXIT_USAGE, EXIT_MEMORY. */
int mixtures_begin(struct mixtures *mixtures, struct error *error);

/* Runs each unit in each variant, when advise_measure() has found the units, and has the advice choose by that. `n_more`:
   mixtures that will be run then, for the time left. A model that predicts NaN is refused. As evaluate_run(). */
int mixtures_measure(struct mixtures *mixtures, size_t n_more, struct error *error);

/* Runs a mixture by its recipe, adds it and takes it over. The same. */
int mixtures_run(struct mixtures *mixtures, const struct advise_mix *mix, const char *name, struct error *error);

/* Runs every format alone. The same. */
int mixtures_run_uniform(struct mixtures *mixtures, struct error *error);

/* Runs again, with weights chosen on a text, each format of four bits alone, and the mixture that was run first if that is
   `first` and has such weights; nothing if no weights are chosen. As chosen_run(). */
int mixtures_run_calibrated(struct mixtures *mixtures, bool first, struct error *error);

/* Formats of four bits. */
size_t mixtures_count_few_bits(const struct mixtures *mixtures);

bool mixtures_are_same(const struct mixtures *mixtures, size_t a, size_t b);

/* Looks for the smallest mixture that is fine (judge.h) among those of the front, by halves, and runs those that it meets: it
   assumes that more bits cost less. After mixtures_run_uniform(). The same. */
int mixtures_search(struct mixtures *mixtures, struct error *error);

/* Print everything to stdout; `chosen`: whether the first mixture is the answer. EXIT_MEMORY. */
int mixtures_text(const struct mixtures *mixtures, const char *source, bool chosen, struct error *error);
int mixtures_json(const struct mixtures *mixtures, const char *source, bool chosen, struct error *error);

void mixtures_free(struct mixtures *mixtures);

#endif
