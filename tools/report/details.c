/* SPDX-License-Identifier: MIT */
/* The long parts of a report as Markdown: every measure in total and of every tensor, histograms,
   what was left out. */
#include "report/text.h"

static void detail_headings(struct table *table, const struct report *report)
{
	static const char *const headings[] = {"tensor",  "shape",   "format", "rule",      "SQNR dB", "rel. error",
	                                       "max abs", "max rel", "cosine", "saturated", "flushed", "bits/weight"};

	table->n_columns = sizeof headings / sizeof headings[0] + 2 * input_kinds(&report->options->input);
	table->n_left = 4;
	for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
		table_cell(table, "%s", headings[i]);
	for (unsigned k = 0; k < input_kinds(&report->options->input); k++) {
		table_cell(table, "y %s, W", input_kind_name(&report->options->input, k));
		table_cell(table, "y %s, W+x", input_kind_name(&report->options->input, k));
	}
}

static void detail_row(struct table *table, const struct report *report, const char *name, const char *shape,
                       const struct measurement *m)
{
	char format[VARIANT_TEXT];

	table_cell(table, "%s", name);
	table_cell(table, "%s", shape);
	table_cell(table, "%s", variant_format(&m->variant, format));
	table_cell(table, "%s", variant_choice(&m->variant));
	report_sqnr_cell(table, &m->weights);
	report_number_cell(table, stats_relative_error(&m->weights));
	report_number_cell(table, m->weights.max_absolute);
	report_number_cell(table, m->weights.max_relative);
	report_cosine_cell(table, &m->weights);
	report_saturated_cell(table, m);
	report_share_cell(table, m->flushed, m->elements);
	table_cell(table, "%.3f", measurement_bits(m));
	report_product_cells(table, report, m);
}

static int print_tensors(const struct report *report, FILE *file, struct error *error)
{
	struct table table = {0};
	char shape[REPORT_CELL];

	detail_headings(&table, report);
	for (size_t v = 0; v < report->options->variants.n; v++)
		detail_row(&table, report, "all", "", &report->totals[v]);
	for (size_t i = 0; i < report->n_layers; i++)
		for (size_t v = 0; v < report->options->variants.n; v++)
			detail_row(&table, report, report->layers[i].tensor->name,
			           report_shape(shape, report->layers[i].tensor), &report->layers[i].measurements[v]);
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
	       mxfp_format_info(variant->format)->scale == scale->format;
}

/* Nothing rather than 0 %, so that the shape shows. */
static void share_cell(struct table *table, uint64_t n, uint64_t of)
{
	if (n == 0)
		table_cell(table, "%s", "");
	else
		report_share_cell(table, n, of);
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
			share_cell(table, blocks_at(&report->totals[v], scale, exponent),
			           all_blocks(&report->totals[v]));
}

static int print_histogram(const struct report *report, enum mxfp_format format, FILE *file, struct error *error)
{
	const struct mxfp_format_info *scale = mxfp_format_info(format);
	struct table table = {.n_columns = 1};
	char text[VARIANT_TEXT];

	for (size_t v = 0; v < report->options->variants.n; v++)
		table.n_columns += has_scale(report, v, scale);
	if (table.n_columns == 1)
		return EXIT_OK;
	table_cell(&table, "%s", scale->name);
	for (size_t v = 0; v < report->options->variants.n; v++)
		if (has_scale(report, v, scale))
			table_cell(&table, "%s %s", variant_format(&report->totals[v].variant, text),
			           variant_choice(&report->totals[v].variant));
	for (int exponent = -scale->bias; exponent <= code_exponent(scale, scale->max_code); exponent++)
		histogram_row(&table, report, scale, exponent);
	return table_print(&table, file, error);
}

/* Shares of the weights by relative error, a column a variant; rows that are empty everywhere are left out. */
static int print_relative(const struct report *report, FILE *file, struct error *error)
{
	size_t n = report->options->variants.n;
	struct table table = {.n_columns = 1 + n};
	char text[VARIANT_TEXT];

	table_cell(&table, "error");
	for (size_t v = 0; v < n; v++)
		table_cell(&table, "%s %s", variant_format(&report->totals[v].variant, text),
		           variant_choice(&report->totals[v].variant));
	for (unsigned bin = 0; bin < N_ERROR_BINS; bin++) {
		uint64_t elements = 0;

		for (size_t v = 0; v < n; v++)
			elements += report->totals[v].relative[bin];
		if (elements == 0)
			continue;
		if (bin == 0)
			table_cell(&table, "none");
		else if (bin == 1)
			table_cell(&table, "below 2^%d", ERROR_EXPONENT_MIN + 1);
		else
			table_cell(&table, "2^%d", ERROR_EXPONENT_MIN + (int)bin - 1);
		for (size_t v = 0; v < n; v++)
			share_cell(&table, report->totals[v].relative[bin], report->totals[v].weights.n);
	}
	fputs("## Relative errors\n\nShares of the weights by |w' - w| / |w|: 2^e stands for 2^e up to 2^(e+1). What became"
	      " zero is in 2^0.\n\n", file);
	return table_print(&table, file, error);
}

int report_skipped(const struct report *report, FILE *file, struct error *error)
{
	struct table table = {.n_columns = 3, .n_left = 3};
	char shape[REPORT_CELL];

	if (report->n_skipped == 0)
		return EXIT_OK;
	table_cell(&table, "tensor");
	table_cell(&table, "shape");
	table_cell(&table, "why");
	for (size_t i = 0; i < report->n_skipped; i++) {
		table_cell(&table, "%s", report->skipped[i].tensor->name);
		table_cell(&table, "%s", report_shape(shape, report->skipped[i].tensor));
		table_cell(&table, "%s", report->skipped[i].reason);
	}
	fputs("## Not measured\n\n", file);
	return table_print(&table, file, error);
}

int report_details(const struct report *report, FILE *file, struct error *error)
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
