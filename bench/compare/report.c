/* SPDX-License-Identifier: MIT */
/* What is said of a comparison: at the end, the few lines that a commit message takes. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { WORST = 5 };

static const char *written(double seconds, char text[16])
{
	static const char *const units[] = {"s", "ms", "us", "ns"};
	int unit = 0;

	for (; seconds < 1 && unit < 3; unit++)
		seconds *= 1000;
	snprintf(text, 16, "%.4g %s", seconds, units[unit]);
	return text;
}

bool table_write(const struct table *table, const char *path)
{
	FILE *file = fopen(path, "w");

	if (file == NULL)
		return false;
	fprintf(file, "# tier\trow\tratio\tfirst ratio\tpairs\tseconds %s\tseconds %s\n", table->names[OLD], table->names[NEW]);
	for (size_t t = 0; t < table->n_tiers; t++)
		for (size_t r = 0; r < table->n_rows; r++) {
			const struct cell *cell = &table->rows[r].cells[t];
			if (cell->finding == FINDING_TIMED)
				fprintf(file, "%s\t%s\t%.3f\t%.3f\t%u\t%.4g\t%.4g\n", table->tiers[t].name, table->rows[r].name,
				        cell->result.ratio, cell->first, cell->result.pairs, cell->result.seconds[OLD],
				        cell->result.seconds[NEW]);
		}
	return fclose(file) == 0;
}

static void print_tiers(const struct table *table)
{
	for (size_t t = table->n_tiers; t-- > 0;)
		if (table->tiers[t].timed)
			printf("tier %s: %s\n", table->tiers[t].name, table->tiers[t].all_rows ? "all rows" : "products");
		else
			printf("tier %s: not timed: %s\n", table->tiers[t].name, table->tiers[t].why);
}

static size_t print_fallen(const struct table *table)
{
	char old_text[16], new_text[16];
	size_t n = 0;

	for (size_t t = table->n_tiers; t-- > 0;)
		for (size_t r = 0; r < table->n_rows; r++) {
			const struct cell *cell = &table->rows[r].cells[t];
			if (!cell->fallen)
				continue;
			if (n++ == 0)
				printf("\nslower than %s, below %.2f times as fast:\n", table->names[OLD], table->below);
			printf("  %.3f  %-6s  %s: %s, now %s%s\n", cell->result.ratio, table->tiers[t].name, table->rows[r].name,
			       written(cell->result.seconds[OLD], old_text), written(cell->result.seconds[NEW], new_text),
			       cell->first == 0 ? " (no time to measure it again)" : "");
		}
	return n;
}

/* Prints the rows for which `wanted` holds at some tier, by their names, with the tiers; `what` first. */
static void print_list(const struct table *table, const char *what, bool (*wanted)(const struct cell *cell, int side),
                       int side)
{
	size_t n = 0;

	for (size_t r = 0; r < table->n_rows; r++)
		for (size_t t = table->n_tiers; t-- > 0;) {
			if (!wanted(&table->rows[r].cells[t], side))
				continue;
			if (n++ == 0)
				printf("\n%s:\n", what);
			printf("  %s%s%s%s\n", table->rows[r].name, table->tiers[t].all_rows ? "" : " (",
			       table->tiers[t].all_rows ? "" : table->tiers[t].name, table->tiers[t].all_rows ? "" : ")");
		}
}

static bool is_missing(const struct cell *cell, int side)
{
	return cell->finding == FINDING_MISSING && cell->cannot[side];
}

static bool is_unreached(const struct cell *cell, int side)
{
	(void)side;
	return cell->finding == FINDING_NONE;
}

static bool is_other(const struct cell *cell, int side)
{
	(void)side;
	return cell->other_results;
}

static size_t count(const struct table *table, bool (*wanted)(const struct cell *cell, int side), int side)
{
	size_t n = 0;

	for (size_t r = 0; r < table->n_rows; r++)
		for (size_t t = 0; t < table->n_tiers; t++)
			n += wanted(&table->rows[r].cells[t], side);
	return n;
}

static bool is_timed(const struct cell *cell, int side)
{
	(void)side;
	return cell->finding == FINDING_TIMED;
}

static const struct cell *find(const struct table *table, const char *name, size_t tier)
{
	for (size_t r = 0; r < table->n_rows; r++)
		if (strcmp(table->rows[r].name, name) == 0 && table->rows[r].cells[tier].finding == FINDING_TIMED)
			return &table->rows[r].cells[tier];
	return NULL;
}

/* The ratios of W4A8 at each number of rows, normal / tails. */
static void print_w4a8(const struct table *table, size_t tier)
{
	static const char *const rows[] = {"1 row", "4 rows", "16 rows", "128 rows", "512 rows"};
	char name[SPEED_NAME_BYTES];
	bool any = false;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		snprintf(name, sizeof name, "product w4a8, %s, normal", rows[i]);
		const struct cell *normal = find(table, name, tier);
		snprintf(name, sizeof name, "product w4a8, %s, tails", rows[i]);
		const struct cell *tails = find(table, name, tier);
		if (normal == NULL || tails == NULL)
			continue;
		printf("%s%s %.2f / %.2f", any ? ", " : "", rows[i], normal->result.ratio, tails->result.ratio);
		any = true;
	}
	if (any)
		printf(" (W4A8 at %s, normal / tails)\n", table->tiers[tier].name);
}

struct place {
	const struct table_row *row;
	size_t tier;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *p = a, *q = b;
	const double x = p->row->cells[p->tier].result.ratio, y = q->row->cells[q->tier].result.ratio;

	return (x > y) - (x < y);
}

/* The lowest ratios, fallen or not; and the median of all. */
static void print_worst(const struct table *table)
{
	static struct place places[TABLE_ROWS_MAX * TABLE_TIERS_MAX];
	size_t n = 0;

	for (size_t r = 0; r < table->n_rows; r++)
		for (size_t t = 0; t < table->n_tiers; t++)
			if (table->rows[r].cells[t].finding == FINDING_TIMED)
				places[n++] = (struct place){&table->rows[r], t};
	qsort(places, n, sizeof places[0], compare_places);
	for (size_t i = 0; i < n && i < WORST; i++)
		printf("%s%.2f %s (%s)", i == 0 ? "lowest: " : "; ", places[i].row->cells[places[i].tier].result.ratio,
		       places[i].row->name, table->tiers[places[i].tier].name);
	if (n != 0)
		printf("; median of all %.2f\n", places[n / 2].row->cells[places[n / 2].tier].result.ratio);
}

size_t table_report(const struct table *table, const char *machine, double seconds)
{
	char text[TABLE_TEXT_BYTES];
	const char *separator = "";

	print_tiers(table);
	const size_t fallen = print_fallen(table);
	for (int side = 0; side < N_SIDES; side++) {
		snprintf(text, sizeof text, "not timed: %s has no such row, or no such operation", table->names[side]);
		print_list(table, text, is_missing, side);
	}
	print_list(table, "not timed: there was no time left", is_unreached, 0);
	print_list(table, "not the same work: the two compute different bits", is_other, 0);

	printf("\nspeed of %s over %s in turns, processor time of one thread, medians of pairs\n%s; tiers ", table->names[NEW],
	       table->names[OLD], machine);
	for (size_t t = table->n_tiers; t-- > 0;)
		if (table->tiers[t].timed) {
			printf("%s%s", separator, table->tiers[t].name);
			separator = ", ";
		}
	printf("\n%zu rows in %.0f s: %zu below %.2f; not in %s %zu, not in %s %zu, not reached %zu\n",
	       count(table, is_timed, 0), seconds, fallen, table->below, table->names[OLD], count(table, is_missing, OLD),
	       table->names[NEW], count(table, is_missing, NEW), count(table, is_unreached, 0));
	for (size_t t = table->n_tiers; t-- > 0;)
		print_w4a8(table, t);
	print_worst(table);
	return fallen;
}
