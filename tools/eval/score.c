/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/score.h"

#include <math.h>
#include <sleef.h>
#include <stdlib.h>

#include "analyse/lanes.h"

enum { CHUNK = 512 }; /* logits whose exponentials are computed together */

static double exponential(double x)
{
	return Sleef_cinz_expd1_u10purec(x);
}

static double logarithm(double x)
{
	return Sleef_cinz_logd1_u10purec(x);
}

/* Whether a row predicts anything; its largest logit is NaN if any is. */
static bool is_valid(const float *logits, size_t top)
{
	return isfinite(logits[top]);
}

void score_row(struct score *score, const float *logits, size_t vocabulary, uint32_t token)
{
	const struct lanes *lanes = lanes_active();
	const size_t top = lanes->find_top(logits, vocabulary);
	const double largest = (double)logits[top];
	double sum = 0, x[CHUNK], e[CHUNK];

	*score = (struct score){.nll = (double)NAN};
	if (!is_valid(logits, top))
		return;
	for (size_t from = 0, n; from < vocabulary; from += n) {
		n = vocabulary - from < CHUNK ? vocabulary - from : CHUNK;
		lanes->exponentials(x, e, logits + from, n, largest);
		for (size_t i = 0; i < n; i++)
			sum += e[i];
	}
	score->nll = logarithm(sum) - ((double)logits[token] - largest);
}

/*
 * With x = l - max l, S = sum of exp(x), and x', S' those of the base, ln(p'/p) = (x' - x) - (ln S' - ln S), so the
 * divergence is sum of exp(x') (x' - x) / S' - (ln S' - ln S): one pass. Differences of binary32 numbers are exact in
 * binary64 unless their exponents are 29 apart, and then their logits matter little.
 */
void score_beside(struct score *score, const float *logits, const float *base, size_t vocabulary, uint32_t token)
{
	const struct lanes *lanes = lanes_active();
	const size_t top = lanes->find_top(logits, vocabulary), base_top = lanes->find_top(base, vocabulary);
	const double largest = (double)logits[top], base_largest = (double)base[base_top];
	double sum = 0, base_sum = 0, weighted = 0, x[CHUNK], y[CHUNK], e[CHUNK], shares[CHUNK];

	*score = (struct score){(double)NAN, (double)NAN, (double)NAN, (double)NAN, false};
	if (!is_valid(logits, top) || !is_valid(base, base_top))
		return;
	for (size_t from = 0, n; from < vocabulary; from += n) {
		n = vocabulary - from < CHUNK ? vocabulary - from : CHUNK;
		lanes->exponentials(x, e, logits + from, n, largest);
		lanes->exponentials(y, shares, base + from, n, base_largest);
		for (size_t i = 0; i < n; i++) {
			sum += e[i];
			base_sum += shares[i];
			weighted += shares[i] > 0 ? shares[i] * (y[i] - x[i]) : 0;
		}
	}
	const double ln_sum = logarithm(sum), ln_base_sum = logarithm(base_sum);
	const double divergence = weighted / base_sum - (ln_base_sum - ln_sum);
	score->nll = ln_sum - ((double)logits[token] - largest);
	score->base_nll = ln_base_sum - ((double)base[token] - base_largest);
	score->divergence = divergence > 0 ? divergence : 0; /* rounding may take it below */
	score->change = exponential(-score->nll) - exponential(-score->base_nll);
	score->agrees = top == base_top;
}

static struct score_mean mean_of(const double *x, size_t n)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += x[i];
	const double mean = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (x[i] - mean) * (x[i] - mean);
	return (struct score_mean){mean, sqrt(squares / (double)(n - 1) / (double)n)};
}

static struct score_mean perplexity_of(struct score_mean nll)
{
	const double perplexity = exponential(nll.mean);

	return (struct score_mean){perplexity, perplexity * nll.error};
}

/* Numbers in ascending order, NaN last. */
static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	if (isnan(x) || isnan(y))
		return (isnan(x) != 0) - (isnan(y) != 0);
	return (x > y) - (x < y);
}

/* Of n > 0 sorted numbers. */
static double percentile(const double *sorted, size_t n, double share)
{
	const double place = share * (double)(n - 1);
	const size_t below = (size_t)place;
	const double part = place - (double)below;

	if (part == 0 || below + 1 >= n)
		return sorted[below];
	return (1 - part) * sorted[below] + part * sorted[below + 1];
}

static void summarize_divergence(struct score_summary *s, double *divergence)
{
	s->divergence = mean_of(divergence, s->n);
	s->median = s->percentile_99 = s->most = (double)NAN;
	if (s->n == 0)
		return;
	qsort(divergence, s->n, sizeof *divergence, compare);
	s->median = percentile(divergence, s->n, 0.5);
	s->percentile_99 = percentile(divergence, s->n, 0.99);
	s->most = divergence[s->n - 1];
}

static void summarize_beside(struct score_summary *s, const struct score *scores, double *scratch)
{
	const size_t n = s->n;

	for (size_t i = 0; i < n; i++)
		scratch[i] = scores[i].base_nll;
	s->base_perplexity = perplexity_of(mean_of(scratch, n));
	for (size_t i = 0; i < n; i++)
		scratch[i] = scores[i].nll - scores[i].base_nll;
	s->ratio = mean_of(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = scores[i].agrees ? 1 : 0;
	s->agreement = mean_of(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = scores[i].change;
	s->change = mean_of(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = scores[i].change * scores[i].change;
	const struct score_mean square = mean_of(scratch, n);
	const double rms = sqrt(square.mean);
	s->change_rms = (struct score_mean){rms, rms > 0 ? 0.5 * square.error / rms : square.error};
	for (size_t i = 0; i < n; i++)
		scratch[i] = scores[i].divergence;
	summarize_divergence(s, scratch);
}

void score_summarize(struct score_summary *summary, const struct score *scores, size_t n, bool beside, double *scratch)
{
	*summary = (struct score_summary){.n = n, .beside = beside};
	for (size_t i = 0; i < n; i++) {
		scratch[i] = scores[i].nll;
		summary->n_nan += isnan(scores[i].nll) != 0;
	}
	summary->nll = mean_of(scratch, n);
	summary->perplexity = perplexity_of(summary->nll);
	if (beside)
		summarize_beside(summary, scores, scratch);
}

size_t score_sample(const float *logits, size_t vocabulary, double temperature, double uniform)
{
	const size_t top = lanes_active()->find_top(logits, vocabulary);
	const double largest = (double)logits[top];
	double sum = 0, reached = 0;

	if (!is_valid(logits, top))
		return SIZE_MAX;
	if (temperature == 0)
		return top;
	for (size_t i = 0; i < vocabulary; i++)
		sum += exponential(((double)logits[i] - largest) / temperature);
	for (size_t i = 0; i < vocabulary; i++) {
		reached += exponential(((double)logits[i] - largest) / temperature);
		if (reached > uniform * sum)
			return i;
	}
	return top; /* only if uniform is not below 1 */
}
