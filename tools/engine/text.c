/* SPDX-License-Identifier: MIT */
/* Prints the account as tables. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/table.h"
#include "engine/engine.h"

static const double ps_in_us = 1e6;

/* Products that share W's shape. */
struct shape_row {
	size_t n, k, products, m_min, m_max;
	uint64_t cycles[N_SPLITS]; /* of a sub-array, all products */
};

static void print_heading(const struct engine_report *r, FILE *file)
{
	const struct mxfp_engine *whole = &r->splits[0];
	const uint64_t share = (uint64_t)r->chip.memory_mb_s * r->cores / r->chip.cores;

	fprintf(file, "%s%s: %u of %u cores", r->chip.name, r->chip.announced ? " (announced)" : "", r->cores,
	        (unsigned)r->chip.cores);
	if (r->chip.rows != 0)
		fprintf(file, " at %u MHz", (unsigned)r->chip.clock_mhz);
	fprintf(file, ", %g GB/s; A %s, W %s", (double)share / 1000, mxfp_format_get_info(r->a)->name,
	        mxfp_format_get_info(r->w)->name);
	if (r->sparsity.m != 0)
		fprintf(file, " %u:%u", r->sparsity.n, r->sparsity.m);
	fprintf(file, ", C %s\n%zu product%s, %.4g GFLOP: %.4g us at the published peak; %.4g MB: %.4g us of memory\n\n",
	        mxfp_format_get_info(r->c)->name, r->workload->n_items, r->workload->n_items == 1 ? "" : "s",
	        2 * (double)whole->macs / 1e9, (double)whole->ideal_ps / ps_in_us, (double)whole->bytes / 1e6,
	        (double)whole->memory_ps / ps_in_us);
}

/* Adds a cell with n / of in per cent. */
static void share_cell(struct table *table, double n, double of)
{
	if (of == 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.1f %%", 100 * n / of);
}

static void split_row(struct table *table, const struct mxfp_engine *e, unsigned sub_arrays, size_t n)
{
	double busy = 0;

	for (size_t i = 0; i < e->arrays; i++)
		busy += (double)e->busy[i];
	table_cell(table, "%u x %" PRIu64, sub_arrays, n != 0 ? e->places[0].depth : 0);
	table_cell(table, "%" PRIu64, e->cycles);
	share_cell(table, busy, (double)e->cycles * (double)e->arrays);
	share_cell(table, (double)e->moving, busy);
	share_cell(table, (double)e->macs, (double)e->macs_depth);
	share_cell(table, (double)e->macs_depth, (double)e->macs_tiles);
	table_cell(table, "%.4g", (double)e->compute_ps / ps_in_us);
	table_cell(table, "%.4g", (double)engine_time_ps(e) / ps_in_us);
	table_cell(table, e->memory_ps > e->compute_ps ? "memory" : "array");
	table_cell(table, "%.1f %%", engine_utilization(e));
}

static int print_splits(const struct engine_report *r, FILE *file, struct error *error)
{
	static const char *const heading[] = {"sub-arrays", "cycles", "busy", "moving", "depth filled",
	                                      "columns filled", "array us", "time us", "limit", "utilization"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 1};

	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (int s = 0; s < N_SPLITS; s++)
		split_row(&table, &r->splits[s], engine_sub_arrays(s), r->workload->n_items);
	return table_print(&table, file, error);
}

/* Returns the row of a product's shape, adding one if it is new. */
static struct shape_row *find_shape(struct shape_row *rows, size_t *n_rows, const struct workload_item *item)
{
	for (size_t i = 0; i < *n_rows; i++)
		if (rows[i].n == item->n && rows[i].k == item->k)
			return &rows[i];
	rows[*n_rows] = (struct shape_row){.n = item->n, .k = item->k, .m_min = item->m};
	return &rows[(*n_rows)++];
}

static size_t collect_shapes(const struct engine_report *r, struct shape_row *rows)
{
	size_t n_rows = 0;

	for (size_t i = 0; i < r->workload->n_items; i++) {
		const struct workload_item *item = &r->workload->items[i];
		struct shape_row *row = find_shape(rows, &n_rows, item);

		row->products++;
		row->m_min = item->m < row->m_min ? item->m : row->m_min;
		row->m_max = item->m > row->m_max ? item->m : row->m_max;
	}
	for (int s = 0; s < N_SPLITS; s++)
		for (size_t i = 0; i < r->workload->n_items; i++) {
			const struct mxfp_engine_place *place = &r->splits[s].places[i];

			find_shape(rows, &n_rows, &r->workload->items[place->product])->cycles[s] += place->cycles;
		}
	return n_rows;
}

static void shape_cells(struct table *table, const struct shape_row *row)
{
	const double four = (double)row->cycles[N_SPLITS - 1] / engine_sub_arrays(N_SPLITS - 1);

	table_cell(table, "%zu x %zu", row->n, row->k);
	table_cell(table, "%zu", row->products);
	if (row->m_min == row->m_max)
		table_cell(table, "%zu", row->m_min);
	else
		table_cell(table, "%zu to %zu", row->m_min, row->m_max);
	for (int s = 0; s < N_SPLITS; s++)
		table_cell(table, "%.0f", (double)row->cycles[s] / engine_sub_arrays(s));
	if (four == 0)
		table_cell(table, "-");
	else
		table_cell(table, "%.2f", (double)row->cycles[0] / four);
}

/* Prints for each shape the cycles of whole arrays, which show where four sub-arrays win if all have work. */
static int print_shapes(const struct engine_report *r, FILE *file, struct error *error)
{
	static const char *const heading[] = {"W",      "products", "rows of A",       "whole",
	                                      "halves", "quarters", "quarters' gain"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 1};
	struct shape_row *rows = calloc(r->workload->n_items + 1, sizeof *rows);

	if (rows == NULL)
		return fail_memory(error);
	size_t n = collect_shapes(r, rows);
	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (size_t i = 0; i < n; i++)
		shape_cells(&table, &rows[i]);
	free(rows);
	fputs("Cycles of a core's array, were its sub-arrays all busy:\n\n", file);
	return table_print(&table, file, error);
}

static void print_verdict(const struct engine_report *r, FILE *file)
{
	const struct mxfp_engine *one = &r->splits[0], *four = &r->splits[N_SPLITS - 1];
	const bool win = four->cycles < one->cycles;
	const double more = (double)(win ? one : four)->cycles, less = (double)(win ? four : one)->cycles;

	if (less == 0)
		return;
	if (one->cycles == four->cycles)
		fputs("Four sub-arrays take as many cycles as one array", file);
	else
		fprintf(file, "%s: %.0f cycles against %.0f, %.2f times as fast",
		        win ? "Four sub-arrays beat one array" : "One array beats four sub-arrays", less, more, more / less);
	if (one->memory_ps > one->compute_ps && four->memory_ps > four->compute_ps)
		fputs("; but memory limits both", file);
	fputs(".\n", file);
}

static int print_runs(const struct engine_report *r, FILE *file, struct error *error)
{
	static const char *const heading[] = {"computed here", "ms", "GFLOP/s", "hash of C"};
	struct table table = {.n_columns = sizeof heading / sizeof heading[0], .n_left = 1};

	for (size_t i = 0; i < table.n_columns; i++)
		table_cell(&table, "%s", heading[i]);
	for (int s = 0; s < N_SPLITS; s++) {
		table_cell(&table, "pass_k %u", engine_options(s).pass_k);
		table_cell(&table, "%.3f", 1e3 * r->runs[s].seconds);
		table_cell(&table, "%.4g", 2e-9 * (double)r->splits[s].macs / r->runs[s].seconds);
		table_cell(&table, "%016" PRIx64, r->runs[s].hash);
	}
	putc('\n', file);
	return table_print(&table, file, error);
}

int engine_text(const struct engine_report *r, FILE *file, struct error *error)
{
	int code = EXIT_OK;

	print_heading(r, file);
	if (r->chip.rows == 0) {
		fputs("No geometry is published, so these bounds are all.\n", file);
	} else {
		code = print_splits(r, file, error);
		if (code == EXIT_OK)
			code = print_shapes(r, file, error);
		print_verdict(r, file);
	}
	return code == EXIT_OK && r->ran ? print_runs(r, file, error) : code;
}
