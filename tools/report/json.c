/* SPDX-License-Identifier: MIT */
/*
 * A report as JSON. Keys are stable: later versions may add some. json_pack() fails, releasing what
 * it was given, when a part is NULL, so running out of memory anywhere gives NULL in the end.
 */
#include "analyse/product.h"
#include "io/facts.h"
#include "io/shape.h"
#include "mxfp/version.h"
#include "report/report.h"

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

	while (end > first && m->relative[end - 1] == 0)
		end--;
	while (first < end && m->relative[first] == 0)
		first++;
	for (unsigned i = first; i < end; i++)
		array = facts_append(array, count(m->relative[i]));
	return json_pack("{s:o, s:i, s:o}", "exact", count(m->relative[0]), "first_exponent",
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
	return json_pack("{s:s, s:s?, s:s?, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format",
	                 format, "rule", rule ? variant_choice(&m->variant) : NULL,
	                 "recipe", recipe ? variant_choice(&m->variant) : NULL, "sparsity",
	                 sparse ? pattern : NULL, "elements", count(m->elements), "bytes",
	                 count(m->bytes), "bits_per_weight", facts_number(measurement_bits(m)), "saturated",
	                 m->saturated_known ? count(m->saturated) : json_null(), "saturated_share",
	                 m->saturated_known ? share(m->saturated, m) : json_null(), "flushed", count(m->flushed),
	                 "flushed_share", share(m->flushed, m), "weights", stats_json(&m->weights), "products",
	                 products_json(report, m));
}

/* One entry a variant, each with its histograms. */
static json_t *measurements_json(const struct report *report, const struct measurement *measurements)
{
	json_t *array = json_array();

	for (size_t v = 0; v < report->options->variants.n; v++) {
		json_t *entry = facts_set(measurement_json(report, &measurements[v]), "errors",
		                          errors_json(&measurements[v]));

		entry = facts_set(entry, "scales", histogram_json(&measurements[v]));
		if (measurements == report->totals)
			entry = facts_set(entry, "pareto", json_boolean(report_on_front(report, v)));
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

static json_t *layers_json(const struct report *report)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->n_layers; i++)
		array = facts_append(array, layer_json(report, &report->layers[i]));
	return array;
}

static json_t *skipped_json(const struct report *report)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->n_skipped; i++)
		array = facts_append(array, json_pack("{s:o, s:s}", "name", facts_text(report->skipped[i].tensor->name),
		                                      "reason", report->skipped[i].reason));
	return array;
}

static json_t *activations_json(const struct report *report)
{
	const struct input_source *source = &report->options->input;
	json_t *file = source->file != NULL ? facts_text(source->file->path) : json_null();

	return json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:s, s:s}", "file", file, "covered_tensors",
	                 count(report->n_covered), "seed", count(source->seed), "tokens",
	                 count(source->tokens), "outlier_spacing", OUTLIER_SPACING, "outlier_factor", OUTLIER_FACTOR,
	                 "format", mxfp_format_get_info(source->variant.format)->name, "rule",
	                 variant_choice(&source->variant));
}

static json_t *sums_json(void)
{
	return json_pack("{s:s, s:{s:s, s:i}, s:{s:s, s:i}}", "reference", "binary64", "weights_quantized", "rule",
	                 mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_CHAIN), "pass", (int)PRODUCT_PASS_CHAIN,
	                 "both_quantized", "rule", mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_EXACT), "pass",
	                 (int)PRODUCT_PASS);
}

json_t *report_json(const struct report *report)
{
	const struct measure_options *options = report->options;
	bool against = options->against != NULL;
	json_t *total = json_pack("{s:o, s:o, s:o}", "source_bytes", count(report_bytes(report)),
	                          "activations_quantized", inputs_json(report, report->inputs), "variants",
	                          measurements_json(report, report->totals));

	/* How a quantized model was rounded is not this command's choice. */
	return json_pack("{s:s, s:o, s:o, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "mxfp_version", mxfp_version(), "source",
	                 facts_text(report->model->path), "against",
	                 against ? facts_text(options->against->path) : json_null(), "round",
	                 against ? NULL : mxfp_option_name(MXFP_OPTION_ROUND, (int)options->round), "seed",
	                 against ? json_null() : count(options->seed),
	                 "activations", activations_json(report), "sums", sums_json(), "total", total, "tensors",
	                 layers_json(report), "not_measured", skipped_json(report));
}
