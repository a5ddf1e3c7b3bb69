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
				code = fail(error, EXIT_USAGE, "advise: --eval: %s is not a layer that mxfp eval quantizes, so its cost is not known; give "
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
		     "formats cost; repair the model, or give other tokens", m->advice->model->path, base->n_nan, base->n);
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

/* Whether config.json can say these activations of all formats of a mixture. */
static bool is_written(const struct mixtures *m, const struct advise_mix *mix, enum mxfp_format activations)
{
	for (size_t u = 0; u < m->advice->units.n && activations != OPTION_FORMAT_NONE; u++) {
		const struct layout_form *form = layout_form(m->advice->layout, m->advice->formats[mix->formats[u]], false);

		if (form == NULL || (form->activations >> activations & 1) == 0)
			return false;
	}
	return true;
}

/* Runs a mixture that was taken over. */
static int run_item(struct mixtures *m, struct mixture *item, const char *name, struct error *error)
{
	struct trial_options options = m->options;
	struct trial trial;
	int code;

	options.recipe = name;
	options.recipe_json = advise_recipe(m->advice, &item->mix);
	if (options.recipe_json == NULL)
		return fail_memory(error);
	code = trial_of_options(&trial, &options, error);
	item->written = code == EXIT_OK && is_written(m, &item->mix, trial.activations);
	if (code == EXIT_OK && item->calibrated)
		code = chosen_run(&m->chosen, m->evaluation, &trial, error);
	else if (code == EXIT_OK)
		code = evaluate_run(m->evaluation, m->advice->model, &trial, EVALUATE_BESIDE, error);
	trial_free(&trial);
	json_decref(options.recipe_json);
	return code;
}

int mixtures_run(struct mixtures *m, const struct advise_mix *mix, const char *name, struct error *error)
{
	m->items[m->n] = (struct mixture){.mix = *mix};
	return run_item(m, &m->items[m->n++], name, error);
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

size_t mixtures_count_few_bits(const struct mixtures *m)
{
	size_t n = 0;

	for (size_t f = 0; f < m->advice->n_formats; f++)
		n += chosen_has(m->advice->formats[f]);
	return n;
}

bool mixtures_are_same(const struct mixtures *m, size_t a, size_t b)
{
	const size_t *one = m->items[a].mix.formats, *other = m->items[b].mix.formats;

	for (size_t u = 0; u < m->advice->units.n; u++)
		if (one[u] != other[u])
			return false;
	return true;
}

/* How many units of a mixture have four bits, in its first unit's format, or in any. */
static size_t count_units(const struct mixtures *m, size_t item, bool any)
{
	const size_t *formats = m->items[item].mix.formats;
	size_t n = 0;

	for (size_t u = 0; u < m->advice->units.n; u++)
		n += chosen_has(m->advice->formats[formats[u]]) && (any || formats[u] == formats[0]);
	return n;
}

/* Whether a mixture is run again, which is not the same as one before it. */
static bool is_calibrated(const struct mixtures *m, size_t item, bool first)
{
	for (size_t i = 0; i < item; i++)
		if (mixtures_are_same(m, i, item))
			return false;
	return first && item == 0 ? count_units(m, item, true) > 0 : count_units(m, item, false) == m->advice->units.n;
}

/* Runs it again, with other weights. */
static int run_again(struct mixtures *m, size_t i, struct error *error)
{
	const struct advice *advice = m->advice;
	const size_t bytes = advice->units.n * sizeof *m->items[i].mix.formats;
	struct mixture *again = &m->items[m->n];
	char name[TRIAL_TEXT];

	*again = (struct mixture){.mix = m->items[i].mix, .calibrated = true};
	again->mix.formats = malloc(bytes + 1);
	if (again->mix.formats == NULL)
		return fail_memory(error);
	memcpy(again->mix.formats, m->items[i].mix.formats, bytes);
	m->n++;
	snprintf(name, sizeof name, "%s", m->evaluation->results[i + 1].name);
	return run_item(m, again, name, error);
}

int mixtures_run_calibrated(struct mixtures *m, bool first, struct error *error)
{
	const size_t n = m->chosen.in != NULL ? m->n : 0;
	int code = EXIT_OK;

	for (size_t i = 0; i < n && code == EXIT_OK; i++)
		if (is_calibrated(m, i, first))
			code = run_again(m, i, error);
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
		free(m->items[i].mix.formats);
	for (size_t v = 0; v < m->n_trials; v++)
		trial_free(&m->trials[v]);
	free(m->trials);
	free(m->divergences);
	free(m->costs);
}
