/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "report/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/layout.h"
#include "model/meaning.h"
#include "report/report.h"

enum { NAMED_MAX = 4 }; /* layers that a sentence names */

int report_evaluation_open(struct report_evaluation *e, const char *path, struct error *error)
{
	int code = EXIT_OK;

	if (e->tries != NULL)
		code = trial_parse(e->trials, &e->n_trials, sizeof e->trials / sizeof e->trials[0], e->tries, &e->options, error);
	if (code == EXIT_OK)
		code = meaning_open(&e->model, path, MEANING_READS, error);
	corpus_set_file(&e->corpus_options, e->source);
	if (code == EXIT_OK && layouts[0]->one_expert_each)
		code = model_split_experts(&e->model, NULL, error);
	if (code == EXIT_OK)
		code = corpus_open(&e->corpus, &e->model, &e->corpus_options, error);
	if (code == EXIT_OK)
		code = corpus_read(&e->corpus, &e->corpus_options, error);
	e->settings.tokens = &e->corpus.tokens;
	e->settings.context = e->corpus.context;
	e->settings.note = tokenizer_note(e->corpus.tokenizer);
	return code == EXIT_OK ? evaluate_begin(&e->evaluation, &e->settings, error) : code;
}

static void set_rounding(struct trial *trial, const struct report *report)
{
	trial->settings.round = (int)report->options->round;
	trial->settings.seed = report->options->seed;
}

/* The variant, which is dense and in a block format, as a trial; a model that is already quantized runs as it is. */
static int make_trial(struct report_evaluation *e, const struct report *report, size_t v, const char *name,
                      struct error *error)
{
	const struct variant *variant = &report->totals[v].variant;
	const struct input_source *input = &report->options->input;
	struct trial_options options = e->options;

	options.activations = mxfp_format_get_info(input->variant.format)->name;
	options.weights = report->options->against != NULL ? OPTION_FORMAT_NONE : variant->format;
	options.has_rule = options.has_nvfp4_recipe = true;
	options.rule = (int)variant->rule;
	options.nvfp4_recipe = (int)variant->recipe;
	trial_stored(&e->base, NULL);
	int code = trial_of_options(&e->trial, &options, error);
	set_rounding(&e->trial, report);
	snprintf(e->trial.name, sizeof e->trial.name, "%s", name);
	return code;
}

/* Whether a trial is none of the first two runs. */
static bool is_other(const struct report_evaluation *e, const struct trial *trial)
{
	return !trial_is_stored(trial) && !trial_is_same(trial, &e->trial);
}

static size_t count_others(const struct report_evaluation *e)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n_trials; i++)
		n += is_other(e, &e->trials[i]);
	return n;
}

int report_evaluation_run(struct report_evaluation *e, const struct report *report, size_t variant,
                          const char *name, struct error *error)
{
	const bool against = report->options->against != NULL;
	size_t n_parts = 0;
	int code = make_trial(e, report, variant, name, error);

	if (code == EXIT_OK && !against)
		code = evaluate_count_parts(&e->evaluation, &e->model, &e->trial, &n_parts, error);
	if (code == EXIT_OK) {
		evaluate_expect(&e->evaluation, 2 + count_others(e) + n_parts);
		code = evaluate_run(&e->evaluation, &e->model, &e->base, EVALUATE_BASE, error);
	}
	if (code == EXIT_OK)
		code = evaluate_run(&e->evaluation, against ? report->options->against : &e->model, &e->trial, EVALUATE_BESIDE, error);
	for (size_t i = 0; i < e->n_trials && code == EXIT_OK; i++) {
		if (!is_other(e, &e->trials[i]))
			continue;
		set_rounding(&e->trials[i], report);
		code = evaluate_run(&e->evaluation, &e->model, &e->trials[i], EVALUATE_BESIDE, error);
	}
	if (code == EXIT_OK && !against)
		code = evaluate_by_layer(&e->evaluation, &e->model, &e->trial, error);
	progress_end(&e->evaluation.progress);
	return code;
}

/* Finds the layers, or kinds, which come with what they cost, the most first. */
static size_t find_parts(const struct evaluation *e, bool layers, const struct evaluate_part **first)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n_parts; i++)
		if ((e->parts[i].name[0] == '\0') == layers && n++ == 0)
			*first = &e->parts[i];
	return n;
}

static double sum_of(const struct evaluate_part *parts, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += parts[i].result.summary.divergence.mean;
	return sum;
}

/* Names the layers that together have more than half of what all have alone, if that is less than half of them and few. */
static void print_layers(FILE *file, const struct evaluation *e)
{
	const struct evaluate_part *parts = NULL;
	const size_t n = find_parts(e, true, &parts);
	const double half = n > 0 ? sum_of(parts, n) / 2 : 0;
	size_t some = 1;

	if (!(half > 0) || n < 2)
		return;
	while (some < n && !(sum_of(parts, some) > half))
		some++;
	if (some > NAMED_MAX || 2 * some > n) {
		fprintf(file, ", spread over its %zu layers", n);
		return;
	}
	fprintf(file, ", most of it in layer%s ", some == 1 ? "" : "s");
	for (size_t i = 0; i < some; i++)
		fprintf(file, "%s%zu", i == 0 ? "" : i + 1 < some ? ", " : " and ", parts[i].layer);
	fprintf(file, " of %zu", n);
}

void report_evaluation_sentence(FILE *file, const struct report_evaluation *e)
{
	const struct evaluate_result *r = &e->evaluation.results[1];
	const struct score_summary *s = &r->summary;
	const double cost = 100 * (s->perplexity.mean / s->base_perplexity.mean - 1);

	if (isnan(cost) || s->n_nan > 0) {
		fprintf(file, "%s breaks this model: %zu of %zu predictions are NaN.", r->name, s->n_nan, e->evaluation.n_predictions);
		return;
	}
	if (fabs(s->ratio.mean) <= 2 * s->ratio.error) {
		fprintf(file, "%s costs this model no perplexity that %zu predictions show: %+.2f %%, with an error of %.2f", r->name,
		        e->evaluation.n_predictions, cost, 100 * s->ratio.error);
		putc('.', file);
		return;
	}
	if (cost < 0)
		fprintf(file, "%s takes %.3g %% off the perplexity of this model", r->name, -cost);
	else
		fprintf(file, "%s costs this model %.3g %% perplexity", r->name, cost);
	print_layers(file, &e->evaluation);
	putc('.', file);
}

void report_evaluation_details(FILE *file, const struct report_evaluation *e)
{
	const struct score_summary *s = &e->evaluation.results[1].summary;
	const struct evaluate_part *kinds = NULL;

	fprintf(file, "Perplexity goes from %.4f to %.4f (+- %.4f) on %zu predictions; %.1f %% of the most probable tokens stay",
	        s->base_perplexity.mean, s->perplexity.mean, s->perplexity.error, e->evaluation.n_predictions,
	        100 * s->agreement.mean);
	if (find_parts(&e->evaluation, false, &kinds) > 1 && kinds->result.summary.divergence.mean > 0)
		fprintf(file, ", and of the kinds of weights %s cost%s most", kinds->name,
		        kinds->name[strlen(kinds->name) - 1] == 's' ? "" : "s");
	fputs(". ", file);
}

void report_evaluation_close(struct report_evaluation *e)
{
	evaluate_free(&e->evaluation);
	trial_free(&e->trial);
	for (size_t i = 0; i < e->n_trials; i++)
		trial_free(&e->trials[i]);
	corpus_close(&e->corpus);
	model_close(&e->model);
}
