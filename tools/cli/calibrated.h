/* SPDX-License-Identifier: MIT */
/* Weights of a trial that are chosen on a text, as mxfp calibrate does, in a temporary directory. */
#ifndef TOOLS_CLI_CALIBRATED_H
#define TOOLS_CLI_CALIBRATED_H

#include "report/evaluation.h"

struct calibrated {
	const char *in;               /* the model */
	struct corpus_options corpus; /* what they are chosen on */
	unsigned threads;
};

/* A report_calibrate, of a struct calibrated. As calibrate_run() and model_open(). */
int calibrated_run(void *calibrated, const struct trial *trial, report_calibrated *run, void *run_context,
                   struct error *error);

#endif
