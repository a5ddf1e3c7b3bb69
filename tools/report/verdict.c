/* SPDX-License-Identifier: MIT */
/*
 * What a report says first: whether a format will do for the model, and what to do. A layer is judged by its yardstick,
 * what the format costs standard normal numbers (gaussian.def): trained weights are close to normal, so one that is
 * under it by more than REPORT_TOLERANCE_DB has outliers, or blocks of mixed magnitudes, that the format does not hold.
 * Outliers so large that they are nearly all of the signal hide that from SQNR, but what is beside them becomes zero: so a
 * layer that loses more than half of its weights to zero is under it as well.
 *
 * What it costs to keep those layers in a larger format is what the command that is proposed does: `mxfp quantize
 * --preset w4a8-mixed` promotes units (fused.h) from the largest mean error down, so all down to the last that has such
 * a layer are counted. Layers for which that is too much, as single experts that are slightly worse than thousands, are
 * left as they are.
 */
#include "config.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/weight_error.h"
#include "base/printable.h"
#include "base/suffix.h"
#include "base/word.h"
#include "eval/judge.h"
#include "io/file_gguf.h"
#include "model/allow.h"
#include "model/fused.h"
#include "model/layout.h"
#include "quantize/preset.h"
#include "report/evaluation.h"
#include "report/gaussian.h"
#include "report/report.h"

/* Shares of the weights. */
#define SHARE_MAX 0.25   /* that may lose more, or be promoted, if the format is to be fine for most */
#define SHARE_CHEAP 0.05 /* that may be promoted whatever it is for, 0.2 bits in MXFP4, */
#define TIMES_MORE 8     /* or so many times what loses more of it */
#define SHARE_FEW 0.01   /* that may lose more without being promoted */

#define COST_MAX 10 /* dB that activations take, above which it tells of weights that lose next to nothing */

size_t report_judged(const struct report *report)
{
	const struct measurement *totals = report->totals;
	size_t best = 0;

	for (size_t v = 1; v < report->options->variants.n; v++) {
		const struct variant *a = &totals[v].variant, *b = &totals[best].variant;
		bool dense = a->sparsity.m == 0, is_4bit = a->format == MXFP_FORMAT_MXFP4;
		double bits = measurement_bits(&totals[v]) - measurement_bits(&totals[best]);
		double db = stats_sqnr(&totals[v].errors.stats) - stats_sqnr(&totals[best].errors.stats);

		if (dense != (b->sparsity.m == 0)) {
			if (dense)
				best = v;
		} else if (is_4bit != (b->format == MXFP_FORMAT_MXFP4)) {
			if (is_4bit)
				best = v;
		} else if (bits < 0 || (bits == 0 && db > 0))
			best = v;
	}
	return best;
}

static bool loses_more(const struct report *report, size_t i, size_t v)
{
	const struct report_layer *layer = &report->layers[i];

	return layer->zeroed[v] || !(layer->sqnr[v] >= report_layer_gaussian(report, layer, v) - REPORT_TOLERANCE_DB);
}

/* Whether every layer has a yardstick. */
static bool has_yardstick(const struct report *report, size_t v)
{
	for (size_t i = 0; i < report->n_layers; i++)
		if (isnan(report_layer_gaussian(report, &report->layers[i], v)))
			return false;
	return report->n_layers > 0;
}

/* A unit, as w4a8-mixed ranks it. */
struct rank {
	struct weight_error error;
	uint64_t promoted_bytes, elements_more; /* of those that lose more */
	size_t n_layers, n_more;
};

static int compare(const void *a, const void *b)
{
	double x = weight_error_mean(&((const struct rank *)a)->error), y = weight_error_mean(&((const struct rank *)b)->error);

	return (x < y) - (x > y);
}

static void rank_unit(struct rank *rank, const struct report *report, const struct units *units, const struct unit *unit)
{
	const size_t v = report->verdict.variant;
	struct variant variant = report->totals[v].variant, promoted = {.format = PRESET_PROMOTED};

	variant.mixed = false;
	for (size_t k = 0; k < unit->n; k++) {
		size_t i = units->members[unit->first + k];
		const struct report_layer *layer = &report->layers[i];
		struct variant_storage now = {0}, then = {0};
		uint64_t rows, cols;

		tensor_matrix(layer->tensor, &rows, &cols);
		variant_storage(&now, &variant, (size_t)rows, (size_t)cols);
		variant_storage(&then, &promoted, (size_t)rows, (size_t)cols);
		const struct weight_error error = {
			.elements = rows * cols,
			.bytes = now.kept + now.masks + now.scales,
			.sum = (double)rows * (double)cols * pow(10, -layer->sqnr[v] / 10),
		};
		weight_error_add(&rank->error, &error);
		rank->promoted_bytes += then.codes + then.scales;
		if (loses_more(report, i, v)) {
			rank->elements_more += error.elements;
			rank->n_more++;
		}
		rank->n_layers++;
	}
}

/* Whether so many weights are worth promoting. */
static bool is_worth(double share, double share_more)
{
	return share <= SHARE_CHEAP || (share <= SHARE_MAX && share <= TIMES_MORE * share_more);
}

/* Promotes every unit that has a layer that loses more, and those that are before it: all of them if layers that lose more
   have a large share of the weights, else as far as it is worth it. */
static void promote(struct report_verdict *verdict, const struct rank *ranks, size_t n)
{
	struct weight_error total = {0}, then;
	uint64_t more = 0;
	size_t n_layers = 0, n_more = 0;

	for (size_t i = 0; i < n; i++) {
		weight_error_add(&total, &ranks[i].error);
		more += ranks[i].elements_more;
	}
	const double elements = (double)total.elements;
	verdict->share_more = verdict->share_left = (double)more / elements;
	if (verdict->share_more > SHARE_MAX)
		verdict->answer = REPORT_NOT;

	double share = 0, share_more = 0;
	then = total;
	for (size_t i = 0; i < n; i++) {
		then.bytes += ranks[i].promoted_bytes - ranks[i].error.bytes;
		share += (double)ranks[i].error.elements / elements;
		share_more += (double)ranks[i].elements_more / elements;
		n_layers += ranks[i].n_layers;
		n_more += ranks[i].n_more;
		if (ranks[i].n_more == 0 || (verdict->answer != REPORT_NOT && !is_worth(share, share_more)))
			continue;
		verdict->n_promoted = n_layers;
		verdict->n_more_promoted = n_more;
		verdict->share_left = verdict->share_more - share_more;
		verdict->bits = weight_error_bits(&then);
		verdict->bits_more = verdict->bits - weight_error_bits(&total);
	}
}

/* What it costs to keep the layers that lose more in the larger format, and whether they are few. */
static int weigh(struct report *report, struct error *error)
{
	const char **names = calloc(report->n_layers, sizeof *names);
	struct rank *ranks = calloc(report->n_layers, sizeof *ranks);
	struct units units = {0};
	int code = names == NULL || ranks == NULL ? fail_memory(error) : EXIT_OK;

	for (size_t i = 0; code == EXIT_OK && i < report->n_layers; i++)
		names[i] = report->layers[i].tensor->name;
	if (code == EXIT_OK)
		code = units_make(&units, names, report->n_layers, error);
	if (code == EXIT_OK) {
		for (size_t i = 0; i < units.n; i++)
			rank_unit(&ranks[i], report, &units, &units.items[i]);
		qsort(ranks, units.n, sizeof *ranks, compare);
		promote(&report->verdict, ranks, units.n);
	}
	units_free(&units);
	free(ranks);
	free(names);
	return code;
}

/* The layout to propose: of those that take the most weights, the first. */
static const struct report_refused *proposed(const struct report *report)
{
	const struct report_refused *best = &report->refused[0];
	const enum mxfp_format format = report->totals[report->verdict.variant].variant.format;

	for (size_t k = 1; k < REPORT_LAYOUTS; k++) {
		const struct report_refused *other = &report->refused[k];

		if (other->layout != NULL && other->elements < best->elements &&
		    layout_form(other->layout, format, false) != NULL)
			best = other;
	}
	return best;
}

/* "MXFP8" of "mxfp8-e4m3", the one that is called so; others whole. */
static void print_format(FILE *file, enum mxfp_format format)
{
	const char *name = format == MXFP_FORMAT_MXFP8_E4M3 ? "mxfp8" : mxfp_format_get_info(format)->name;

	for (; *name != '\0'; name++)
		putc(toupper((unsigned char)*name), file);
}

static unsigned element_bits(enum mxfp_format format)
{
	return mxfp_format_get_info(mxfp_format_get_info(format)->element)->bits;
}

/* Whether activations are to stay: as those of the report lose too much, or the target takes none quantized. */
static bool keeps_activations(const struct report *report)
{
	return report->verdict.activations_lose || (report->options->against == NULL && !target_takes_activations(report->target));
}

/* "W4A8" for weights and activations in MX formats, W4A16 if activations should stay; else the format of the weights. */
static void print_way(FILE *file, const struct report *report, const struct variant *variant)
{
	const enum mxfp_format x = report->options->input.variant.format;

	if (variant->mixed)
		fputs("The mixture", file);
	else if (variant->format == MXFP_FORMAT_NVFP4 || !variant_is_quantized(variant))
		print_format(file, variant->format);
	else
		fprintf(file, "W%uA%u", element_bits(variant->format), keeps_activations(report) ? 16 : element_bits(x));
}

const char *report_way(char text[REPORT_CELL], const struct report *report, const struct variant *variant)
{
	FILE *file = fmemopen(text, REPORT_CELL, "w");

	text[0] = '\0';
	if (file != NULL) {
		print_way(file, report, variant);
		fclose(file);
	}
	return text;
}

/* "MXFP4 costs a Gaussian, 19.1 dB" */
static void print_yardstick(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	const struct variant *variant = &report->totals[verdict->variant].variant;

	if (variant->mixed) {
		fputs("their formats cost a Gaussian", file);
		return;
	}
	print_format(file, variant->format);
	fprintf(file, " costs a Gaussian, %.1f dB", verdict->gaussian);
}

static bool is_promotable(const struct report *report)
{
	const struct variant *variant = &report->totals[report->verdict.variant].variant;

	return !variant->mixed && element_bits(variant->format) < element_bits(PRESET_PROMOTED);
}

static void print_cost(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	const size_t n = verdict->n_more_promoted, more = verdict->n_promoted - n;

	if (!is_promotable(report) || verdict->n_promoted == 0) {
		fprintf(file, ", with %.2g %% of the weights", 100 * verdict->share_more);
		return;
	}
	fputs("; keeping ", file);
	if (n < verdict->n_more)
		fprintf(file, "%zu of those", n);
	else
		fputs(n == 1 ? "that one" : "those", file);
	if (more > 0)
		fprintf(file, " and %zu that go%s with %s", more, more == 1 ? "es" : "", n == 1 ? "it" : "them");
	fputs(" in ", file);
	print_format(file, PRESET_PROMOTED);
	if (verdict->bits_more < 0.01)
		fputs(" costs less than 0.01 bits a weight", file);
	else
		fprintf(file, " costs %.*f bits a weight", verdict->bits_more < 0.095 ? 2 : 1, verdict->bits_more);
}

/* How much of the products' SQNR quantized activations take. */
static double activations_cost(const struct report *report)
{
	const struct product_stats *products = &report->totals[report->verdict.variant].products[0];

	return stats_sqnr(&products->weights_only) - stats_sqnr(&products->both);
}

/* Whether the user's own activations lose more than normal ones would; others are normal. */
static bool activations_lose(const struct report *report)
{
	const struct input_source *input = &report->options->input;

	return input->file != NULL &&
	       stats_sqnr(&report->inputs[0].product) < gaussian_sqnr(&input->variant) - REPORT_TOLERANCE_DB;
}

/* Why nothing was measured, by the largest tensor, a matrix if there is one. */
static void print_nothing(FILE *file, const struct report *report)
{
	const struct report_left_out *largest = NULL;
	bool includes = false;

	for (size_t i = 0; i < report->n_skipped; i++) {
		const struct report_left_out *own = &report->skipped[i];
		const bool matrix = own->tensor->rank >= 2, was = largest != NULL && largest->tensor->rank >= 2;

		if (largest == NULL || (matrix && !was) || (matrix == was && own->tensor->size > largest->tensor->size))
			largest = own;
		includes |= own->includes;
	}
	fputs("Nothing was measured", file);
	if (largest != NULL) {
		fputs(": ", file);
		print_printable(file, largest->tensor->name);
		fprintf(file, ", the largest of %zu tensor%s, is left out: %s", report->n_skipped, report->n_skipped == 1 ? "" : "s",
		        largest->reason);
	}
	fputs(includes ? ". --include names tensors to measure." : ".", file);
}

static void print_sentence(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	const size_t n = report->n_layers, more = verdict->n_more;

	if (n == 0) {
		print_nothing(file, report);
		return;
	}
	print_way(file, report, &report->totals[verdict->variant].variant);
	if (verdict->n_broken > 0) {
		fprintf(file, " does not suit the weights: %zu of %zu layer%s hold%s nothing but NaN and Inf.", verdict->n_broken, n,
		        n == 1 ? "" : "s", verdict->n_broken == 1 ? "s" : "");
		return;
	}
	if (verdict->n_non_finite > 0) {
		fprintf(file, " does not suit the weights: %zu of %zu layer%s hold%s NaN or Inf.", verdict->n_non_finite, n,
		        n == 1 ? "" : "s", verdict->n_non_finite == 1 ? "s" : "");
		return;
	}
	if (verdict->answer == REPORT_UNKNOWN) {
		fputs(" has no yardstick here: that is of dense weights rounded to nearest.", file);
		return;
	}
	if (verdict->answer == REPORT_FINE) {
		if (n > 2)
			fprintf(file, ": the weights of all %zu layers lose what ", n);
		else
			fputs(n == 1 ? ": the weights of its one layer lose what " : ": the weights of both layers lose what ", file);
		print_yardstick(file, report);
	} else if (verdict->answer == REPORT_MOSTLY) {
		fprintf(file, ": the weights of %zu of %zu layers lose what ", n - more, n);
		print_yardstick(file, report);
		fprintf(file, "; %zu lose%s more", more, more == 1 ? "s" : "");
		print_cost(file, report);
	} else {
		fprintf(file, " does not suit the weights: %zu of %zu layer%s lose%s more than ", more, n, n == 1 ? "" : "s",
		        more == 1 ? "s" : "");
		print_yardstick(file, report);
		print_cost(file, report);
	}
	if (verdict->activations_lose) {
		fputs("; activations in ", file);
		print_format(file, report->options->input.variant.format);
		fputs(" lose more than normal ones would, so keep them in 16 bits", file);
	}
	putc('.', file);
}

/* "13.5 GiB" */
static void print_bytes(FILE *file, uint64_t n)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	double x = (double)n;
	size_t unit = 0;

	for (; x >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
		x /= 1024;
	fprintf(file, "%.*f %s", unit == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2, x, units[unit]);
}

static double bits_of(uint64_t bytes, uint64_t elements)
{
	return elements == 0 ? 0 : 8 * (double)bytes / (double)elements;
}

/* The layer that is furthest under its yardstick, or the first that becomes zeros. */
static void print_worst(FILE *file, const struct report *report)
{
	const size_t v = report->verdict.variant;
	const struct report_layer *worst = NULL;
	double most = 0;

	for (size_t i = 0; i < report->n_layers; i++) {
		const struct report_layer *layer = &report->layers[i];
		double under = report_layer_gaussian(report, layer, v) - layer->sqnr[v];

		if (layer->zeroed[v]) {
			fputs("More than half of the weights of ", file);
			print_printable(file, layer->tensor->name);
			fputs(" become zero, beside larger ones.\n", file);
			return;
		}
		if (worst == NULL || under > most) {
			worst = layer;
			most = under;
		}
	}
	fputs("The worst is ", file);
	print_printable(file, worst->tensor->name);
	fprintf(file, " with %.1f dB, %.1f under that.\n", worst->sqnr[v], most);
}

enum { SMALL_MODEL = 1000000000 }; /* weights, below which a model loses far more to the same errors */

/* What is said first: what the format costs the model, if that was run, else what it costs the weights, which is no verdict on that. */
static void print_headline(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;

	if (report->evaluation != NULL) {
		report_evaluation_sentence(file, report->evaluation);
		return;
	}
	print_sentence(file, report);
	if (report->n_layers > 0 && verdict->n_non_finite == 0 && verdict->n_broken == 0)
		fputs(" Errors of weights say nothing about what the model loses: --eval TEXT measures that.", file);
}

/* What loaders of the default layout make of what is recommended for any of them. */
static void print_caution(FILE *file, const struct report_evaluation *e)
{
	size_t best;
	bool misread;

	if (e->target != TARGET_ANY || !report_evaluation_best(&best, e) || e->ways[best]->recipe.path != NULL)
		return;
	const enum mxfp_format format = e->ways[best]->settings.choice.format;
	const char *caution = layout_caution(layouts[0], format, &misread);
	if (caution != NULL)
		fprintf(file, "Of %s in layout %s: %s.\n", mxfp_format_get_info(format)->name, layouts[0]->name, caution);
}

/* What is known of a model that was not run. */
static void print_unknown(FILE *file, const struct report *report)
{
	const struct report_whole whole = report_whole(report, report->verdict.variant);

	if (report->evaluation != NULL || report->verdict.n_non_finite > 0 || report->verdict.n_broken > 0)
		return;
	if (whole.elements < SMALL_MODEL)
		fprintf(file, "This model is small, %.3g %s weights: small models lose far more to the same errors than large ones.\n",
		        (double)whole.elements / (whole.elements < 1000000 ? 1e3 : 1e6), whole.elements < 1000000 ? "thousand" : "million");
}

/* The activations that config.json says beside weights of a format: those of the report if the target loads these, else none. */
static enum mxfp_format activations_for(const struct report *report, enum mxfp_format weights)
{
	const enum mxfp_format x = report->options->input.variant.format;
	const bool none = mxfp_format_get_info(weights)->tensor_scale || keeps_activations(report);

	return !none && target_loads(report->target, weights, x) != NULL ? x : OPTION_FORMAT_NONE;
}

/* The layout to propose for the variant of the verdict: that of gpt-oss where it is to be, if the target loads it, else the one in
   which the target loads such weights and activations; NULL: it loads none. */
static const struct layout *layout_for(const struct report *report)
{
	const enum mxfp_format weights = report->totals[report->verdict.variant].variant.format;
	const struct layout *of_model = proposed(report)->layout;

	if (of_model == &layout_gpt_oss && target_loads_in(report->target, of_model, weights, OPTION_FORMAT_NONE))
		return of_model;
	return target_loads(report->target, weights, activations_for(report, weights));
}

/* What the target does not load, and no command is for. */
static void print_not_loaded(FILE *file, const struct report *report)
{
	const struct variant *variant = &report->totals[report->verdict.variant].variant;

	if (report->evaluation == NULL && variant_is_quantized(variant) && !variant->mixed && report->target != TARGET_ANY &&
	    report->options->against == NULL && layout_for(report) == NULL)
		fprintf(file, "Left out of what is recommended: %s, which %s does not load (--for %s).\n",
		        mxfp_format_get_info(variant->format)->name, target_program(report->target), target_name(report->target));
}

static void print_details(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	const struct variant *variant = &report->totals[verdict->variant].variant;
	const struct report_whole whole = report_whole(report, verdict->variant);
	const struct report_refused *refused = proposed(report);
	double cost = activations_cost(report);

	if (report->evaluation != NULL) {
		report_evaluation_details(file, report->evaluation);
		print_caution(file, report->evaluation);
		fputs("By the errors of weights: ", file);
		print_sentence(file, report);
		putc('\n', file);
	}
	if (report->n_layers == 0)
		return;
	print_unknown(file, report);
	if (verdict->n_more > 0)
		print_worst(file, report);
	if (report->totals[verdict->variant].errors.stats.excluded > 0)
		fprintf(file, "Weights that are NaN or Inf, or share a block with one: %" PRIu64 ".\n",
		        report->totals[verdict->variant].errors.stats.excluded);
	if (!variant->mixed && variant_is_quantized(variant)) {
		print_format(file, variant->format);
		fprintf(file, " by %s for weights", variant_choice(variant));
		if (cost < COST_MAX && !keeps_activations(report)) {
			fputs(", and ", file);
			print_format(file, report->options->input.variant.format);
			fprintf(file, " for activations, which take %.1f dB more off the products", fmax(cost, 0));
		}
		fputs(".\n", file);
	}
	if (report->options->input.file != NULL && report->n_covered < report->n_layers)
		fprintf(file, "Activations are those of %zu of %zu layers.\n", report->n_covered, report->n_layers);
	if (refused->n > 0) {
		fprintf(file, "Of these layers %zu stay%s as they are: %s (layout %s).\n", refused->n, refused->n == 1 ? "s" : "",
		        refused->reason, refused->layout->name);
		return;
	}
	fputs("The whole model goes from ", file);
	print_bytes(file, whole.source);
	fprintf(file, ", %.2f bits a weight, to ", bits_of(whole.source, whole.elements));
	print_bytes(file, whole.quantized);
	fprintf(file, ", %.2f bits", bits_of(whole.quantized, whole.elements));
	if (verdict->answer == REPORT_MOSTLY && is_promotable(report) && verdict->n_promoted > 0) {
		uint64_t bytes = whole.quantized + (uint64_t)(verdict->bits_more / 8 * (double)report->totals[verdict->variant].elements);

		fputs(", or with those layers kept ", file);
		print_bytes(file, bytes);
		fprintf(file, ", %.2f bits", bits_of(bytes, whole.elements));
	}
	fputs(".\n", file);
	print_not_loaded(file, report);
}

static void print_selection(FILE *file, const struct select *select)
{
	const struct string_list *lists[] = {&select->include, &select->ignore};

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			word_print_option(file, k == 0 ? "include" : "ignore", lists[k]->items[i]);
	allow_print(file);
}

/* The output of mxfp quantize: a directory or a GGUF file; one that llama.cpp is to load is made of the directory afterwards. */
static void print_output(FILE *file, const struct report *report, const struct layout *layout)
{
	const bool gguf = suffix_stem(report->model->path, ".gguf") != 0;

	fputs(gguf ? " -o OUT.gguf" : " -o OUT", file);
	if (layout != layouts[0] && layout->file_format != &file_gguf)
		fprintf(file, " --layout %s", layout->name);
}

static void print_conversion(FILE *file, const struct report *report, const struct layout *layout)
{
	if (layout->file_format == &file_gguf && suffix_stem(report->model->path, ".gguf") == 0)
		fputs(" && mxfp convert OUT -o OUT.gguf", file);
}

/* The command that makes the variant, mixed as the verdict says. */
static void print_quantize(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	const struct variant *variant = &report->totals[verdict->variant].variant;
	const struct layout *layout = layout_for(report);
	const enum mxfp_format x = activations_for(report, variant->format);
	const bool usual = layout == layouts[0];

	fputs("mxfp quantize ", file);
	word_print_path(file, report->model->path);
	print_output(file, report, layout);
	if (layout == &layout_gpt_oss)
		;
	else if (verdict->n_promoted > 0)
		fprintf(file, " --preset w4a8-mixed --bits %g", ceil(verdict->bits * 1000 - 1e-6) / 1000);
	else if (variant->format == MXFP_FORMAT_MXFP4 && usual)
		fputs(" --preset w4a8", file);
	else if (variant->format == MXFP_FORMAT_NVFP4 && usual)
		fputs(" --preset nvfp4", file);
	else
		fprintf(file, " --weights %s", mxfp_format_get_info(variant->format)->name);
	if (variant->format != MXFP_FORMAT_NVFP4 && x == OPTION_FORMAT_NONE && layout != &layout_gpt_oss)
		fputs(" --activations none", file);
	else if (variant->format != MXFP_FORMAT_NVFP4 && x != OPTION_FORMAT_NONE && x != MXFP_FORMAT_MXFP8_E4M3)
		fprintf(file, " --activations %s", mxfp_format_get_info(x)->name);
	if (variant->format != MXFP_FORMAT_NVFP4 && variant->rule != MXFP_RULE_MSE)
		fprintf(file, " --rule %s", variant_choice(variant));
	if (report->options->round != MXFP_ROUND_RNE)
		fprintf(file, " --round %s", mxfp_option_name(MXFP_OPTION_ROUND, (int)report->options->round));
	if (report->pad_tail)
		fputs(" --pad-tail", file);
	print_selection(file, report->select);
	print_conversion(file, report, layout);
}

/* What has mxfp quantize, or mxfp calibrate, do what a trial did. */
static void print_trial(FILE *file, const struct report *report, const struct trial *trial, const struct layout *layout)
{
	const struct quantize_choice *choice = &trial->settings.choice;
	const bool has_recipe = mxfp_format_get_info(choice->format)->tensor_scale;
	const enum mxfp_format x = trial->activations;
	const char *activations = x == OPTION_FORMAT_NONE ? "none" : mxfp_format_get_info(x)->name;
	const struct preset *preset;

	if (trial->recipe.path != NULL) {
		fputs(" --recipe ", file);
		word_print_path(file, trial->recipe.path);
	} else if (layout == layouts[0] && (preset = preset_like(choice->format, activations, trial->settings.fuse)) != NULL) {
		fprintf(file, " --preset %s", preset->name);
	} else {
		fprintf(file, " --weights %s --activations %s%s", mxfp_format_get_info(choice->format)->name, activations,
		        trial->settings.fuse ? " --fuse" : "");
	}
	if (trial->recipe.path == NULL && !has_recipe && choice->rule != MXFP_RULE_MSE)
		fprintf(file, " --rule %s", mxfp_option_name(MXFP_OPTION_RULE, choice->rule));
	if (trial->recipe.path == NULL && has_recipe && choice->recipe != (int)layout->recipe)
		fprintf(file, " --nvfp4-recipe %s", mxfp_option_name(MXFP_OPTION_RECIPE, choice->recipe));
	if (x != OPTION_FORMAT_NONE && !mxfp_format_get_info(x)->tensor_scale && trial->activation_rule != MXFP_RULE_RCEIL)
		fprintf(file, " --activation-rule %s", mxfp_option_name(MXFP_OPTION_RULE, trial->activation_rule));
	if (report->pad_tail)
		fputs(" --pad-tail", file);
	print_selection(file, report->select);
}

/* The commands that make the best way that was tried. */
static void print_best(FILE *file, const struct report *report)
{
	const struct report_evaluation *e = report->evaluation;
	size_t best;

	if (!report_evaluation_best(&best, e))
		return;
	const struct layout *layout = report_evaluation_layout(e, best);
	/* What it is quantized in before it is converted. */
	const struct layout *first = layout->file_format == &file_gguf && suffix_stem(report->model->path, ".gguf") == 0 ? layouts[0] : layout;
	const bool calibrated = e->calibrated[best];
	if (calibrated) {
		chosen_print(file, &e->chosen);
		print_trial(file, report, e->ways[best], first);
		fputs(" && ", file);
	}
	fputs("mxfp quantize ", file);
	if (calibrated)
		fputs("CALIBRATED", file);
	else
		word_print_path(file, report->model->path);
	print_output(file, report, layout);
	print_trial(file, report, e->ways[best], first);
	if (report->options->round != MXFP_ROUND_RNE)
		fprintf(file, " --round %s", mxfp_option_name(MXFP_OPTION_ROUND, (int)report->options->round));
	print_conversion(file, report, layout);
}

/* Whether `mxfp quantize` takes what was measured, in the layout that is proposed. */
static bool is_runnable(const struct report *report)
{
	const struct variant *variant = &report->totals[report->verdict.variant].variant;
	const struct report_refused *refused = proposed(report);
	const struct layout *layout = layout_for(report);

	if (layout == NULL || refused->n == report->n_layers)
		return false;
	if (layout->file_format == &file_gguf && suffix_stem(report->model->path, ".gguf") == 0 && report->model->directory == NULL)
		return false;
	/* The preset has the recipe of the layout, which for a tensor scale that divides is that of te that multiplies. */
	if (variant->format == MXFP_FORMAT_NVFP4)
		return layout->file_format != &file_gguf && (variant->recipe == MXFP_RECIPE_TE || variant->recipe == layout->recipe);
	return true;
}

/* What was quantized already and is fine needs no command. */
static void print_command(FILE *file, const struct report *report)
{
	const struct report_verdict *verdict = &report->verdict;
	const struct variant *variant = &report->totals[verdict->variant].variant;
	const bool against = report->options->against != NULL;
	const bool few_left = verdict->answer == REPORT_MOSTLY && verdict->share_left <= SHARE_FEW;
	const bool fine = verdict->answer == REPORT_FINE || (few_left && verdict->n_promoted == 0);

	if (verdict->n_non_finite > 0) {
		fputs("mxfp lint ", file);
		word_print_path(file, report->model->path);
		return;
	}
	if (report->evaluation != NULL && !against) {
		print_best(file, report);
		return;
	}
	if (verdict->answer == REPORT_UNKNOWN || (fine && against))
		return;
	if (fine && !is_runnable(report))
		return;
	if (fine || (few_left && variant->format == MXFP_FORMAT_MXFP4 && !variant->mixed && !variant->as_written && is_runnable(report))) {
		print_quantize(file, report);
		return;
	}
	fputs("mxfp advise ", file);
	word_print_path(file, report->model->path);
	print_selection(file, report->select);
	if (report->target != TARGET_VLLM)
		fprintf(file, " --for %s", target_name(report->target));
}

/* Makes lines safe to be shown. */
static void make_lines_printable(char *text)
{
	char *out = text;

	for (char *end = text; end != NULL; text = end) {
		end = strchr(text, '\n');
		if (end != NULL)
			*end++ = '\0';
		make_printable(text);
		const size_t n = strlen(text);
		memmove(out, text, n);
		out += n;
		*out++ = end != NULL ? '\n' : '\0';
	}
}

/* What a function prints, safe to be shown, in memory of the report. */
static int text(const char **text, struct report *report, void print(FILE *, const struct report *), struct error *error)
{
	char *bytes = NULL;
	size_t n;
	FILE *file = open_memstream(&bytes, &n);

	if (file == NULL)
		return fail_memory(error);
	print(file, report);
	bool whole = !ferror(file);
	whole = fclose(file) == 0 && whole;
	if (whole) {
		make_lines_printable(bytes);
		*text = n == 0 ? NULL : arena_string(&report->arena, bytes);
		whole = n == 0 || *text != NULL;
	}
	free(bytes);
	return whole ? EXIT_OK : fail_memory(error);
}

int report_judge(struct report *report, struct error *error)
{
	struct report_verdict *verdict = &report->verdict;
	int code = EXIT_OK;

	*verdict = (struct report_verdict){.variant = report_judged(report), .gaussian = (double)NAN};
	for (size_t i = 0; i < report->n_layers; i++)
		verdict->n_broken += isnan(report->layers[i].sqnr[verdict->variant]);
	for (size_t i = 0; i < report->n_layers; i++)
		verdict->n_non_finite += report->layers[i].non_finite;
	if (verdict->n_broken > 0 || verdict->n_non_finite > 0)
		verdict->answer = REPORT_NOT;
	else if (has_yardstick(report, verdict->variant)) {
		verdict->gaussian = report_gaussian(report, verdict->variant);
		for (size_t i = 0; i < report->n_layers; i++)
			verdict->n_more += loses_more(report, i, verdict->variant);
		verdict->answer = verdict->n_more == 0 ? REPORT_FINE : REPORT_MOSTLY;
		verdict->activations_lose = activations_lose(report);
		if (verdict->n_more > 0)
			code = weigh(report, error);
	}
	if (code == EXIT_OK)
		code = text(&verdict->sentence, report, print_headline, error);
	if (code == EXIT_OK)
		code = text(&verdict->details, report, print_details, error);
	return code == EXIT_OK ? text(&verdict->command, report, print_command, error) : code;
}

enum report_answer report_answer(const struct report *report)
{
	static const enum report_answer answers[] = {[JUDGE_FINE] = REPORT_FINE, [JUDGE_OPEN] = REPORT_UNKNOWN, [JUDGE_COSTLY] = REPORT_NOT,
	                                             [JUDGE_BROKEN] = REPORT_NOT};

	if (report->evaluation != NULL)
		return answers[judge(&report->evaluation->evaluation.results[1].summary)];
	return report->verdict.answer == REPORT_NOT ? REPORT_NOT : REPORT_UNKNOWN;
}
