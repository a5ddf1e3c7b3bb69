/* SPDX-License-Identifier: MIT */
/* Cells of a report's tables. */
#ifndef TOOLS_REPORT_TEXT_H
#define TOOLS_REPORT_TEXT_H

#include <inttypes.h>

#include "base/table.h"
#include "report/report.h"

enum { REPORT_CELL = 256 };

/* SQNR with its unit; "exact" without any error, "-" without a measurement. Returns `text`. */
const char *report_sqnr(char text[REPORT_CELL], const struct stats *stats);

/* "32 x 64", cut if it is long. Returns `text`. */
const char *report_shape(char text[REPORT_CELL], const struct tensor *tensor);

void report_sqnr_cell(struct table *table, const struct stats *stats); /* without the unit */
void report_number_cell(struct table *table, double x);
void report_cosine_cell(struct table *table, const struct stats *stats);
void report_share_cell(struct table *table, uint64_t n, uint64_t of); /* per cent */
void report_saturated_cell(struct table *table, const struct measurement *m);

/* SQNR of the products: two cells for each kind of activations. */
void report_product_cells(struct table *table, const struct report *report, const struct measurement *m);

#endif
