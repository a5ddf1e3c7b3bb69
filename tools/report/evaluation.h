/* SPDX-License-Identifier: MIT */
/* The evaluation in a report: the model as it is stored, the way that the verdict is about, other ways, and what layers and
   kinds of weights cost alone in the first. */
#ifndef TOOLS_REPORT_EVALUATION_H
#define TOOLS_REPORT_EVALUATION_H

#include "eval/chosen.h"
#include "eval/corpus.h"
#include "eval/evaluate.h"
#include "model/target.h"

struct report;

enum { REPORT_TRIED_COLUMNS = 8, REPORT_TRIED_TEXT = 128 };

/* The caller sets the first members, up to `chosen`; report_evaluation_close() follows in any case. */
struct report_evaluation {
	const char *source;             /* the file of tokens or text */
	enum target target;             /* what is recommended is for */
	struct corpus_options corpus_options;
	struct evaluate_settings settings; /* without tokens and context */
	struct trial_options options;   /* of the report, for `tries` */
	const char *tries;              /* as text; NULL: none, or the usual ones of the target if */
	bool tries_usual;
	bool sums_tries;                /* with an acc of the options: what is run by it, these or the model as it is stored */
	struct chosen chosen;           /* weights that are run too */
	struct model model;             /* opened again: its experts may be split */
	struct corpus corpus;
	struct trial base, trial;
	struct trial trials[EVALUATE_TRIALS - 1];
	size_t n_trials;
	const struct trial *ways[EVALUATE_TRIALS + 1]; /* the trial of each result after the base */
	bool calibrated[EVALUATE_TRIALS + 1];          /* whether its weights were chosen on a text */
	struct evaluation evaluation;
	struct evaluation sums;         /* runs by the acc of the options, each after one with the same operands; without results: none */
};

/* Makes the trials, and reads the tokens, or the text if the name of the file is not that of a file of tokens. As
   trial_parse() and corpus_read(), and what evaluate_check_sums() refuses. */
int report_evaluation_open(struct report_evaluation *evaluation, const char *path, struct error *error);

/* Runs what is compared by sums, then the variant with that number by that name, with the activations of the report. Then come the
   trials, but for one that is the same or is the model as it is stored. Last come those of four bits again, with weights that were
   chosen on a text. As evaluate_run(). */
int report_evaluation_run(struct report_evaluation *evaluation, const struct report *report, size_t variant,
                          const char *name, struct error *error);

/* The layout in which mxfp quantize writes a result after the base for the target; NULL: it is not loaded, or not written. */
const struct layout *report_evaluation_layout(const struct report_evaluation *evaluation, size_t result);

/* The best of the results that are written for the target, and are not broken. */
bool report_evaluation_best(size_t *best, const struct report_evaluation *evaluation);

/* Prints "W4A8 costs this model 1.2 % perplexity, ...", and further sentences, each detail a line. */
void report_evaluation_sentence(FILE *file, const struct report_evaluation *evaluation);
void report_evaluation_details(FILE *file, const struct report_evaluation *evaluation);

/* The ways that were tried, as a list: headings with result 0, else what belongs under them of a result. Returns how many columns. */
size_t report_evaluation_cells(const struct report_evaluation *evaluation, size_t result,
                               char cells[REPORT_TRIED_COLUMNS][REPORT_TRIED_TEXT]);

void report_evaluation_close(struct report_evaluation *evaluation);

#endif
