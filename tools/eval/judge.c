/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/judge.h"

#include <math.h>

#include "io/facts.h"

enum judgement judge(const struct score_summary *s)
{
	const double most = log1p(JUDGE_PERPLEXITY), ratio = s->ratio.mean, divergence = s->divergence.mean;

	if (s->n_nan > 0 || isnan(ratio) || isnan(divergence))
		return JUDGE_BROKEN;
	/* An error is NaN of one prediction, which tells nothing. */
	if (ratio + 2 * s->ratio.error <= most && divergence + 2 * s->divergence.error <= JUDGE_DIVERGENCE)
		return JUDGE_FINE;
	return ratio - 2 * s->ratio.error > most || divergence - 2 * s->divergence.error > JUDGE_DIVERGENCE ? JUDGE_COSTLY : JUDGE_OPEN;
}

const char *judge_name(enum judgement judgement)
{
	static const char *const names[] = {[JUDGE_FINE] = "fine", [JUDGE_OPEN] = "not clear", [JUDGE_COSTLY] = "too much",
	                                    [JUDGE_BROKEN] = "broken"};

	return names[judgement];
}

static bool is_better(const struct evaluate_result *a, const struct evaluate_result *b)
{
	const enum judgement own = judge(&a->summary), other = judge(&b->summary);

	if (own != other)
		return own < other;
	if (own == JUDGE_BROKEN)
		return false;
	const double bits = evaluate_bits(a) - evaluate_bits(b);
	if (own == JUDGE_FINE && (bits < 0 || bits > 0))
		return bits < 0;
	return a->summary.divergence.mean < b->summary.divergence.mean;
}

size_t judge_rank(size_t order[EVALUATE_TRIALS], const struct evaluation *e)
{
	size_t n = 0;

	for (size_t i = 1; i < e->n_results; i++) {
		size_t at = n++;

		for (; at > 0 && is_better(&e->results[i], &e->results[order[at - 1]]); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	return n;
}

void judge_print(FILE *file, const struct score_summary *s)
{
	fprintf(file, "%+.2f %% perplexity (+- %.2f), divergence %.4f (+- %.4f)",
	        100 * (s->perplexity.mean / s->base_perplexity.mean - 1), 100 * s->ratio.error, s->divergence.mean, s->divergence.error);
}

/* For each criterion by how much the mean is over, and two standard errors of it. It tells once these are as small as that: it is fine
   when all are under by so much, and not as soon as one is over. */
double judge_tokens(const struct score_summary *s, const struct evaluation *e)
{
	const double over[] = {s->ratio.mean - log1p(JUDGE_PERPLEXITY), s->divergence.mean - JUDGE_DIVERGENCE};
	const double errors[] = {s->ratio.error, s->divergence.error};
	double fine = 1, costly = HUGE_VAL;
	bool is_over = false;

	for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
		const double times = pow(2 * errors[i] / over[i], 2);

		if (isnan(errors[i]) || isnan(times))
			return (double)NAN;
		if (over[i] > 0)
			costly = fmin(costly, times);
		else
			fine = fmax(fine, times);
		is_over |= over[i] > 0;
	}
	return (double)e->n_tokens * (is_over ? costly : fine);
}

/* Up to two digits. */
static double round_up(double x)
{
	const double unit = pow(10, fmax(floor(log10(x)) - 1, 0));

	return ceil(x / unit * (1 - 1e-9)) * unit;
}

const char *judge_words(const struct score_summary *s, const struct evaluation *e, char text[JUDGE_WORDS])
{
	static const double most = 1e12;
	const enum judgement judgement = judge(s);
	const double tokens = judgement == JUDGE_OPEN ? judge_tokens(s, e) : 0;

	if (judgement != JUDGE_OPEN)
		snprintf(text, JUDGE_WORDS, "%s", judge_name(judgement));
	else if (tokens < most)
		snprintf(text, JUDGE_WORDS, "takes about %.0f tokens to tell", round_up(tokens));
	else
		snprintf(text, JUDGE_WORDS, "takes more tokens to tell");
	return text;
}

json_t *judge_facts(const struct evaluation *e)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, e);
	json_t *ranks = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct evaluate_result *r = &e->results[order[i]];

		const struct score_summary *s = &r->summary;
		const bool open = judge(s) == JUDGE_OPEN;

		ranks = facts_append(ranks, json_pack("{s:o, s:I, s:f, s:o, s:o, s:s, s:o}", "name", facts_text(r->name), "run", (json_int_t)order[i],
		                                      "bits_per_weight", evaluate_bits(r), "perplexity_rise",
		                                      facts_number(s->perplexity.mean / s->base_perplexity.mean - 1), "kl_divergence",
		                                      facts_number(s->divergence.mean), "judgement", judge_name(judge(s)), "tokens_to_tell",
		                                      open ? facts_number(judge_tokens(s, e)) : json_null()));
	}
	return json_pack("{s:f, s:f, s:o}", "most_perplexity_rise", JUDGE_PERPLEXITY, "most_kl_divergence", JUDGE_DIVERGENCE,
	                 "ranks", ranks);
}
