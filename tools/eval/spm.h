/* SPDX-License-Identifier: MIT */
/* SentencePiece's byte pair encoding: of all neighbours that are a token together, those are merged whose token has the
   highest score. */
#ifndef TOOLS_EVAL_SPM_H
#define TOOLS_EVAL_SPM_H

#include "eval/merge.h"
#include "eval/token_file.h"
#include "eval/vocabulary.h"

struct spm {
	const struct vocabulary *vocabulary;
	const float *scores; /* by id */
	const char *text;    /* the symbols are parts of it */
};

/* Merges the symbols, which are parts of the text. EXIT_MEMORY. */
int spm_merge(const struct spm *spm, struct merge *merge, struct error *error);

#endif
