/* SPDX-License-Identifier: MIT */
/* What `mxfp advise --eval` prints: tables, or JSON. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/table.h"
#include "eval/judge.h"
#include "eval/mixture.h"
#include "io/facts.h"
#include "model/decoded.h"

/* A unit's weights in a variant. */
static struct weight_error unit_error(const struct advice *advice, const struct unit *unit, size_t variant)
{
	struct weight_error total = {0};

	for (size_t i = 0; i < unit->n; i++)
		weight_error_add(&total, &advice->layers[advice->units.members[unit->first + i]].errors[variant]);
	return total;
}

/* The variant that a mixture has of a unit. */
static size_t variant_of(const struct advice *advice, const struct advise_mix *mix, size_t unit)
{
	const struct advise_layer *layer = &advice->layers[advice->units.members[advice->units.items[unit].first]];

	return advise_best(advice, layer, advice->formats[mix->formats[unit]]);
}

static void head_row(struct table *table, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		table_cell(table, "%s", names[i]);
}

static int print_units(const struct mixtures *m, const struct advise_mix *chosen, struct error *error)
{
	static const char *const names[] = {"layer", "weights", "format", "rule", "bits", "mean KLD", "+-", "chosen"};
	const struct advice *advice = m->advice;
	struct table table = {.n_columns = chosen != NULL ? 8 : 7, .n_left = 1};

	head_row(&table, names, table.n_columns);
	for (size_t u = 0; u < advice->units.n; u++)
		for (size_t v = 0; v < m->n_trials; v++) {
			const struct variant *variant = &advice->options->variants.items[v];
			const struct weight_error error_of = unit_error(advice, &advice->units.items[u], v);
			const struct score_mean *divergence = &m->divergences[u * m->n_trials + v];
			char format[VARIANT_TEXT];

			table_name(&table, v == 0 ? advice->units.items[u].name : "");
			if (v == 0)
				table_cell(&table, "%" PRIu64, error_of.elements);
			else
				table_cell(&table, "%s", "");
			table_cell(&table, "%s", variant_format(variant, format));
			table_cell(&table, "%s", variant_choice(variant));
			table_cell(&table, "%.3f", weight_error_bits(&error_of));
			table_number(&table, divergence->mean, 6, "");
			table_number(&table, divergence->error, 6, "");
			if (chosen != NULL)
				table_cell(&table, "%s", variant_of(advice, chosen, u) == v ? "*" : "");
		}
	puts("Each layer alone:\n");
	return table_print(&table, stdout, error);
}

static int print_runs(const struct mixtures *m, struct error *error)
{
	static const char *const names[] = {"run", "bits", "summed KLD", "mean KLD", "+-", "perplexity", "+-", "cost", "same top", "fine?"};
	struct table table = {.n_columns = sizeof names / sizeof names[0], .n_left = 1};
	char words[JUDGE_WORDS];

	head_row(&table, names, table.n_columns);
	for (size_t i = 0; i <= m->n; i++) {
		const struct evaluate_result *r = &m->evaluation->results[i];
		const struct score_summary *s = &r->summary;
		const struct advise_mix *mix = i > 0 ? &m->items[i - 1].mix : NULL;
		const double none = (double)NAN; /* of the base */

		table_name(&table, r->name);
		table_number(&table, mix != NULL ? weight_error_bits(&mix->total) : none, 3, "");
		/* The sum is that of rounded weights. */
		table_number(&table, mix != NULL && !m->items[i - 1].calibrated ? advise_mix_cost(mix) : none, 6, "");
		table_number(&table, mix != NULL ? s->divergence.mean : none, 6, "");
		table_number(&table, mix != NULL ? s->divergence.error : none, 6, "");
		table_number(&table, s->perplexity.mean, 4, "");
		table_number(&table, s->perplexity.error, 4, "");
		table_number(&table, mix != NULL ? 100 * (s->perplexity.mean / s->base_perplexity.mean - 1) : none, 2, " %");
		table_number(&table, mix != NULL ? 100 * s->agreement.mean : none, 2, " %");
		table_cell(&table, "%s", mix != NULL ? judge_words(s, m->evaluation, words) : "");
	}
	puts("\nWhole mixtures, with the sum of what their layers cost alone, and what they cost together:\n");
	return table_print(&table, stdout, error);
}

/* What is best of the mixtures, and how to make it. */
static void print_best(const struct mixtures *m)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, m->evaluation);
	const struct evaluate_result *best = &m->evaluation->results[order[0]];
	const enum judgement judgement = judge(&best->summary);

	if (n == 0 || judgement == JUDGE_BROKEN)
		return;
	if (judgement == JUDGE_FINE)
		printf("The smallest that is fine is %s: ", best->name);
	else
		printf("None is %sfine; %s costs least: ", judgement == JUDGE_OPEN ? "surely " : "", best->name);
	judge_print(stdout, &best->summary);
	puts(".\nFine is " JUDGE_TEXT ".");
	if (m->chosen.in == NULL && mixtures_count_few_bits(m) > 0)
		puts("Not tried: weights that mxfp calibrate chooses on a text, as --calibrate FILE does with another text.");
	if (m->made != order[0])
		printf("config.json cannot say these activations of the formats of %s, so mxfp quantize does not write it%s%s.\n", best->name,
		       m->made != 0 ? "; the best that it writes is " : "", m->made != 0 ? m->evaluation->results[m->made].name : "");
	if (m->made != 0)
		printf("\n    %s\n", m->command);
}

int mixtures_text(const struct mixtures *m, const char *source, bool chosen, struct error *error)
{
	const struct advise_mix *mix = chosen ? &m->items[0].mix : NULL;

	evaluate_print_source(m->evaluation, source, stdout);
	int code = print_units(m, mix, error);
	if (code == EXIT_OK)
		code = advise_print_front(m->advice, error);
	if (code == EXIT_OK)
		code = print_runs(m, error);
	if (code != EXIT_OK)
		return code;
	advise_print_left_out(m->advice);
	if (chosen) {
		const struct score_mean *divergence = &m->evaluation->results[1].summary.divergence;

		printf("chosen: %.3f bits a weight, KLD ", weight_error_bits(&mix->total));
		if (isnan(advise_mix_cost(mix)) || isnan(divergence->mean))
			fputs("unknown: predictions are NaN", stdout);
		else
			printf("%.6f summed, %.6f +- %.6f measured", advise_mix_cost(mix), divergence->mean, divergence->error);
		puts(mix->exact ? "" : ", the best that was found in bounded memory");
	}
	print_best(m);
	return EXIT_OK;
}

static json_t *divergence_facts(const struct score_mean *divergence)
{
	return json_pack("{s:o, s:o}", "mean", facts_number(divergence->mean), "error", facts_number(divergence->error));
}

static json_t *unit_facts(const struct mixtures *m, size_t u, const struct advise_mix *chosen)
{
	const struct advice *advice = m->advice;
	const struct unit *unit = &advice->units.items[u];
	json_t *tensors = json_array(), *variants = json_array();
	uint64_t elements = 0;

	for (size_t i = 0; i < unit->n; i++)
		tensors = facts_append(tensors, facts_text(advice->layers[advice->units.members[unit->first + i]].tensor->name));
	for (size_t v = 0; v < m->n_trials; v++) {
		const struct variant *variant = &advice->options->variants.items[v];
		const struct weight_error error = unit_error(advice, unit, v);
		json_t *facts = json_pack("{s:s, s:s, s:I, s:f, s:o, s:o}", "weights",
			mxfp_format_get_info(variant->format)->name, variant_has_recipe(variant) ? "recipe" : "rule",
			variant_choice(variant), "bytes", (json_int_t)error.bytes, "bits_per_weight", weight_error_bits(&error),
			"kl_divergence", divergence_facts(&m->divergences[u * m->n_trials + v]), "sqnr_db",
			facts_number(weight_error_sqnr(&error)));

		if (chosen != NULL)
			facts = facts_set(facts, "chosen", json_boolean(variant_of(advice, chosen, u) == v));
		variants = facts_append(variants, facts);
		elements = error.elements;
	}
	return json_pack("{s:o, s:I, s:o, s:o}", "name", facts_text(unit->name), "elements", (json_int_t)elements,
	                 "tensors", tensors, "variants", variants);
}

int mixtures_json(const struct mixtures *m, const char *source, bool chosen, struct error *error)
{
	const struct advice *advice = m->advice;
	json_t *units = json_array(), *mixtures = json_array(), *facts = evaluate_facts(m->evaluation, source);
	json_t *front = advise_front_facts(advice, error);

	for (size_t u = 0; u < advice->units.n; u++)
		units = facts_append(units, unit_facts(m, u, chosen ? &m->items[0].mix : NULL));
	for (size_t i = 0; i < m->n; i++) {
		json_t *mixture = facts_set(advise_mix_facts(advice, &m->items[i].mix), "name",
		                            facts_text(m->evaluation->results[i + 1].name));

		if (m->items[i].calibrated)
			mixture = facts_set(mixture, "kl_divergence_summed", json_null());
		mixtures = facts_append(mixtures, facts_set(mixture, "calibrated", json_boolean(m->items[i].calibrated)));
	}
	facts = facts_set(facts, "predictions", judge_facts(m->evaluation));
	facts = facts_set(facts, "formats_not_loaded", advise_not_loaded_facts(advice));
	facts = facts_set(facts, "command", m->made != 0 ? facts_text(m->command) : json_null());
	facts = facts_set(facts, "units", units);
	facts = facts_set(facts, "front", front);
	facts = facts_set(facts, "mixtures", mixtures);
	if (chosen)
		facts = facts_set(facts, "chosen", advise_mix_facts(advice, &m->items[0].mix));
	facts = facts_set(facts, "decoded_from", advice->model->n_decoded > 0 ? facts_text(decoded_from(advice->model)) : json_null());
	facts = facts_set(facts, "tensors_left_out", json_integer((json_int_t)advice->n_left_out));
	return facts_print(stdout, facts_set(facts, "tensors_refused", json_integer((json_int_t)advice->n_refused)), error);
}
