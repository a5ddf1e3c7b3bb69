/* SPDX-License-Identifier: MIT */
/*
 * Whether what a way of quantizing costs a model is fine, by predictions beside those of the model as it is stored.
 *
 * It is fine if the perplexity rises by at most JUDGE_PERPLEXITY, as a share, and the mean divergence is at most
 * JUDGE_DIVERGENCE nats, and too much if one of them is more, in either case by at least two standard errors; else more
 * tokens are to tell. Both are asked: a perplexity may stay where predictions change, and a divergence of little
 * perplexity is another model.
 */
#ifndef TOOLS_EVAL_JUDGE_H
#define TOOLS_EVAL_JUDGE_H

#include "eval/evaluate.h"

#define JUDGE_PERPLEXITY 0.02
#define JUDGE_DIVERGENCE 0.05
#define JUDGE_TEXT "at most 2 % more perplexity and a mean divergence of at most 0.05, by two standard errors"

enum judgement { JUDGE_FINE, JUDGE_OPEN, JUDGE_COSTLY, JUDGE_BROKEN };

enum judgement judge(const struct score_summary *summary);

/* "fine", "not clear", "too much", "broken" */
const char *judge_name(enum judgement judgement);

/* The results after the base, the best first, and how many: fine ones by bits of a weight, then the others by their judgement
   and divergence; of equal ones those that were run first. */
size_t judge_rank(size_t order[EVALUATE_TRIALS], const struct evaluation *evaluation);

/* Prints "+1.72 % perplexity (+- 0.11), divergence 0.0402 (+- 0.0004)". */
void judge_print(FILE *file, const struct score_summary *summary);

/* Of JUDGE_OPEN: about how many tokens tell whether it is fine, if means stay and their errors fall by the square root; HUGE_VAL: no
   number does, NaN: not known. */
double judge_tokens(const struct score_summary *summary, const struct evaluation *evaluation);

/* "fine", "too much", "broken", or "takes about 150000 tokens to tell" in `text`; returns text. */
enum { JUDGE_WORDS = 64 };
const char *judge_words(const struct score_summary *summary, const struct evaluation *evaluation, char text[JUDGE_WORDS]);

/* {"most": ..., "ranks": [...]}; NULL without memory. */
json_t *judge_facts(const struct evaluation *evaluation);

#endif
