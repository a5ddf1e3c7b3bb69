/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/chosen.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/word.h"

bool chosen_has(enum mxfp_format format)
{
	return mxfp_format_get_info(mxfp_format_get_info(format)->element)->bits <= 4;
}

/* A run of them. */
struct running {
	const struct chosen *chosen;
	struct evaluation *evaluation;
	const struct trial *trial;
};

static int run_model(void *context, const struct model *model, struct error *error)
{
	const struct running *running = context;
	struct evaluation *evaluation = running->evaluation;
	struct evaluate_result *result = &evaluation->results[evaluation->n_results];
	const int code = evaluate_run(evaluation, model, running->trial, EVALUATE_BESIDE, error);

	/* The file is gone afterwards. */
	result->path = running->chosen->in;
	snprintf(result->name, sizeof result->name, "%.80s calibrated", running->trial->name);
	return code;
}

int chosen_run(const struct chosen *chosen, struct evaluation *evaluation, const struct trial *trial, struct error *error)
{
	struct running running = {chosen, evaluation, trial};

	return chosen->choose(chosen->context, trial, run_model, &running, error);
}

void chosen_print(FILE *file, const struct chosen *chosen)
{
	const struct corpus_options *corpus = &chosen->corpus;

	fputs("mxfp calibrate ", file);
	word_print_path(file, chosen->in);
	fputs(corpus->tokens != NULL ? " --tokens " : " --text ", file);
	word_print_path(file, corpus->tokens != NULL ? corpus->tokens : corpus->text);
	if (corpus->text != NULL && corpus->tokenizer != NULL) {
		fputs(" --tokenizer ", file);
		word_print_path(file, corpus->tokenizer);
	}
	if (corpus->context != CORPUS_ALL)
		fprintf(file, " --context %" PRIu64, corpus->context);
	fputs(" -o CALIBRATED", file);
}
