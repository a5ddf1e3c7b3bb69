/* SPDX-License-Identifier: MIT */
/* Weights of a trial that are chosen on a text, as mxfp calibrate does, in a temporary directory. */
#ifndef TOOLS_CLI_CALIBRATED_H
#define TOOLS_CLI_CALIBRATED_H

#include "eval/chosen.h"

/* Has weights chosen on a file of tokens or text, if `source` names one; the options are those of the command's own corpus. */
void calibrated_set(struct chosen *chosen, const char *in, const char *source, const struct corpus_options *corpus,
                    unsigned threads);

#endif
