/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "report/evaluation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval/judge.h"
#include "model/layout.h"
#include "model/meaning.h"
#include "report/report.h"

enum { NAMED_MAX = 4 }; /* layers that a sentence names */

/* Way i of those that are compared by sums; NULL after the last. */
static const struct trial *summed_way(const struct report_evaluation *e, size_t i)
{
	if (!e->options.has_acc)
		return NULL;
	if (e->sums_tries)
		return i < e->n_trials ? &e->trials[i] : NULL;
	return i == 0 ? &e->base : NULL;
}

static int check_sums(struct report_evaluation *e, struct error *error)
{
	const struct trial *way;
	int code = EXIT_OK;

	for (size_t i = 0; (way = summed_way(e, i)) != NULL && code == EXIT_OK; i++)
		code = evaluate_check_sums(&e->settings, &e->model, way, &e->options, error);
	return code;
}

static int run_sums(struct report_evaluation *e, struct error *error)
{
	const struct trial *way;
	int code = EXIT_OK;

	for (size_t i = 0; (way = summed_way(e, i)) != NULL && code == EXIT_OK; i++)
		code = evaluate_run_sums(&e->sums, &e->model, way, &e->options, error);
	return code;
}

static size_t count_sums(const struct report_evaluation *e)
{
	size_t n = 0;

	while (summed_way(e, n) != NULL)
		n++;
	return 2 * n;
}

int report_evaluation_open(struct report_evaluation *e, const char *path, struct error *error)
{
	int code = EXIT_OK;

	if (e->tries != NULL)
		code = trial_parse(e->trials, &e->n_trials, sizeof e->trials / sizeof e->trials[0], e->tries, &e->options, error);
	if (code == EXIT_OK)
		code = meaning_open(&e->model, path, MEANING_DECODES, error);
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
	trial_stored(&e->base, NULL);
	if (code == EXIT_OK)
		code = check_sums(e, error);
	if (code == EXIT_OK && e->options.has_acc)
		code = evaluate_begin(&e->sums, &e->settings, error);
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
	options.fuse = variant_has_recipe(variant);
	options.rule = (int)variant->rule;
	options.nvfp4_recipe = (int)variant->recipe;
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

/* Whether a way has weights of four bits, which are worth choosing. */
static bool is_calibrated(const struct report_evaluation *e, const struct trial *trial)
{
	const enum mxfp_format format = trial->settings.choice.format;

	return e->chosen.in != NULL && trial->quantizes && trial->recipe.path == NULL && chosen_has(format);
}

/* Runs a way and notes it. */
static int run_way(struct report_evaluation *e, const struct model *model, const struct trial *trial, struct error *error)
{
	e->ways[e->evaluation.n_results] = trial;
	return evaluate_run(&e->evaluation, model, trial, EVALUATE_BESIDE, error);
}

/* Runs the ways of four bits again. */
static int run_calibrated(struct report_evaluation *e, struct error *error)
{
	const size_t n = e->evaluation.n_results;
	int code = EXIT_OK;

	for (size_t i = 1; i < n && e->evaluation.n_results <= EVALUATE_TRIALS && code == EXIT_OK; i++) {
		if (!is_calibrated(e, e->ways[i]))
			continue;
		e->ways[e->evaluation.n_results] = e->ways[i];
		e->calibrated[e->evaluation.n_results] = true;
		code = chosen_run(&e->chosen, &e->evaluation, e->ways[i], error);
	}
	return code;
}

static size_t count_calibrated(const struct report_evaluation *e)
{
	size_t n = is_calibrated(e, &e->trial);

	for (size_t i = 0; i < e->n_trials; i++)
		n += is_other(e, &e->trials[i]) && is_calibrated(e, &e->trials[i]);
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
	if (code == EXIT_OK && e->options.has_acc) {
		evaluate_expect(&e->sums, count_sums(e));
		code = run_sums(e, error);
		progress_end(&e->sums.progress);
	}
	if (code == EXIT_OK) {
		evaluate_expect(&e->evaluation, 2 + count_others(e) + count_calibrated(e) + n_parts);
		code = evaluate_run(&e->evaluation, &e->model, &e->base, EVALUATE_BASE, error);
	}
	if (code == EXIT_OK)
		code = run_way(e, against ? report->options->against : &e->model, &e->trial, error);
	for (size_t i = 0; i < e->n_trials && code == EXIT_OK; i++) {
		if (!is_other(e, &e->trials[i]))
			continue;
		set_rounding(&e->trials[i], report);
		code = run_way(e, &e->model, &e->trials[i], error);
	}
	if (code == EXIT_OK)
		code = run_calibrated(e, error);
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

/* Whether that is fine, of a way that is not broken. */
static void print_judgement(FILE *file, const struct score_summary *s)
{
	const enum judgement judgement = judge(s);

	if (judgement == JUDGE_FINE)
		fputs(", which is fine", file);
	else if (judgement == JUDGE_OPEN)
		fputs("; whether that is fine takes more tokens to tell", file);
	else if (s->ratio.mean - 2 * s->ratio.error > log1p(JUDGE_PERPLEXITY))
		fputs(", which is too much", file);
	else
		fprintf(file, "; but predictions change too much, by a divergence of %.3g", s->divergence.mean);
	putc('.', file);
}

/* What is best of several ways. */
static void print_best(FILE *file, const struct report_evaluation *e)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, &e->evaluation);
	const struct evaluate_result *best = &e->evaluation.results[order[0]];
	const enum judgement judgement = judge(&best->summary);

	if (n < 2 || judgement == JUDGE_BROKEN)
		return;
	if (judgement == JUDGE_FINE)
		fprintf(file, " The smallest of %zu ways tried that is fine is %s, %.2f bits a weight of the whole model: ", n, best->name,
		        evaluate_bits(best));
	else if (judgement == JUDGE_OPEN)
		fprintf(file, " None of %zu ways tried is surely fine; %s costs least: ", n, best->name);
	else
		fprintf(file, " None of %zu ways tried is fine; %s costs least: ", n, best->name);
	judge_print(file, &best->summary);
	putc('.', file);
}

void report_evaluation_sentence(FILE *file, const struct report_evaluation *e)
{
	const struct evaluate_result *r = &e->evaluation.results[1];
	const struct score_summary *s = &r->summary;
	const double cost = 100 * (s->perplexity.mean / s->base_perplexity.mean - 1);

	if (isnan(cost) || s->n_nan > 0) {
		fprintf(file, "%s breaks this model: %zu of %zu predictions are NaN.", r->name, s->n_nan, e->evaluation.n_predictions);
	} else if (fabs(s->ratio.mean) <= 2 * s->ratio.error) {
		fprintf(file, "%s costs this model no perplexity that %zu predictions show: %+.2f %%, with an error of %.2f", r->name,
		        e->evaluation.n_predictions, cost, 100 * s->ratio.error);
		print_judgement(file, s);
	} else {
		if (cost < 0)
			fprintf(file, "%s takes %.3g %% off the perplexity of this model", r->name, -cost);
		else
			fprintf(file, "%s costs this model %.3g %% perplexity", r->name, cost);
		print_layers(file, &e->evaluation);
		print_judgement(file, s);
	}
	print_best(file, e);
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
	fputs(". Fine is " JUDGE_TEXT ". ", file);
	if (e->evaluation.n_results > 2) {
		fputs("Tried, the best first: ", file);
		judge_print_ranks(file, &e->evaluation);
		fputs(". ", file);
	}
	if (e->chosen.in == NULL && e->trial.quantizes)
		fputs("Not tried: weights that mxfp calibrate chooses on a text, as --calibrate FILE does with another text. ", file);
}

void report_evaluation_close(struct report_evaluation *e)
{
	evaluate_free(&e->evaluation);
	evaluate_free(&e->sums);
	trial_free(&e->trial);
	for (size_t i = 0; i < e->n_trials; i++)
		trial_free(&e->trials[i]);
	corpus_close(&e->corpus);
	model_close(&e->model);
}
