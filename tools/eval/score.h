/* SPDX-License-Identifier: MIT */
/*
 * Statistics of logits: how well a model predicts tokens, and how far its predictions are from those of another, the base.
 * They are what llama-perplexity prints (llama.cpp, tools/perplexity).
 *
 * A prediction is a row of logits and the token that came: p = exp(l) / sum of exp(l) over the vocabulary. All is computed
 * in binary64 from the binary32 logits, in the order of the vocabulary and of the predictions, with SLEEF's deterministic
 * exp and ln (1 ulp), so that every machine finds the same bits. A row with NaN or +Inf, or of nothing but -Inf, predicts
 * NaN; a single -Inf is a token that cannot come.
 */
#ifndef TOOLS_EVAL_SCORE_H
#define TOOLS_EVAL_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One prediction. */
struct score {
	double nll;             /* -ln p(token) */
	/* Beside a base: */
	double base_nll;        /* -ln p_base(token) */
	double divergence;      /* Kullback-Leibler: sum of p_base ln(p_base / p), at least 0; Inf if p alone is 0 somewhere */
	double change;          /* p(token) - p_base(token) */
	bool agrees;            /* whether both find the same token most probable; of equal logits the first counts */
};

/* Of one row; score_row() leaves what is beside a base zero. */
void score_row(struct score *score, const float *logits, size_t vocabulary, uint32_t token);
void score_beside(struct score *score, const float *logits, const float *base, size_t vocabulary, uint32_t token);

/* A mean, and its standard error by the spread of the predictions: sqrt(sum (x - mean)^2 / (n - 1) / n), NaN of one. */
struct score_mean {
	double mean, error;
};

/* Of all predictions. Without any, means are NaN. */
struct score_summary {
	size_t n;
	size_t n_nan;                    /* of them, predictions that are NaN, and make means NaN */
	struct score_mean nll;
	struct score_mean perplexity;    /* exp(nll), whose error is exp(nll) times that of nll */
	bool beside;                     /* the rest is there */
	struct score_mean base_perplexity;
	struct score_mean ratio;         /* of ln(perplexity / base_perplexity): nll - base_nll */
	struct score_mean divergence;
	double median, percentile_99, most; /* of the divergence; between two values in proportion */
	struct score_mean agreement;     /* share of predictions, 0 to 1 */
	struct score_mean change;
	struct score_mean change_rms;    /* sqrt(mean of change^2), whose error is half that of change^2, divided by it */
};

/* `scratch` has room for n numbers. */
void score_summarize(struct score_summary *summary, const struct score *scores, size_t n, bool beside, double *scratch);

/* The token that a row of logits gives at a temperature: the first most probable one at 0, else one drawn by the number
   0 <= uniform < 1, of p(i) in proportion to exp(l / temperature): the first at which the sum exceeds uniform times the
   whole. SIZE_MAX if the row predicts NaN. */
size_t score_sample(const float *logits, size_t vocabulary, double temperature, double uniform);

#endif
