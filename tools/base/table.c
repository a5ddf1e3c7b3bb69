/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "base/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/color.h"
#include "base/printable.h"

/* Returns the malloc'ed text of a cell, or NULL. */
static char *format_cell(const char *format, va_list arguments)
{
	va_list again;

	va_copy(again, arguments);
	int length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	char *cell = length < 0 ? NULL : malloc((size_t)length + 1);
	if (cell == NULL)
		return NULL;
	vsnprintf(cell, (size_t)length + 1, format, arguments);
	make_printable(cell);
	for (char *c = strchr(cell, '|'); c != NULL; c = strchr(c, '|'))
		*c = '?';
	return cell;
}

/* Takes the malloc'ed text of a cell; NULL: memory ran out. */
static void add_cell(struct table *table, char *cell)
{
	if (table->n_cells == table->capacity) {
		size_t capacity = 2 * table->capacity + 64;
		char **cells = realloc(table->cells, capacity * sizeof *cells);

		if (cells == NULL) {
			table->out_of_memory = true;
			free(cell);
			return;
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	if (cell == NULL)
		table->out_of_memory = true;
	else
		table->cells[table->n_cells++] = cell;
}

void table_cell(struct table *table, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_cell(table, format_cell(format, arguments));
	va_end(arguments);
}

void table_name(struct table *table, const char *name)
{
	char *cell = NULL;
	size_t size;
	FILE *stream = open_memstream(&cell, &size);

	if (stream != NULL) {
		print_markdown(stream, name);
		if (fclose(stream) != 0) {
			free(cell);
			cell = NULL;
		}
	}
	add_cell(table, cell);
}

void table_number(struct table *table, double x, int digits, const char *unit)
{
	if (isnan(x))
		table_cell(table, "-");
	else if (fabs(x) < 1e6)
		table_cell(table, "%.*f%s", digits, x, unit);
	else
		table_cell(table, "%.4g%s", x, unit);
}

/* Counts the characters of UTF-8: all bytes except continuation bytes. */
static size_t width(const char *cell)
{
	size_t n = 0;

	for (; *cell != '\0'; cell++)
		n += ((unsigned char)*cell & 0xC0) != 0x80;
	return n;
}

static void repeat(FILE *file, char c, size_t n)
{
	while (n-- > 0)
		putc(c, file);
}

/* Prints a row, each cell padded to its column's width. The rule below the heading tells Markdown the alignment. */
static void print_row(const struct table *table, size_t row, const size_t *widths, FILE *file)
{
	for (size_t column = 0; column < table->n_columns; column++) {
		const char *cell = table->cells[row * table->n_columns + column];
		size_t gap = widths[column] - width(cell);

		fputs("| ", file);
		repeat(file, ' ', column < table->n_left ? 0 : gap);
		fprintf(file, "%s%s%s", row == 0 ? color_begin(file, COLOR_HEADING) : "", cell,
		        row == 0 ? color_end(file) : "");
		repeat(file, ' ', column < table->n_left ? gap + 1 : 1);
	}
	fputs("|\n", file);
}

static void print_rule(const struct table *table, const size_t *widths, FILE *file)
{
	for (size_t column = 0; column < table->n_columns; column++) {
		fputs("|", file);
		repeat(file, '-', widths[column] + 1);
		putc(column < table->n_left ? '-' : ':', file);
	}
	fputs("|\n", file);
}

void table_free(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->n_cells = table->capacity = 0;
}

int table_print(struct table *table, FILE *file, struct error *error)
{
	size_t *widths = calloc(table->n_columns, sizeof *widths);

	if (table->out_of_memory || widths == NULL) {
		free(widths);
		table_free(table);
		return fail_memory(error);
	}
	for (size_t i = 0; i < table->n_cells; i++)
		if (width(table->cells[i]) > widths[i % table->n_columns])
			widths[i % table->n_columns] = width(table->cells[i]);
	for (size_t row = 0; row < table->n_cells / table->n_columns; row++) {
		print_row(table, row, widths, file);
		if (row == 0)
			print_rule(table, widths, file);
	}
	putc('\n', file);
	free(widths);
	table_free(table);
	return EXIT_OK;
}
