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

enum { NAMED_MAX = 4, TRIES_TEXT = 256 }; /* layers that a sentence names */

#define TRIES_USUAL "w4a8,nvfp4,mxfp6-e2m3/mxfp8-e4m3,mxfp8"

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

/* Ways that are worth a look, of four, six and eight bits; of a target with another layout, all that it loads in that. */
static const char *usual_tries(enum target target, char text[TRIES_TEXT])
{
	const struct layout *layout = target_layout(target);
	size_t used = 0;

	if (layout == layouts[0])
		return TRIES_USUAL;
	for (size_t i = 0; i < layout->n_forms; i++) {
		const enum mxfp_format format = layout->forms[i].format;
		const bool has_recipe = mxfp_format_get_info(format)->tensor_scale;

		if (target_loads(target, format, OPTION_FORMAT_NONE) == layout)
			used += (size_t)snprintf(text + used, TRIES_TEXT - used, "%s%s%s%s/none", used > 0 ? "," : "",
			                         mxfp_format_get_info(format)->name, has_recipe ? ":" : "",
			                         has_recipe ? mxfp_option_name(MXFP_OPTION_RECIPE, (int)layout->recipe) : "");
	}
	return text;
}

int report_evaluation_open(struct report_evaluation *e, const char *path, struct error *error)
{
	char usual[TRIES_TEXT];
	int code = EXIT_OK;

	if (e->tries_usual)
		code = trial_parse(e->trials, &e->n_trials, sizeof e->trials / sizeof e->trials[0], usual_tries(e->target, usual), &e->options,
		                   error);
	else if (e->tries != NULL)
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

	options.activations = target_takes_activations(e->target) || report->options->against != NULL
	                    ? mxfp_format_get_info(input->variant.format)->name : RECIPE_NONE;
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
static void print_judgement(FILE *file, const struct score_summary *s, const struct evaluation *e)
{
	const enum judgement judgement = judge(s);
	char words[JUDGE_WORDS];

	if (judgement == JUDGE_FINE)
		fputs(", which is fine", file);
	else if (judgement == JUDGE_OPEN)
		fprintf(file, "; whether that is fine %s", judge_words(s, e, words));
	else if (s->ratio.mean - 2 * s->ratio.error > log1p(JUDGE_PERPLEXITY))
		fputs(", which is too much", file);
	else
		fprintf(file, "; but predictions change too much, by a divergence of %.3g", s->divergence.mean);
	putc('.', file);
}

/* Whether all formats of a recipe are loaded in the default layout with its activations. */
static bool loads_recipe(enum target target, const struct trial *trial)
{
	const struct recipe *recipe = &trial->recipe;
	bool loads = target_loads(target, trial->settings.choice.format, trial->activations) == layouts[0];

	for (size_t i = 0; i < recipe->n_rules && target != TARGET_ANY; i++)
		if (!recipe->rules[i].keep && recipe->rules[i].change.has_format)
			loads &= target_loads(target, recipe->rules[i].change.choice.format, trial->activations) == layouts[0];
	return loads || target == TARGET_ANY;
}

const struct layout *report_evaluation_layout(const struct report_evaluation *e, size_t result)
{
	const struct trial *trial = e->ways[result];
	const struct quantize_choice *choice = &trial->settings.choice;

	if (!trial->quantizes)
		return NULL;
	if (trial->recipe.path != NULL)
		return trial->settings.activations == trial->activations && loads_recipe(e->target, trial) ? layouts[0] : NULL;
	const struct layout *layout = target_loads(e->target, choice->format, trial->activations);
	if (layout == NULL || choice->sparsity.m != 0)
		return layout == layouts[0] ? layout : NULL;
	if (mxfp_format_get_info(choice->format)->tensor_scale && !layout_holds_recipe(layout, (enum mxfp_recipe)choice->recipe))
		return NULL;
	return layout;
}

/* The results that the target loads, the best first; of TARGET_ANY, and of a model that is quantized already, all. */
static size_t rank_loaded(size_t order[EVALUATE_TRIALS], const struct report_evaluation *e)
{
	size_t all[EVALUATE_TRIALS], n = 0;
	const size_t n_all = judge_rank(all, &e->evaluation);

	for (size_t i = 0; i < n_all; i++)
		if (e->target == TARGET_ANY || !e->ways[all[i]]->quantizes || report_evaluation_layout(e, all[i]) != NULL)
			order[n++] = all[i];
	return n;
}

bool report_evaluation_best(size_t *best, const struct report_evaluation *e)
{
	size_t order[EVALUATE_TRIALS], i = 0;
	const size_t n = judge_rank(order, &e->evaluation);

	while (i < n && report_evaluation_layout(e, order[i]) == NULL)
		i++;
	if (i == n || judge(&e->evaluation.results[order[i]].summary) == JUDGE_BROKEN)
		return false;
	*best = order[i];
	return true;
}

/* What is best of several ways. */
static void print_best(FILE *file, const struct report_evaluation *e)
{
	size_t order[EVALUATE_TRIALS];
	const size_t n = rank_loaded(order, e);
	const struct evaluate_result *best = &e->evaluation.results[order[0]];
	const char *program = e->target != TARGET_ANY ? target_program(e->target) : NULL;

	if (n < 1 || e->evaluation.n_results < 3 || judge(&best->summary) == JUDGE_BROKEN)
		return;
	const char *loads = program != NULL ? " that " : "", *does = program != NULL ? " loads" : "";
	program = program != NULL ? program : "";
	const enum judgement judgement = judge(&best->summary);
	fprintf(file, " Of %zu way%s tried%s%s%s, ", n, n == 1 ? "" : "s", loads, program, does);
	if (judgement == JUDGE_FINE)
		fprintf(file, "the smallest that is fine is %s, %.2f bits a weight of the whole model.", best->name, evaluate_bits(best));
	else
		fprintf(file, "none is %sfine; %s costs least.", judgement == JUDGE_OPEN ? "surely " : "", best->name);
}

size_t report_evaluation_cells(const struct report_evaluation *e, size_t result, char cells[REPORT_TRIED_COLUMNS][REPORT_TRIED_TEXT])
{
	static const char *const headings[] = {"way", "bits/weight", "perplexity", "+-", "mean KLD", "+-", "fine?"};
	const size_t n = sizeof headings / sizeof headings[0];
	const struct evaluate_result *r = &e->evaluation.results[result];
	const struct score_summary *s = &r->summary;
	char words[JUDGE_WORDS];

	for (size_t i = 0; i < n && result == 0; i++)
		snprintf(cells[i], REPORT_TRIED_TEXT, "%s", headings[i]);
	if (result > 0) {
		snprintf(cells[0], REPORT_TRIED_TEXT, "%s", r->name);
		snprintf(cells[1], REPORT_TRIED_TEXT, "%.2f", evaluate_bits(r));
		snprintf(cells[2], REPORT_TRIED_TEXT, "%+.2f %%", 100 * (s->perplexity.mean / s->base_perplexity.mean - 1));
		snprintf(cells[3], REPORT_TRIED_TEXT, "%.2f", 100 * s->ratio.error);
		snprintf(cells[4], REPORT_TRIED_TEXT, "%.4f", s->divergence.mean);
		snprintf(cells[5], REPORT_TRIED_TEXT, "%.4f", s->divergence.error);
		snprintf(cells[6], REPORT_TRIED_TEXT, "%s", judge_words(s, &e->evaluation, words));
	}
	if (e->target == TARGET_ANY)
		return n;
	const struct trial *way = result > 0 ? e->ways[result] : NULL;
	const char *as = way != NULL && way->quantizes && way->recipe.path == NULL
	               ? target_as(e->target, way->settings.choice.format, way->activations) : NULL;
	if (result == 0)
		snprintf(cells[n], REPORT_TRIED_TEXT, "in %s", target_program(e->target));
	else if (!way->quantizes)
		snprintf(cells[n], REPORT_TRIED_TEXT, "%s", "");
	else
		snprintf(cells[n], REPORT_TRIED_TEXT, "%s", report_evaluation_layout(e, result) == NULL ? "not loaded" : as != NULL ? as : "loaded");
	return n + 1;
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
		print_judgement(file, s, &e->evaluation);
	} else {
		if (cost < 0)
			fprintf(file, "%s takes %.3g %% off the perplexity of this model", r->name, -cost);
		else
			fprintf(file, "%s costs this model %.3g %% perplexity", r->name, cost);
		print_layers(file, &e->evaluation);
		print_judgement(file, s, &e->evaluation);
	}
	print_best(file, e);
}

/* Names what is not recommended. */
static void print_left_out(FILE *file, const struct report_evaluation *e)
{
	size_t n = 0;

	for (size_t i = 1; i < e->evaluation.n_results && e->target != TARGET_ANY; i++)
		if (e->ways[i]->quantizes && report_evaluation_layout(e, i) == NULL)
			fprintf(file, "%s%s", n++ == 0 ? "Left out of what is recommended: " : ", ", e->evaluation.results[i].name);
	if (n > 0)
		fprintf(file, ", which %s does not load (--for %s).\n", target_program(e->target), target_name(e->target));
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
	fputs(".\nFine is " JUDGE_TEXT ".\n", file);
	print_left_out(file, e);
	if (e->chosen.in == NULL && e->trial.quantizes)
		fputs("Not tried: weights that mxfp calibrate chooses on a text, as --calibrate FILE does with another text.\n", file);
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
