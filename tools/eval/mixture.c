/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "eval/mixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/judge.h"

int mixtures_begin(struct mixtures *m, struct error *error)
{
	const struct variants *variants = &m->advice->options->variants;
	int code = EXIT_OK;

	m->trials = calloc(variants->n + 1, sizeof *m->trials);
	if (m->trials == NULL)
		return fail_memory(error);
	for (size_t v = 0; v < variants->n && code == EXIT_OK; v++) {
		struct trial_options options = m->options;

		options.weights = variants->items[v].format;
		options.rule = (int)variants->items[v].rule;
		options.nvfp4_recipe = (int)variants->items[v].recipe;
		options.has_nvfp4_recipe = variant_has_recipe(&variants->items[v]);
		/* As the recipe of a mixture has it. */
		options.fuse = variant_has_recipe(&variants->items[v]);
		code = trial_of_options(&m->trials[m->n_trials++], &options, error);
	}
	return code;
}

/* A unit whose layers are quantized. */
struct alone {
	const struct advice *advice;
	const struct unit *unit;
};

/* Whether a tensor is no layer of it: an evaluate_kept. */
static bool is_outside(void *context, const char *tensor)
{
	const struct alone *alone = context;
	const size_t *members = alone->advice->units.members + alone->unit->first;

	for (size_t i = 0; i < alone->unit->n; i++)
		if (strcmp(alone->advice->layers[members[i]].tensor->name, tensor) == 0)
			return false;
	return true;
}

static int run_units(struct mixtures *m, struct evaluate_states *states, struct error *error)
{
	const struct advice *advice = m->advice;
	int code = EXIT_OK;

	for (size_t u = 0; u < advice->units.n; u++)
		for (size_t v = 0; v < m->n_trials && code == EXIT_OK; v++) {
			struct alone alone = {advice, &advice->units.items[u]};
			const struct evaluate_kept kept = {is_outside, &alone};
			struct evaluate_result result;

			code = evaluate_run_changed(m->evaluation, states, advice->model, &m->trials[v], &kept, &result, error);
			if (code == EXIT_OK && result.quantized == 0)
				code = fail(error, EXIT_USAGE, "advise: --eval: %s is no layer that mxfp eval quantizes, so its cost is not known; give "
				            "--ignore %s", advice->layers[advice->units.members[alone.unit->first]].tensor->name,
				            advice->layers[advice->units.members[alone.unit->first]].tensor->name);
			if (code != EXIT_OK)
				break;
			m->divergences[u * m->n_trials + v] = result.summary.divergence;
			m->costs[u * m->n_trials + v] = isnan(result.summary.divergence.mean) ? HUGE_VAL : result.summary.divergence.mean;
		}
	return code;
}

/* One prediction of the base that is NaN makes every mean divergence NaN, by which nothing can be chosen. */
static int check_base(const struct mixtures *m, struct error *error)
{
	const struct score_summary *base = &m->evaluation->results[0].summary;

	return base->n_nan == 0 ? EXIT_OK :
		fail(error, EXIT_INPUT, "%s: %zu of %zu predictions are NaN, because logits are NaN or infinite, so nothing tells what "
		     "formats cost; mend the model, or give other tokens", m->advice->model->path, base->n_nan, base->n);
}

int mixtures_measure(struct mixtures *m, size_t n_more, struct error *error)
{
	const size_t n = m->advice->units.n * m->n_trials;
	struct evaluate_states states;
	int code;

	m->divergences = calloc(n + 1, sizeof *m->divergences);
	m->costs = calloc(n + 1, sizeof *m->costs);
	if (m->divergences == NULL || m->costs == NULL)
		return fail_memory(error);
	evaluate_expect(m->evaluation, 1 + n + n_more);
	code = evaluate_run_states(m->evaluation, &states, m->advice->model, error);
	if (code == EXIT_OK)
		code = check_base(m, error);
	if (code == EXIT_OK)
		code = run_units(m, &states, error);
	evaluate_end_states(&states);
	if (code == EXIT_OK)
		advise_choose_by(m->advice, m->costs);
	return code;
}

int mixtures_run(struct mixtures *m, const struct advise_mix *mix, const char *name, struct error *error)
{
	struct trial_options options = m->options;
	struct trial trial;
	int code;

	m->items[m->n++] = *mix;
	options.recipe = name;
	options.recipe_json = advise_recipe(m->advice, mix);
	if (options.recipe_json == NULL)
		return fail_memory(error);
	code = trial_of_options(&trial, &options, error);
	if (code == EXIT_OK)
		code = evaluate_run(m->evaluation, m->advice->model, &trial, EVALUATE_BESIDE, error);
	trial_free(&trial);
	json_decref(options.recipe_json);
	return code;
}

int mixtures_run_uniform(struct mixtures *m, struct error *error)
{
	const struct advice *advice = m->advice;
	int code = EXIT_OK;

	for (size_t f = 0; f < advice->n_formats && code == EXIT_OK; f++) {
		size_t *formats = calloc(advice->units.n + 1, sizeof *formats);
		struct advise_mix mix;

		if (formats == NULL)
			return fail_memory(error);
		for (size_t u = 0; u < advice->units.n; u++)
			formats[u] = f;
		advise_make_mix(&mix, advice, formats);
		code = mixtures_run(m, &mix, mxfp_format_get_info(advice->formats[f])->name, error);
	}
	return code;
}

int mixtures_search(struct mixtures *m, struct error *error)
{
	static const double quarter = 0.25; /* as the front has them */
	struct advise_mix least = {0}, most = {0};
	int code = advise_mix(&least, m->advice, 0, error);

	if (code == EXIT_OK)
		code = advise_mix(&most, m->advice, HUGE_VAL, error);
	const double from = floor(weight_error_bits(&least.total) / quarter + 1) * quarter;
	const double to = weight_error_bits(&most.total);
	/* The points below are not fine, or the ends, which are formats alone or larger than one. */
	size_t low = 0, high = to > from ? (size_t)ceil((to - from) / quarter) : 0;

	for (int i = 0; low < high && i < MIXTURES_SEARCHED && code == EXIT_OK; i++) {
		const size_t middle = low + (high - low) / 2;
		const double bits = from + quarter * (double)middle;
		struct advise_mix mix;
		char name[32];

		code = advise_mix(&mix, m->advice, bits, error);
		if (code != EXIT_OK)
			break;
		snprintf(name, sizeof name, "%g bits", bits);
		code = mixtures_run(m, &mix, name, error);
		if (code == EXIT_OK && judge(&m->evaluation->results[m->evaluation->n_results - 1].summary) == JUDGE_FINE)
			high = middle;
		else
			low = middle + 1;
	}
	free(least.formats);
	free(most.formats);
	return code;
}

void mixtures_free(struct mixtures *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->items[i].formats);
	for (size_t v = 0; v < m->n_trials; v++)
		trial_free(&m->trials[v]);
	free(m->trials);
	free(m->divergences);
	free(m->costs);
}
