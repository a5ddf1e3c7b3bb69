/* SPDX-License-Identifier: MIT */
/*
 * A report as JSON. Keys are stable: later versions may add some. json_pack() fails, releasing what
 * it was given, when a part is NULL, so running out of memory anywhere gives NULL in the end. Layers
 * are made and written one by one.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/product.h"
#include "base/printable.h"
#include "io/facts.h"
#include "io/json.h"
#include "io/shape.h"
#include "mxfp/version.h"
#include "report/gaussian.h"
#include "eval/judge.h"
#include "report/evaluation.h"
#include "report/report.h"

enum { PAGE_SKIPPED = 1000 }; /* tensors left out that a page names */

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *stats_json(const struct stats *stats)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sqnr_db", facts_number(stats_sqnr(stats)),
	                 "relative_error", facts_number(stats_relative_error(stats)), "max_absolute_error",
	                 facts_number(stats->max_absolute), "max_relative_error", facts_number(stats->max_relative), "cosine",
	                 facts_number(stats_cosine(stats)), "measured", count(stats->n), "excluded", count(stats->excluded),
	                 "unequal", count(stats->unequal));
}

static json_t *histogram_json(const struct measurement *m)
{
	unsigned first = 0, end = m->n_scales;

	if (!variant_is_quantized(&m->variant) || m->variant.mixed)
		return json_null();
	json_t *array = json_array();
	while (first < end && m->scales[first] == 0)
		first++;
	while (end > first && m->scales[end - 1] == 0)
		end--;
	for (unsigned i = first; i < end; i++)
		array = facts_append(array, count(m->scales[i]));
	return json_pack("{s:s, s:i, s:o}", "scale_format",
	                 mxfp_format_get_info(mxfp_format_get_info(m->variant.format)->scale)->name, "first_code",
	                 (int)(m->first_scale + first), "counts", array);
}

/* Relative errors, without the empty bins at both ends. */
static json_t *errors_json(const struct measurement *m)
{
	unsigned first = 1, end = N_ERROR_BINS;
	json_t *array = json_array();

	while (end > first && m->errors.relative[end - 1] == 0)
		end--;
	while (first < end && m->errors.relative[first] == 0)
		first++;
	for (unsigned i = first; i < end; i++)
		array = facts_append(array, count(m->errors.relative[i]));
	return json_pack("{s:o, s:i, s:o}", "exact", count(m->errors.relative[0]), "first_exponent",
	                 ERROR_EXPONENT_MIN + (int)first - 1, "counts", array);
}

static json_t *products_json(const struct report *report, const struct measurement *m)
{
	json_t *array = json_array();

	for (unsigned k = 0; k < input_kinds(&report->options->input); k++)
		array = facts_append(array, json_pack("{s:s, s:o, s:o}", "activations",
		                                      input_kind_name(&report->options->input, k), "weights_quantized",
		                                      stats_json(&m->products[k].weights_only), "both_quantized",
		                                      stats_json(&m->products[k].both)));
	return array;
}

static json_t *share(uint64_t n, const struct measurement *m)
{
	return facts_number((double)n / (double)m->elements);
}

static json_t *measurement_json(const struct report *report, const struct measurement *m)
{
	bool noted = !m->variant.as_written && !m->variant.mixed;
	bool recipe = variant_has_recipe(&m->variant) && noted;
	bool rule = !variant_has_recipe(&m->variant) && variant_is_quantized(&m->variant) && noted;
	bool sparse = m->variant.sparsity.m != 0 && !m->variant.mixed;
	const char *format = m->variant.mixed ? "mixed" : mxfp_format_get_info(m->variant.format)->name;
	char pattern[SPARSITY_TEXT];

	sparsity_text(m->variant.sparsity, pattern);
	return json_pack("{s:s, s:s?, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format",
	                 format, "rule", rule ? variant_choice(&m->variant) : NULL,
	                 "recipe", recipe ? variant_choice(&m->variant) : NULL, "sparsity",
	                 sparse ? pattern : NULL, "elements", count(m->elements), "bytes",
	                 count(m->bytes), "bits_per_weight", facts_number(measurement_bits(m)),
	                 "gaussian_sqnr_db", facts_number(report_yardstick(report, &m->variant)), "saturated",
	                 m->saturated_known ? count(m->saturated) : json_null(), "saturated_share",
	                 m->saturated_known ? share(m->saturated, m) : json_null(), "flushed", count(m->errors.flushed),
	                 "flushed_share", share(m->errors.flushed, m), "weights", stats_json(&m->errors.stats), "products",
	                 products_json(report, m));
}

/* One entry a variant, each with its histograms; a total also with what it is beside other variants and in the file. */
static json_t *measurements_json(const struct report *report, const struct measurement *measurements)
{
	json_t *array = json_array();

	for (size_t v = 0; v < report->options->variants.n; v++) {
		json_t *entry = facts_set(measurement_json(report, &measurements[v]), "errors",
		                          errors_json(&measurements[v]));

		entry = facts_set(entry, "scales", histogram_json(&measurements[v]));
		if (measurements == report->totals) {
			entry = facts_set(entry, "whole_bytes", count(report_whole(report, v).quantized));
			entry = facts_set(entry, "pareto", json_boolean(report_on_front(report, v)));
		}
		array = facts_append(array, entry);
	}
	return array;
}

static json_t *inputs_json(const struct report *report, const struct input_stats *inputs)
{
	json_t *array = json_array();

	for (unsigned k = 0; k < input_kinds(&report->options->input); k++)
		array = facts_append(array, json_pack("{s:s, s:o, s:o}", "activations",
		                                      input_kind_name(&report->options->input, k), "activations_error",
		                                      stats_json(&inputs[k].input), "products",
		                                      stats_json(&inputs[k].product)));
	return array;
}

static json_t *layer_json(const struct report *report, const struct layer *layer)
{
	return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "name", facts_text(layer->tensor->name), "file",
	                 facts_text(model_file_name(layer->file)), "dtype", dtype_info(layer->tensor->dtype)->name,
	                 "source_bytes", count(layer->tensor->size), "shape", shape_facts(layer->tensor),
	                 "activations_quantized", inputs_json(report, layer->inputs), "variants", measurements_json(report, layer->measurements));
}

static json_t *activations_json(const struct report *report)
{
	const struct input_source *source = &report->options->input;
	json_t *file = source->file != NULL ? facts_text(source->file->path) : json_null();

	const uint64_t rows = report->input_rows;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:s, s:s, s:o}", "file", file, "covered_tensors",
	                 count(report->n_covered), "seed", count(source->seed), "tokens",
	                 count(rows < source->tokens ? rows : source->tokens), "file_rows",
	                 source->file != NULL ? count(rows) : json_null(), "product_rows",
	                 count(report->options->product_rows), "outlier_spacing", OUTLIER_SPACING, "outlier_factor", OUTLIER_FACTOR,
	                 "format", mxfp_format_get_info(source->variant.format)->name, "rule",
	                 variant_choice(&source->variant), "gaussian_sqnr_db",
	                 facts_number(gaussian_sqnr(&source->variant)));
}

static json_t *sums_json(void)
{
	return json_pack("{s:s, s:{s:s, s:i}, s:{s:s, s:i}}", "reference", "binary64", "weights_quantized", "rule",
	                 mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_CHAIN), "pass", (int)PRODUCT_PASS_CHAIN,
	                 "both_quantized", "rule", mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_EXACT), "pass",
	                 (int)PRODUCT_PASS);
}

static json_t *text_or_null(const char *text)
{
	return text != NULL ? facts_text(text) : json_null();
}

/* Which is best of the ways that were tried, and whether the target loads it. */
static json_t *predictions_json(const struct report_evaluation *e)
{
	json_t *facts = judge_facts(&e->evaluation), *rank;
	size_t i;

	json_array_foreach(json_object_get(facts, "ranks"), i, rank) {
		const size_t run = (size_t)json_integer_value(json_object_get(rank, "run"));

		json_object_set_new(rank, "loaded", e->ways[run]->quantizes ? json_boolean(report_evaluation_layout(e, run) != NULL) : json_null());
	}
	return facts;
}

static json_t *verdict_json(const struct report *report)
{
	static const char *const answers[] = {[REPORT_UNKNOWN] = "unknown", [REPORT_FINE] = "fine",
	                                      [REPORT_MOSTLY] = "mostly", [REPORT_NOT] = "not"};
	const struct report_verdict *verdict = &report->verdict;

	json_t *facts = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "answer",
	                 answers[report_answer(report)], "weights", answers[verdict->answer], "sentence", facts_text(verdict->sentence), "details",
	                 text_or_null(verdict->details), "command", text_or_null(verdict->command), "variant",
	                 report->n_layers > 0 ? count(verdict->variant) : json_null(), "gaussian_sqnr_db",
	                 facts_number(verdict->gaussian), "layers", count(report->n_layers), "tolerance_db",
	                 REPORT_TOLERANCE_DB, "losing_more", count(verdict->n_more), "losing_more_share",
	                 facts_number(verdict->share_more), "losing_more_promoted", count(verdict->n_more_promoted), "promoted",
	                 count(verdict->n_promoted), "promoted_bits_per_weight", facts_number(verdict->bits),
	                 "promoted_bits_more", facts_number(verdict->bits_more));
	facts = facts_set(facts, "for", facts_text(target_name(report->target)));
	return report->evaluation != NULL ? facts_set(facts, "predictions", predictions_json(report->evaluation)) : facts;
}

/* What comes before the layers. */
static json_t *head_json(const struct report *report)
{
	const struct measure_options *options = report->options;
	bool against = options->against != NULL;
	const struct report_whole whole = report_whole(report, 0);
	json_t *total = json_pack("{s:o, s:o, s:o, s:o, s:o}", "source_bytes", count(report_bytes(report)),
	                          "whole_source_bytes", count(whole.source), "whole_elements", count(whole.elements),
	                          "activations_quantized", inputs_json(report, report->inputs), "variants",
	                          measurements_json(report, report->totals));

	/* How a quantized model was rounded is not this command's choice. */
	json_t *head = json_pack("{s:s, s:o, s:o, s:o, s:o, s:s?, s:o, s:o, s:o, s:o}", "mxfp_version", mxfp_version(), "verdict",
	                         verdict_json(report), "source", facts_text(report->model->path), "decoded_from",
	                         report->model->decoded_from != NULL ? facts_text(report->model->decoded_from) : json_null(), "against",
	                         against ? facts_text(options->against->path) : json_null(), "round",
	                         against ? NULL : mxfp_option_name(MXFP_OPTION_ROUND, (int)options->round), "seed",
	                         against ? json_null() : count(options->seed),
	                         "activations", activations_json(report), "sums", sums_json(), "total", total);

	if (report->evaluation != NULL)
		head = facts_set(head, "evaluation", evaluate_facts(&report->evaluation->evaluation, report->evaluation->source));
	if (report->evaluation != NULL && report->evaluation->sums.n_results > 0)
		head = facts_set(head, "accumulator", evaluate_facts(&report->evaluation->sums, report->evaluation->source));
	return head;
}

/* Names are not trusted: a "<" in JSON, which stands only in strings, could end the script that holds the data or begin
   a comment, so a page gets none. Lines are indented by `depth` blanks, as those of a part of something larger. */
static void write_text(FILE *file, const char *text, size_t n, enum report_json_form form, int depth)
{
	while (n > 0) {
		const char *end = text;

		while (end < text + n && *end != '\n' && *end != '<')
			end++;
		print_printable_json(file, text, (size_t)(end - text));
		if (end == text + n)
			return;
		fputs(*end == '<' && form == REPORT_JSON_PAGE ? "\\u003c" : (char[]){*end, '\0'}, file);
		if (*end == '\n')
			fprintf(file, "%*s", depth, "");
		n -= (size_t)(end + 1 - text);
		text = end + 1;
	}
}

/* Writes a value and releases it, without what it ends with if that is cut off. */
static int write_value(FILE *file, json_t *value, enum report_json_form form, int depth, const char *cut,
                       struct error *error)
{
	char *text = value == NULL ? NULL
	                           : json_dumps(value, (form == REPORT_JSON ? JSON_INDENT(1) : JSON_COMPACT) |
	                                                       JSON_REAL_PRECISION(12) | JSON_ENCODE_ANY);

	json_decref(value);
	if (text == NULL || json_out_of_memory()) {
		json_release(text);
		return fail_memory(error);
	}
	write_text(file, text, strlen(text) - strlen(cut), form, depth);
	json_release(text);
	return EXIT_OK;
}

/* An array that is written item by item. */
struct array {
	FILE *file;
	enum report_json_form form;
	bool empty;
};

static struct array begin_array(FILE *file, enum report_json_form form, const char *key)
{
	fprintf(file, form == REPORT_JSON ? ",\n \"%s\": [" : ",\"%s\":[", key);
	return (struct array){file, form, true};
}

static int write_item(struct array *array, json_t *item, struct error *error)
{
	if (!array->empty)
		putc(',', array->file);
	if (array->form == REPORT_JSON)
		fputs("\n  ", array->file);
	array->empty = false;
	return write_value(array->file, item, array->form, 2, "", error);
}

static void end_array(const struct array *array)
{
	fputs(array->form == REPORT_JSON && !array->empty ? "\n ]" : "]", array->file);
}

static int write_layers(const struct report *report, FILE *file, enum report_json_form form, struct error *error)
{
	struct array array = begin_array(file, form, "tensors");
	bool all = form == REPORT_JSON || report_is_small(report);
	int code = EXIT_OK;

	for (size_t i = 0; code == EXIT_OK && i < report->n_layers; i++) {
		struct layer layer;

		if (!all && !report_is_worst(report, i))
			continue;
		code = report_load(report, i, &layer, error);
		if (code != EXIT_OK)
			break;
		code = write_item(&array, layer_json(report, &layer), error);
		layer_free(&layer, report->options->variants.n);
	}
	end_array(&array);
	return code;
}

static int write_skipped(const struct report *report, FILE *file, enum report_json_form form, struct error *error)
{
	const bool cut = form == REPORT_JSON_PAGE && report->n_skipped > PAGE_SKIPPED;
	struct array array;
	int code = EXIT_OK;

	if (cut)
		fprintf(file, ",\"left_out\":%zu", report->n_skipped);
	array = begin_array(file, form, "not_measured");
	for (size_t i = 0; code == EXIT_OK && i < (cut ? PAGE_SKIPPED : report->n_skipped); i++)
		code = write_item(&array, json_pack("{s:o, s:s}", "name", facts_text(report->skipped[i].tensor->name),
		                                    "reason", report->skipped[i].reason), error);
	end_array(&array);
	return code;
}

/* SQNR in hundredths of dB, as two bytes of which the low one comes first: -32768 without a measurement, -32767 without
   a signal, 32767 without an error. */
static void put_sqnr(unsigned char bytes[2], double sqnr)
{
	double x = isnan(sqnr) ? -32768 : fmin(fmax(rint(100 * sqnr), -32767), 32767);
	unsigned word = (unsigned)(int)x & 0xFFFF;

	bytes[0] = (unsigned char)word;
	bytes[1] = (unsigned char)(word >> 8);
}

/* A string of base64. */
static void write_base64(FILE *file, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	putc('"', file);
	for (size_t i = 0; i < n; i += 3) {
		size_t some = n - i < 3 ? n - i : 3;
		unsigned word = 0;

		for (size_t k = 0; k < 3; k++)
			word = word << 8 | (k < some ? bytes[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			putc(k <= some ? digits[word >> (18 - 6 * k) & 63] : '=', file);
	}
	putc('"', file);
}

static bool is_like(const struct report_layer *a, const struct report_layer *b)
{
	bool alike = a->gaussian == b->gaussian || (isnan(a->gaussian) && isnan(b->gaussian));

	return alike && a->tensor->dtype == b->tensor->dtype && a->tensor->rank == b->tensor->rank &&
	       memcmp(a->tensor->shape, b->tensor->shape, a->tensor->rank * sizeof *a->tensor->shape) == 0;
}

/* Of ASCII, which has the same length in a page. */
static size_t shared_prefix(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] != '\0' && a[n] == b[n] && (unsigned char)a[n] < 0x80)
		n++;
	return n;
}

static json_t *kind_json(const struct report_layer *layer, size_t from, bool against)
{
	json_t *kind = json_pack("{s:o, s:s, s:o}", "from", count(from), "dtype", dtype_info(layer->tensor->dtype)->name,
	                         "shape", shape_facts(layer->tensor));

	return against ? facts_set(kind, "gaussian_sqnr_db", facts_number(layer->gaussian)) : kind;
}

/* Every layer in a few bytes: "names" has for each how many characters its name shares with the one before, and the rest;
   "kinds" shapes, types and, against a quantized model, yardsticks, each where it begins; "sqnr" base64 of all variants of
   one layer after the other. */
static int write_every(const struct report *report, FILE *file, struct error *error)
{
	size_t n_variants = report->options->variants.n, n = 2 * report->n_layers * n_variants;
	unsigned char *bytes = malloc(n + 1);
	struct array array;
	int code = bytes == NULL ? fail_memory(error) : EXIT_OK;

	if (code != EXIT_OK)
		return code;
	fputs(",\"every\":{\"variants\":", file);
	fprintf(file, "%zu", n_variants);
	array = begin_array(file, REPORT_JSON_PAGE, "names");
	for (size_t i = 0; code == EXIT_OK && i < report->n_layers; i++) {
		const char *name = report->layers[i].tensor->name;
		size_t shared = i == 0 ? 0 : shared_prefix(report->layers[i - 1].tensor->name, name);

		code = write_item(&array, count(shared), error);
		if (code == EXIT_OK)
			code = write_item(&array, facts_text(name + shared), error);
	}
	end_array(&array);
	array = begin_array(file, REPORT_JSON_PAGE, "kinds");
	for (size_t i = 0; code == EXIT_OK && i < report->n_layers; i++) {
		const struct report_layer *layer = &report->layers[i];

		if (i == 0 || !is_like(layer - 1, layer))
			code = write_item(&array, kind_json(layer, i, report->options->against != NULL), error);
	}
	end_array(&array);
	for (size_t i = 0; i < report->n_layers * n_variants; i++)
		put_sqnr(bytes + 2 * i, report->sqnr[i]);
	fputs(",\"sqnr\":", file);
	write_base64(file, bytes, n);
	putc('}', file);
	free(bytes);
	return code;
}

int report_json(const struct report *report, FILE *file, enum report_json_form form, struct error *error)
{
	int code = write_value(file, head_json(report), form, 0, form == REPORT_JSON ? "\n}" : "}", error);

	if (code == EXIT_OK)
		code = write_layers(report, file, form, error);
	if (code == EXIT_OK && form == REPORT_JSON_PAGE && !report_is_small(report))
		code = write_every(report, file, error);
	if (code == EXIT_OK)
		code = write_skipped(report, file, form, error);
	fputs(form == REPORT_JSON ? "\n}" : "}", file);
	return code;
}
