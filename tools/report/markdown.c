/* SPDX-License-Identifier: MIT */
/* A report as Markdown: what one reads first; in full, also every measure of every tensor, histograms, what was left
   out. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/product.h"
#include "base/printable.h"
#include "eval/judge.h"
#include "model/decoded.h"
#include "report/evaluation.h"
#include "report/report.h"

/* "32x64", cut if it is long. Returns `text`. */
static const char *dimensions(char text[REPORT_CELL], const struct tensor *tensor)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < tensor->rank && used < REPORT_CELL - 24; i++)
		used += (size_t)snprintf(text + used, REPORT_CELL - used, "%s%" PRIu64, i == 0 ? "" : "x",
		                         tensor->shape[i]);
	return text;
}

static void cosine_cell(struct table *table, const struct stats *stats)
{
	if (stats->n == 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.6f", stats_cosine(stats));
}

/* Per cent. */
static void share_cell(struct table *table, uint64_t n, uint64_t of)
{
	if (of == 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.3f %%", 100 * (double)n / (double)of);
}

static void saturated_cell(struct table *table, const struct measurement *m)
{
	if (m->saturated_known)
		share_cell(table, m->saturated, m->elements);
	else
		table_cell(table, "-");
}

/* SQNR of the products: two cells for each kind of activations. */
static void product_cells(struct table *table, const struct report *report, const struct measurement *m)
{
	for (unsigned k = 0; k < input_kinds(&report->options->input); k++) {
		report_sqnr_cell(table, stats_sqnr(&m->products[k].weights_only));
		report_sqnr_cell(table, stats_sqnr(&m->products[k].both));
	}
}

/* The headings of the columns about products: SQNR with the weights quantized, and the activations too. */
static void product_headings(struct table *table, const struct report *report)
{
	for (unsigned k = 0; k < input_kinds(&report->options->input); k++) {
		table_cell(table, "y %s, W", input_kind_name(&report->options->input, k));
		table_cell(table, "y %s, W+x", input_kind_name(&report->options->input, k));
	}
}

static void detail_headings(struct table *table, const struct report *report)
{
	static const char *const headings[] = {"tensor",  "shape",   "format", "rule",      "SQNR dB", "rel. error",
	                                       "max abs", "max rel", "cosine", "saturated", "flushed", "bits/weight"};

	table->n_columns = sizeof headings / sizeof headings[0] + 2 * input_kinds(&report->options->input);
	table->n_left = 4;
	for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
		table_cell(table, "%s", headings[i]);
	product_headings(table, report);
}

static void detail_row(struct table *table, const struct report *report, const char *name, const char *shape,
                       const struct measurement *m)
{
	char format[VARIANT_TEXT];

	table_name(table, name);
	table_cell(table, "%s", shape);
	table_cell(table, "%s", variant_format(&m->variant, format));
	table_cell(table, "%s", variant_choice(&m->variant));
	report_sqnr_cell(table, stats_sqnr(&m->errors.stats));
	report_number_cell(table, stats_relative_error(&m->errors.stats));
	report_number_cell(table, m->errors.stats.max_absolute);
	report_number_cell(table, m->errors.stats.max_relative);
	cosine_cell(table, &m->errors.stats);
	saturated_cell(table, m);
	share_cell(table, m->errors.flushed, m->elements);
	table_cell(table, "%.3f", measurement_bits(m));
	product_cells(table, report, m);
}

static int print_tensors(const struct report *report, FILE *file, struct error *error)
{
	struct table table = {0};
	char shape[REPORT_CELL];
	int code = EXIT_OK;

	detail_headings(&table, report);
	for (size_t v = 0; v < report->options->variants.n; v++)
		detail_row(&table, report, "all", "", &report->totals[v]);
	for (size_t i = 0; code == EXIT_OK && i < report->n_layers; i++) {
		struct layer layer;

		code = report_load(report, i, &layer, error);
		for (size_t v = 0; code == EXIT_OK && v < report->options->variants.n; v++)
			detail_row(&table, report, layer.tensor->name, dimensions(shape, layer.tensor),
			           &layer.measurements[v]);
		if (code == EXIT_OK)
			layer_free(&layer, report->options->variants.n);
	}
	if (code != EXIT_OK) {
		table_free(&table);
		return code;
	}
	fputs("## All measures, in total and by tensor\n\n"
	      "max abs: max |w' - w|; max rel: max |w' - w| / |w| over w != 0; cosine: of the angle between\n"
	      "w and w'.\n\n",
	      file);
	return table_print(&table, file, error);
}

/* Exponent of a scale code, less its bias; the codes of one exponent make one row. */
static int code_exponent(const struct mxfp_format_info *scale, unsigned code)
{
	return (int)(code >> scale->significand_bits) - scale->bias;
}

/* Blocks of a variant whose scale has that exponent. NaN is the topmost code of both scale formats. */
static uint64_t blocks_at(const struct measurement *m, const struct mxfp_format_info *scale, int exponent)
{
	uint64_t blocks = 0;

	for (unsigned code = 0; code <= scale->max_code; code++)
		if (code_exponent(scale, code) == exponent)
			blocks += m->scales[code];
	return blocks;
}

static uint64_t all_blocks(const struct measurement *m)
{
	uint64_t blocks = 0;

	for (unsigned code = 0; code < N_SCALE_CODES; code++)
		blocks += m->scales[code];
	return blocks;
}

static bool has_scale(const struct report *report, size_t v, const struct mxfp_format_info *scale)
{
	const struct variant *variant = &report->totals[v].variant;

	return variant_is_quantized(variant) && !variant->mixed &&
	       mxfp_format_get_info(variant->format)->scale == scale->format;
}

/* Nothing rather than 0 %, so that the shape shows. */
static void shown_share_cell(struct table *table, uint64_t n, uint64_t of)
{
	if (n == 0)
		table_cell(table, "%s", "");
	else
		share_cell(table, n, of);
}

/* A row for `exponent`, unless no variant has a block there. */
static void histogram_row(struct table *table, const struct report *report, const struct mxfp_format_info *scale,
                          int exponent)
{
	uint64_t blocks = 0;

	for (size_t v = 0; v < report->options->variants.n; v++)
		if (has_scale(report, v, scale))
			blocks += blocks_at(&report->totals[v], scale, exponent);
	if (blocks == 0)
		return;
	if (scale->significand_bits > 0 && exponent == -scale->bias)
		table_cell(table, "below 2^%d", exponent + 1);
	else
		table_cell(table, "2^%d", exponent);
	for (size_t v = 0; v < report->options->variants.n; v++)
		if (has_scale(report, v, scale))
			shown_share_cell(table, blocks_at(&report->totals[v], scale, exponent),
			           all_blocks(&report->totals[v]));
}

static int print_histogram(const struct report *report, enum mxfp_format format, FILE *file, struct error *error)
{
	const struct mxfp_format_info *scale = mxfp_format_get_info(format);
	struct table table = {.n_columns = 1};
	char text[VARIANT_TEXT];

	for (size_t v = 0; v < report->options->variants.n; v++)
		table.n_columns += has_scale(report, v, scale);
	if (table.n_columns == 1)
		return EXIT_OK;
	table_name(&table, scale->name);
	for (size_t v = 0; v < report->options->variants.n; v++)
		if (has_scale(report, v, scale))
			table_cell(&table, "%s %s", variant_format(&report->totals[v].variant, text),
			           variant_choice(&report->totals[v].variant));
	for (int exponent = -scale->bias; exponent <= code_exponent(scale, scale->max_code); exponent++)
		histogram_row(&table, report, scale, exponent);
	return table_print(&table, file, error);
}

static void variant_headings(struct table *table, const struct report *report)
{
	char text[VARIANT_TEXT];

	for (size_t v = 0; v < report->options->variants.n; v++)
		table_cell(table, "%s %s", variant_format(&report->totals[v].variant, text),
		           variant_choice(&report->totals[v].variant));
}

/* Shares of the weights by relative error, a column a variant; rows that are empty everywhere are left out. */
static int print_relative(const struct report *report, FILE *file, struct error *error)
{
	size_t n = report->options->variants.n;
	struct table table = {.n_columns = 1 + n};

	table_cell(&table, "error");
	variant_headings(&table, report);
	for (unsigned bin = 0; bin < N_ERROR_BINS; bin++) {
		uint64_t elements = 0;

		for (size_t v = 0; v < n; v++)
			elements += report->totals[v].errors.relative[bin];
		if (elements == 0)
			continue;
		if (bin == 0)
			table_cell(&table, "none");
		else if (bin == 1)
			table_cell(&table, "below 2^%d", ERROR_EXPONENT_MIN + 1);
		else
			table_cell(&table, "2^%d", ERROR_EXPONENT_MIN + (int)bin - 1);
		for (size_t v = 0; v < n; v++)
			shown_share_cell(&table, report->totals[v].errors.relative[bin], report->totals[v].errors.stats.n);
	}
	fputs("## Relative errors\n\nShares of the weights by |w' - w| / |w|: 2^e stands for 2^e up to 2^(e+1). What became"
	      " zero is in 2^0.\n\n", file);
	return table_print(&table, file, error);
}

/* What was not measured. */
static int print_skipped(const struct report *report, FILE *file, struct error *error)
{
	struct table table = {.n_columns = 3, .n_left = 3};
	char shape[REPORT_CELL];

	if (report->n_skipped == 0)
		return EXIT_OK;
	table_cell(&table, "tensor");
	table_cell(&table, "shape");
	table_cell(&table, "why");
	for (size_t i = 0; i < report->n_skipped; i++) {
		table_name(&table, report->skipped[i].tensor->name);
		table_cell(&table, "%s", dimensions(shape, report->skipped[i].tensor));
		table_cell(&table, "%s", report->skipped[i].reason);
	}
	fputs("## Not measured\n\n", file);
	return table_print(&table, file, error);
}

/* Every measure and the histograms. */
static int print_details(const struct report *report, FILE *file, struct error *error)
{
	int code = print_tensors(report, file, error);

	if (code == EXIT_OK)
		code = print_relative(report, file, error);
	fputs("## Block scales\n\nShares of the blocks, by the exponent of their scale.\n\n", file);
	if (code == EXIT_OK)
		code = print_histogram(report, MXFP_FORMAT_E8M0, file, error);
	if (code == EXIT_OK)
		code = print_histogram(report, MXFP_FORMAT_UE4M3, file, error);
	return code;
}

enum { WORST_MAX = 10 };

/* The ways that were tried, the best first. */
static int print_tried(const struct report *report, FILE *file, struct error *error)
{
	const struct report_evaluation *e = report->evaluation;
	char cells[REPORT_TRIED_COLUMNS][REPORT_TRIED_TEXT];
	size_t order[EVALUATE_TRIALS];
	const size_t n = judge_rank(order, &e->evaluation), n_columns = report_evaluation_cells(e, 0, cells);
	struct table table = {.n_columns = n_columns, .n_left = 1};

	for (size_t row = 0; row <= n; row++) {
		report_evaluation_cells(e, row == 0 ? 0 : order[row - 1], cells);
		for (size_t i = 0; i < n_columns; i++)
			table_cell(&table, "%s", cells[i]);
	}
	return table_print(&table, file, error);
}

/* A line of the details as an item of a list; *line: its end. */
static int print_item(const char **line, FILE *file, struct error *error)
{
	const size_t n = strcspn(*line, "\n");
	char *item = strndup(*line, n);

	if (item == NULL)
		return fail_memory(error);
	fputs("- ", file);
	print_markdown(file, item);
	putc('\n', file);
	free(item);
	*line += n;
	return EXIT_OK;
}

/* What one reads first. */
static int print_verdict(const struct report *report, FILE *file, struct error *error)
{
	const struct report_verdict *verdict = &report->verdict;
	int code = EXIT_OK;

	fputs("**", file);
	print_markdown(file, verdict->sentence);
	fputs("**\n\n", file);
	if (report->evaluation != NULL)
		code = print_tried(report, file, error);
	for (const char *line = verdict->details; code == EXIT_OK && line != NULL && *line != '\0'; line += strspn(line, "\n"))
		code = print_item(&line, file, error);
	fputs(verdict->details != NULL ? "\n" : "", file);
	if (verdict->command != NULL)
		fprintf(file, "    %s\n\n", verdict->command);
	return code;
}

static int print_title(const struct report *report, FILE *file, struct error *error)
{
	fputs("# Quantization error of ", file);
	print_markdown(file, report->model->path);
	fputs("\n\n", file);
	return print_verdict(report, file, error);
}

/* The model run on tokens. */
static int print_evaluation(const struct report *report, FILE *file, struct error *error)
{
	fputs("## Evaluation\n\n", file);
	int code = evaluate_print_text(&report->evaluation->evaluation, report->evaluation->source, file, error);
	if (code == EXIT_OK && report->evaluation->sums.n_results > 0) {
		fputs("## Sums of products\n\n", file);
		code = evaluate_print_text(&report->evaluation->sums, report->evaluation->source, file, error);
		putc('\n', file);
	}
	fputs("## Weights\n\n", file);
	return code;
}

static void print_measured(const struct report *report, FILE *file)
{
	const struct input_source *input = &report->options->input;
	uint64_t elements = report->options->variants.n > 0 ? report->totals[0].elements : 0;

	fprintf(file,
	        "%zu tensors with %" PRIu64 " weights in %" PRIu64 " bytes against their binary32 values; %zu tensors"
	        " left out.\n",
	        report->n_layers, elements, report_bytes(report), report->n_skipped);
	if (report->model->n_decoded > 0)
		fprintf(file, "%zu tensor%s quantized before (%s): decoded, and errors are those of rounding once more.\n", report->model->n_decoded,
		        report->model->n_decoded == 1 ? "" : "s", decoded_from(report->model));
	if (report->options->against != NULL) {
		fputs("The quantized weights are those of ", file);
		print_markdown(file, report->options->against->path);
		fputs(".\n", file);
	}
	fputs("Products y = x W^T: ", file);
	if (input->file == NULL)
		fprintf(file, "%zu tokens a layer, ", input->tokens);
	else if (report->input_rows <= input->tokens)
		fprintf(file, "all rows of x, at most %" PRIu64 " a layer, ", report->input_rows);
	else
		fprintf(file, "the first %zu rows of x, of which there are up to %" PRIu64 " (--tokens takes more), ",
		        input->tokens, report->input_rows);
	if (report_samples_rows(report))
		fprintf(file, "at most %" PRIu64 " rows of W, evenly spaced, ", report->options->product_rows);
	fprintf(file, "activations x quantized to %s (%s).\n", mxfp_format_get_info(input->variant.format)->name,
	        variant_choice(&input->variant));
	fprintf(file, "Sums: y, W by %s in passes of %d; y, W+x %s in passes of %d; errors against sums in binary64.\n",
	        mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_CHAIN), PRODUCT_PASS_CHAIN,
	        mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_EXACT), PRODUCT_PASS);
	if (input->file != NULL) {
		fputs("Activations: ", file);
		print_markdown(file, input->file->path);
		fprintf(file, "; columns y cover %zu of %zu tensors, those that it fits.\n\n", report->n_covered,
		        report->n_layers);
	} else {
		fprintf(file,
		        "Activations: seed %" PRIu64 "; normal: N(0,1); outliers: every %dth channel times %d.\n\n",
		        input->seed, OUTLIER_SPACING, OUTLIER_FACTOR);
	}
}

static int print_summary(const struct report *report, FILE *file, struct error *error)
{
	static const char *const headings[] = {"format",   "rule",       "bits/weight", "whole model", "SQNR dB",
	                                       "Gaussian", "rel. error", "saturated",   "flushed",     "excluded",
	                                       "Pareto"};
	enum { N_HEADINGS = sizeof headings / sizeof headings[0] };
	struct table table = {.n_columns = N_HEADINGS + 2 * input_kinds(&report->options->input), .n_left = 2};
	char format[VARIANT_TEXT];

	for (size_t i = 0; i < N_HEADINGS; i++)
		table_cell(&table, "%s", headings[i]);
	product_headings(&table, report);
	for (size_t v = 0; v < report->options->variants.n; v++) {
		const struct measurement *m = &report->totals[v];
		const struct report_whole whole = report_whole(report, v);

		table_cell(&table, "%s", variant_format(&m->variant, format));
		table_cell(&table, "%s", variant_choice(&m->variant));
		table_cell(&table, "%.3f", measurement_bits(m));
		table_cell(&table, "%.3f", 8 * (double)whole.quantized / (double)whole.elements);
		report_sqnr_cell(&table, stats_sqnr(&m->errors.stats));
		report_sqnr_cell(&table, report_gaussian(report, v));
		report_number_cell(&table, stats_relative_error(&m->errors.stats));
		saturated_cell(&table, m);
		share_cell(&table, m->errors.flushed, m->elements);
		table_cell(&table, "%" PRIu64, m->errors.stats.excluded);
		table_cell(&table, "%s", report_on_front(report, v) ? "front" : "");
		product_cells(&table, report, m);
	}
	fputs("## Summary\n\n", file);
	return table_print(&table, file, error);
}

/* What quantized activations do by themselves. */
static void print_inputs(const struct report *report, FILE *file)
{
	for (unsigned k = 0; k < input_kinds(&report->options->input); k++) {
		const struct input_stats *inputs = &report->inputs[k];
		char x[REPORT_CELL], y[REPORT_CELL];

		fprintf(file, "Activations '%s' quantized, weights exact: SQNR of x %s, of y %s.\n",
		        input_kind_name(&report->options->input, k), report_sqnr(x, stats_sqnr(&inputs->input)),
		        report_sqnr(y, stats_sqnr(&inputs->product)));
	}
	putc('\n', file);
}

static void print_guide(FILE *file)
{
	fputs("How to read it:\n"
	      "- SQNR: signal to quantization noise, 10 log10(sum w^2 / sum (w' - w)^2) in dB; 6 dB more halve\n"
	      "  the error.\n"
	      "- Gaussian: the SQNR that standard normal numbers have in this format by this rule, a yardstick; what\n"
	      "  is 1 dB under it loses more than the format costs.\n"
	      "- whole model: bits/weight of all tensors, those included that keep their type.\n"
	      "- rel. error: Frobenius norm of w' - w over that of w, which is 10^(-SQNR/20).\n"
	      "- saturated, flushed: shares of elements cut to the largest number, and of nonzero ones that\n"
	      "  became zero.\n"
	      "- excluded: elements that are NaN or Inf before or after; no number counts them.\n"
	      "- Pareto: on the front, no other line has fewer bits and no more error, or as many bits and less\n"
	      "  error.\n"
	      "- bits/weight: codes, block scales and tensor scale, padding included; with N:M the codes that are\n"
	      "  kept, and masks.\n"
	      "- N:M behind a format: pruned before, so that of every M weights along a row the N largest are left;\n"
	      "  f32 N:M is pruned and not quantized, which is what pruning costs by itself. Of these, y, W and\n"
	      "  y, W+x have pruned weights.\n"
	      "- y, W: SQNR of products with quantized weights and exact activations (W4A16 for a 4-bit format);\n"
	      "  y, W+x: with quantized activations too (W4A8). Their difference is what the activations cost.\n"
	      "  Both are what mxfp_gemm() gives, its rounding included: chain is one fused multiply-add an element,\n"
	      "  exact an exact sum over each block.\n\n",
	      file);
}

/* Rising SQNR of the first variant; layers of one value stay in the order of the file, NaN goes last. */
static int compare_layers(const void *a, const void *b)
{
	const struct report_layer *const *x = a, *const *y = b;
	double p = (*x)->sqnr[0], q = (*y)->sqnr[0];

	if (isnan(p) || isnan(q))
		return isnan(p) - isnan(q);
	if (p != q)
		return p < q ? -1 : 1;
	return (*x > *y) - (*x < *y);
}

static void worst_row(struct table *table, const struct report *report, const struct report_layer *layer)
{
	char shape[REPORT_CELL];

	table_name(table, layer->tensor->name);
	table_cell(table, "%s", dimensions(shape, layer->tensor));
	for (size_t v = 0; v < report->options->variants.n; v++)
		report_sqnr_cell(table, layer->sqnr[v]);
}

/* What the layers are to be seen against: the one in the middle, and the yardstick. */
static int yardstick_rows(struct table *table, const struct report *report, struct error *error)
{
	size_t n = report->options->variants.n;
	int code = EXIT_OK;

	table_cell(table, "(median)");
	table_cell(table, "%s", "");
	for (size_t v = 0; code == EXIT_OK && v < n; v++) {
		double median = 0;

		code = report_median(&median, report, v, error);
		report_sqnr_cell(table, median);
	}
	table_cell(table, "(Gaussian)");
	table_cell(table, "%s", "");
	for (size_t v = 0; v < n; v++)
		report_sqnr_cell(table, report_gaussian(report, v));
	return code;
}

static int print_worst(const struct report *report, FILE *file, struct error *error)
{
	struct table table = {.n_columns = 2 + report->options->variants.n, .n_left = 2};
	const struct report_layer **layers = malloc((report->n_layers + 1) * sizeof *layers);
	int code = EXIT_OK;

	if (layers == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < report->n_layers; i++)
		layers[i] = &report->layers[i];
	qsort(layers, report->n_layers, sizeof *layers, compare_layers);
	table_cell(&table, "tensor");
	table_cell(&table, "shape");
	variant_headings(&table, report);
	for (size_t i = 0; i < report->n_layers && i < WORST_MAX; i++)
		worst_row(&table, report, layers[i]);
	free(layers);
	code = yardstick_rows(&table, report, error);
	if (code != EXIT_OK) {
		table_free(&table);
		return code;
	}
	fputs("## Worst layers (SQNR dB, by the first column)\n\n", file);
	return table_print(&table, file, error);
}

/* What there is to say about layers. */
static int print_layers(const struct report *report, FILE *file, bool full, struct error *error)
{
	int code = print_summary(report, file, error);

	if (code != EXIT_OK)
		return code;
	print_inputs(report, file);
	print_guide(file);
	code = print_worst(report, file, error);
	return code == EXIT_OK && full ? print_details(report, file, error) : code;
}

int report_markdown(const struct report *report, FILE *file, bool full, struct error *error)
{
	int code = print_title(report, file, error);

	if (code == EXIT_OK && report->evaluation != NULL)
		code = print_evaluation(report, file, error);
	if (code != EXIT_OK)
		return code;
	print_measured(report, file);
	if (report->n_layers > 0)
		code = print_layers(report, file, full, error);
	if (code == EXIT_OK && (full || report->n_layers == 0))
		code = print_skipped(report, file, error);
	return code;
}
