/* SPDX-License-Identifier: MIT */
#include "report/text.h"

#include <math.h>
#include <string.h>

const char *report_sqnr(char text[REPORT_CELL], const struct stats *stats)
{
	double sqnr = stats_sqnr(stats);

	if (isnan(sqnr))
		strcpy(text, "-");
	else if (isinf(sqnr))
		strcpy(text, sqnr > 0 ? "exact" : "no signal");
	else
		snprintf(text, REPORT_CELL, "%.2f dB", sqnr);
	return text;
}

const char *report_shape(char text[REPORT_CELL], const struct tensor *tensor)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < tensor->rank && used < REPORT_CELL - 24; i++)
		used += (size_t)snprintf(text + used, REPORT_CELL - used, "%s%" PRIu64, i == 0 ? "" : "x",
		                         tensor->shape[i]);
	return text;
}

void report_sqnr_cell(struct table *table, const struct stats *stats)
{
	char text[REPORT_CELL];

	report_sqnr(text, stats);
	table_cell(table, "%.*s", (int)strcspn(text, " "), text);
}

void report_number_cell(struct table *table, double x)
{
	if (isfinite(x))
		table_cell(table, "%.4g", x);
	else
		table_cell(table, "-");
}

void report_cosine_cell(struct table *table, const struct stats *stats)
{
	if (stats->n == 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.6f", stats_cosine(stats));
}

void report_share_cell(struct table *table, uint64_t n, uint64_t of)
{
	if (of == 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.3f %%", 100 * (double)n / (double)of);
}

void report_saturated_cell(struct table *table, const struct measurement *m)
{
	if (m->saturated_known)
		report_share_cell(table, m->saturated, m->elements);
	else
		table_cell(table, "-");
}

void report_product_cells(struct table *table, const struct report *report, const struct measurement *m)
{
	for (unsigned k = 0; k < input_kinds(&report->options->input); k++) {
		report_sqnr_cell(table, &m->products[k].weights_only);
		report_sqnr_cell(table, &m->products[k].both);
	}
}
