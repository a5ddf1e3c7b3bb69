/* SPDX-License-Identifier: MIT */
/* Markdown tables with aligned columns, so that they can also be read on a terminal. */
#ifndef TOOLS_BASE_TABLE_H
#define TOOLS_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* The caller sets the first two; the first row of cells is the heading. */
struct table {
	size_t n_columns;
	size_t n_left;    /* the first n_left columns are aligned to the left, the others to the right */
	size_t n_cells, capacity;
	char **cells;
	bool out_of_memory;
};

/* Adds a cell. '|', which would end it, and the characters that printable.h names become '?'. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a name from a file or a command line, with what Markdown and HTML would take as more than text escaped. */
void table_name(struct table *table, const char *name);

/* Adds a number with that many digits after its point, or few in all if it is large; "-": it is NaN. */
void table_number(struct table *table, double x, int digits, const char *unit);

/* Prints whole rows and a blank line, and releases the cells. EXIT_MEMORY. */
int table_print(struct table *table, FILE *file, struct error *error);

/* Releases the cells of a table that is not printed. */
void table_free(struct table *table);

#endif
