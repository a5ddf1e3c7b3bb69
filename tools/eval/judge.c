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

void judge_print_ranks(FILE *file, const struct evaluation *e)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, e);

	for (size_t i = 0; i < n; i++) {
		const struct evaluate_result *r = &e->results[order[i]];
		const enum judgement judgement = judge(&r->summary);

		fprintf(file, "%s%zu. %s, %.2f bits", i == 0 ? "" : "; ", i + 1, r->name, evaluate_bits(r));
		if (judgement != JUDGE_BROKEN) {
			fputs(", ", file);
			judge_print(file, &r->summary);
		}
		fprintf(file, ": %s", judge_name(judgement));
	}
}

json_t *judge_facts(const struct evaluation *e)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, e);
	json_t *ranks = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct evaluate_result *r = &e->results[order[i]];

		ranks = facts_append(ranks, json_pack("{s:o, s:I, s:s}", "name", facts_text(r->name), "run", (json_int_t)order[i],
		                                      "judgement", judge_name(judge(&r->summary))));
	}
	return json_pack("{s:f, s:f, s:o}", "most_perplexity_rise", JUDGE_PERPLEXITY, "most_kl_divergence", JUDGE_DIVERGENCE,
	                 "ranks", ranks);
}
