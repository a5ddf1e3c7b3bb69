/* SPDX-License-Identifier: MIT */
/* Weights that mxfp calibrate chooses on a text, run beside those that are rounded. */
#ifndef TOOLS_EVAL_CHOSEN_H
#define TOOLS_EVAL_CHOSEN_H

#include "eval/corpus.h"
#include "eval/evaluate.h"

/* Has weights of a trial chosen, and gives the model with them to `run`, whose result it returns. */
typedef int chosen_run_model(void *context, const struct model *model, struct error *error);
typedef int chosen_choose(void *context, const struct trial *trial, chosen_run_model *run, void *run_context,
                          struct error *error);

struct chosen {
	const char *in;               /* the model; NULL: no weights are chosen */
	struct corpus_options corpus; /* what they are chosen on */
	unsigned threads;
	chosen_choose *choose;
	void *context;
};

/* Whether weights of a format are worth it: they have at most four bits. */
bool chosen_has(enum mxfp_format format);

/* Chooses the weights of a trial, runs them beside the base, and adds the result as "NAME calibrated". As calibrate_run() and
   evaluate_run(). */
int chosen_run(const struct chosen *chosen, struct evaluation *evaluation, const struct trial *trial, struct error *error);

/* Prints "mxfp calibrate IN --text FILE -o CALIBRATED" without what the weights become. */
void chosen_print(FILE *file, const struct chosen *chosen);

#endif
