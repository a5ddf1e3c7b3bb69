/* SPDX-License-Identifier: MIT */
/* Numbers of a report as text. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "report/report.h"

const char *report_sqnr(char text[REPORT_CELL], double sqnr)
{
	if (isnan(sqnr))
		strcpy(text, "-");
	else if (isinf(sqnr))
		strcpy(text, sqnr > 0 ? "exact" : "no signal");
	else
		snprintf(text, REPORT_CELL, "%.2f dB", sqnr);
	return text;
}

void report_sqnr_cell(struct table *table, double sqnr)
{
	char text[REPORT_CELL];

	report_sqnr(text, sqnr);
	table_cell(table, "%.*s", (int)strcspn(text, " "), text);
}

void report_number_cell(struct table *table, double x)
{
	if (isfinite(x))
		table_cell(table, "%.4g", x);
	else
		table_cell(table, "-");
}
