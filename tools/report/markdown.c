/* SPDX-License-Identifier: MIT */
/* A report as Markdown: what one reads first. details.c has the rest. */
#include <math.h>
#include <stdlib.h>

#include "analyse/product.h"
#include "base/printable.h"
#include "report/report.h"
#include "report/text.h"

enum { WORST_MAX = 10 };

static void print_heading(const struct report *report, FILE *file)
{
	const struct input_source *input = &report->options->input;
	uint64_t elements = report->options->variants.n > 0 ? report->totals[0].elements : 0;

	fputs("# Quantization error of ", file);
	print_printable(file, report->model->path);
	fputs("\n\n", file);
	fprintf(file,
	        "%zu tensors with %" PRIu64 " weights in %" PRIu64 " bytes against their binary32 values; %zu tensors"
	        " left out.\n",
	        report->n_layers, elements, report_bytes(report), report->n_skipped);
	if (report->options->against != NULL) {
		fputs("The quantized weights are those of ", file);
		print_printable(file, report->options->against->path);
		fputs(".\n", file);
	}
	fprintf(file, "Products y = x W^T: %s%zu tokens a layer, activations x quantized to %s (%s).\n",
	        input->file != NULL ? "at most " : "", input->tokens, mxfp_format_info(input->variant.format)->name,
	        variant_choice(&input->variant));
	fprintf(file, "Sums: y, W by %s in passes of %d; y, W+x %s in passes of %d; errors against sums in binary64.\n",
	        mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_CHAIN), PRODUCT_PASS_CHAIN,
	        mxfp_option_name(MXFP_OPTION_ACC, MXFP_ACC_EXACT), PRODUCT_PASS);
	if (input->file != NULL) {
		fputs("Activations: ", file);
		print_printable(file, input->file->path);
		fprintf(file, "; columns y cover %zu of %zu tensors, those that it fits.\n\n", report->n_covered,
		        report->n_layers);
	} else {
		fprintf(file,
		        "Activations: seed %" PRIu64 "; normal: N(0,1); outliers: every %dth channel times %d.\n\n",
		        input->seed, OUTLIER_SPACING, OUTLIER_FACTOR);
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

static int print_summary(const struct report *report, FILE *file, struct error *error)
{
	struct table table = {.n_columns = 9 + 2 * input_kinds(&report->options->input), .n_left = 2};
	static const char *const headings[] = {"format",     "rule",      "bits/weight", "SQNR dB",
	                                       "rel. error", "saturated", "flushed",     "excluded",
	                                       "Pareto"};
	char format[VARIANT_TEXT];

	for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
		table_cell(&table, "%s", headings[i]);
	product_headings(&table, report);
	for (size_t v = 0; v < report->options->variants.n; v++) {
		const struct measurement *m = &report->totals[v];

		table_cell(&table, "%s", variant_format(&m->variant, format));
		table_cell(&table, "%s", variant_choice(&m->variant));
		table_cell(&table, "%.3f", measurement_bits(m));
		report_sqnr_cell(&table, &m->weights);
		report_number_cell(&table, stats_relative_error(&m->weights));
		report_saturated_cell(&table, m);
		report_share_cell(&table, m->flushed, m->elements);
		table_cell(&table, "%" PRIu64, m->weights.excluded);
		table_cell(&table, "%s", report_on_front(report, v) ? "front" : "");
		report_product_cells(&table, report, m);
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
		        input_kind_name(&report->options->input, k), report_sqnr(x, &inputs->input),
		        report_sqnr(y, &inputs->product));
	}
	putc('\n', file);
}

static void print_guide(FILE *file)
{
	fputs("How to read it:\n"
	      "- SQNR: signal to quantization noise, 10 log10(sum w^2 / sum (w' - w)^2) in dB; 6 dB more halve\n"
	      "  the error.\n"
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
	const struct layer *const *x = a, *const *y = b;
	double p = stats_sqnr(&(*x)->measurements[0].weights), q = stats_sqnr(&(*y)->measurements[0].weights);

	if (isnan(p) || isnan(q))
		return isnan(p) - isnan(q);
	if (p != q)
		return p < q ? -1 : 1;
	return (*x > *y) - (*x < *y);
}

static void worst_row(struct table *table, const struct report *report, const struct layer *layer)
{
	char shape[REPORT_CELL];

	table_cell(table, "%s", layer->tensor->name);
	table_cell(table, "%s", report_shape(shape, layer->tensor));
	for (size_t v = 0; v < report->options->variants.n; v++)
		report_sqnr_cell(table, &layer->measurements[v].weights);
}

static int print_worst(const struct report *report, FILE *file, struct error *error)
{
	const struct variants *variants = &report->options->variants;
	struct table table = {.n_columns = 2 + variants->n, .n_left = 2};
	char text[VARIANT_TEXT];
	const struct layer **layers = malloc((report->n_layers + 1) * sizeof *layers);

	if (layers == NULL)
		return fail_memory(error);
	for (size_t i = 0; i < report->n_layers; i++)
		layers[i] = &report->layers[i];
	qsort(layers, report->n_layers, sizeof *layers, compare_layers);
	table_cell(&table, "tensor");
	table_cell(&table, "shape");
	for (size_t v = 0; v < variants->n; v++)
		table_cell(&table, "%s %s", variant_format(&report->totals[v].variant, text),
		           variant_choice(&report->totals[v].variant));
	for (size_t i = 0; i < report->n_layers && i < WORST_MAX; i++)
		worst_row(&table, report, layers[i]);
	free(layers);
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
	return code == EXIT_OK && full ? report_details(report, file, error) : code;
}

int report_markdown(const struct report *report, FILE *file, bool full, struct error *error)
{
	int code = EXIT_OK;

	print_heading(report, file);
	if (report->n_layers > 0)
		code = print_layers(report, file, full, error);
	else
		fputs("Nothing was measured; --include names tensors to measure.\n\n", file);
	if (code == EXIT_OK && (full || report->n_layers == 0))
		code = report_skipped(report, file, error);
	return code;
}
