/* SPDX-License-Identifier: MIT */
/* mxfp diff: shows which tensors of two models differ, and by how much. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "analyse/compare.h"
#include "base/printable.h"
#include "base/table.h"
#include "cli/commands.h"
#include "io/facts.h"
#include "io/shape.h"
#include "report/report.h"

/* Names of results, in text and in JSON. */
static const char *const result_names[N_COMPARE_RESULTS] = {
	[COMPARE_EQUAL] = "equal",        [COMPARE_SAME_VALUE] = "equal values", [COMPARE_VALUE] = "values",
	[COMPARE_DTYPE] = "dtype",        [COMPARE_SHAPE] = "shape",             [COMPARE_ONLY_A] = "only in A",
	[COMPARE_ONLY_B] = "only in B",
};

struct settings {
	const char *paths[2];
	bool json, quiet;
};

/* The current comparison and the sums of those before. */
struct diff {
	const struct settings *settings;
	struct model a, b;
	struct progress progress;
	struct table table;
	struct stats all, differing;         /* over all tensors whose values were compared, and those that differ */
	size_t counts[N_COMPARE_RESULTS];
	size_t n_printed;                    /* JSON values of tensors */
};

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"diff A B [options]",
		"Compares two .safetensors files or model directories tensor by tensor and lists\n"
		"the tensors that are missing from one of them or differ in dtype, shape or\n"
		"values (-0 equals +0, NaN equals NaN). The error of B relative to A is given as\n"
		"the largest absolute error, SQNR, and Frobenius norm relative to that of A.\n"
		"Exits with 1 if anything differs. Numbers are compared as stored; to compare a\n"
		"quantized model, decode it with mxfp dequantize first.",
		"  mxfp diff model.safetensors decoded.safetensors",
	};
	const struct option_spec options[] = {
		{"json", 0, OPTION_FLAG, NULL, "print JSON, including tensors that are equal", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "print nothing; only the exit status tells the result", &s->quiet},
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 2, 2, s->paths, error);
}

static void add_heading(struct table *table)
{
	static const char *const heading[] = {"tensor", "differs in", "A", "B", "max error", "SQNR dB", "rel. error",
	                                      "unequal", "first at"};

	table->n_columns = sizeof heading / sizeof heading[0];
	table->n_left = 4;
	for (size_t i = 0; i < table->n_columns; i++)
		table_cell(table, "%s", heading[i]);
}

static void type_cell(struct table *table, const struct tensor *tensor)
{
	char shape[SHAPE_TEXT];

	if (tensor == NULL)
		table_cell(table, "-");
	else
		table_cell(table, "%s %s", dtype_info(tensor->dtype)->name, shape_text(tensor, shape));
}

/* Returns the elements that differ in value, or in bits if values are not known. */
static uint64_t unequal_elements(const struct comparison *c)
{
	return c->measured && c->stats.unequal > 0 ? c->stats.unequal : c->unequal_bits;
}

static void add_row(struct table *table, const struct comparison *c)
{
	table_cell(table, "%s", (c->a != NULL ? c->a : c->b)->name);
	table_cell(table, "%s", result_names[c->result]);
	type_cell(table, c->a);
	type_cell(table, c->b);
	if (c->measured) {
		report_number_cell(table, c->stats.max_absolute);
		report_sqnr_cell(table, &c->stats);
		report_number_cell(table, stats_relative_error(&c->stats));
	} else {
		for (int i = 0; i < 3; i++)
			table_cell(table, "-");
	}
	if (c->a == NULL || c->b == NULL || c->result == COMPARE_SHAPE)
		table_cell(table, "-");
	else
		table_cell(table, "%" PRIu64, unequal_elements(c));
	if (unequal_elements(c) > 0 && c->result != COMPARE_SAME_VALUE)
		table_cell(table, "%" PRIu64, c->first_unequal);
	else
		table_cell(table, "-");
}

static json_t *stats_facts(const struct stats *stats)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I}", "max_absolute", facts_number(stats->max_absolute), "sqnr_db",
	                 facts_number(stats_sqnr(stats)), "relative_error", facts_number(stats_relative_error(stats)),
	                 "elements", (json_int_t)stats->n, "excluded", (json_int_t)stats->excluded, "unequal",
	                 (json_int_t)stats->unequal);
}

static json_t *type_facts(const struct tensor *tensor)
{
	if (tensor == NULL)
		return json_null();
	return json_pack("{s:s, s:o}", "dtype", dtype_info(tensor->dtype)->name, "shape", shape_facts(tensor));
}

static json_t *comparison_facts(const struct comparison *c)
{
	return json_pack("{s:s, s:s, s:b, s:o, s:o, s:I, s:o}", "name", (c->a != NULL ? c->a : c->b)->name,
	                 "result", result_names[c->result], "differs", (int)compare_differs(c->result), "a",
	                 type_facts(c->a), "b", type_facts(c->b), "unequal_bits", (json_int_t)c->unequal_bits,
	                 "errors", c->measured ? stats_facts(&c->stats) : json_null());
}

static int compare(struct diff *d, struct comparison *c, struct error *error)
{
	int code = compare_tensors(c, &d->progress, error);

	if (code != EXIT_OK)
		return code;
	d->counts[c->result]++;
	if (c->measured)
		stats_merge(&d->all, &c->stats);
	if (c->measured && compare_differs(c->result))
		stats_merge(&d->differing, &c->stats);
	if (d->settings->json && !d->settings->quiet) {
		fputs(d->n_printed++ == 0 ? "\n" : ",\n", stdout);
		return facts_print_part(stdout, comparison_facts(c), 0, error);
	}
	if (c->result == COMPARE_EQUAL)
		return EXIT_OK;
	if (d->table.n_columns == 0)
		add_heading(&d->table);
	add_row(&d->table, c);
	return EXIT_OK;
}

/* Compares every tensor of A, then lists those that only B has. */
static int compare_all(struct diff *d, struct error *error)
{
	int code = EXIT_OK;

	for (size_t f = 0; f < d->a.n_files; f++)
		for (size_t t = 0; t < d->a.files[f].n_tensors && code == EXIT_OK; t++) {
			struct comparison c = {.a = &d->a.files[f].tensors[t], .file_a = &d->a.files[f]};

			c.b = model_find(&d->b, c.a->name, &c.file_b);
			code = compare(d, &c, error);
		}
	for (size_t f = 0; f < d->b.n_files; f++)
		for (size_t t = 0; t < d->b.files[f].n_tensors && code == EXIT_OK; t++) {
			struct comparison c = {.b = &d->b.files[f].tensors[t], .file_b = &d->b.files[f]};

			if (model_find(&d->a, c.b->name, &c.file_a) == NULL)
				code = compare(d, &c, error);
		}
	return code;
}

static size_t n_different(const struct diff *d)
{
	size_t n = 0;

	for (int result = 0; result < N_COMPARE_RESULTS; result++)
		n += compare_differs((enum compare_result)result) ? d->counts[result] : 0;
	return n;
}

/* Returns the number of tensors that both models have in the same shape. */
static size_t n_compared(const struct diff *d)
{
	return d->counts[COMPARE_EQUAL] + d->counts[COMPARE_SAME_VALUE] + d->counts[COMPARE_VALUE] +
	       d->counts[COMPARE_DTYPE];
}

static void print_errors(const char *over, const struct stats *stats)
{
	char sqnr[REPORT_CELL];

	printf("%s: SQNR %s, rel. error %.4g, max error %.4g\n", over, report_sqnr(sqnr, stats),
	       stats_relative_error(stats), stats->max_absolute);
}

static int print_text(struct diff *d, struct error *error)
{
	int code = EXIT_OK;

	if (d->table.n_columns > 0)
		code = table_print(&d->table, stdout, error);
	if (code != EXIT_OK)
		return code;
	printf("%zu tensors differ, %zu are equal", n_different(d),
	       d->counts[COMPARE_EQUAL] + d->counts[COMPARE_SAME_VALUE]);
	if (d->counts[COMPARE_SAME_VALUE] > 0)
		printf(", %zu of these not bit by bit: signs of zero or payloads of NaN",
		       d->counts[COMPARE_SAME_VALUE]);
	putchar('\n');
	if (d->differing.n > 0)
		print_errors("over the tensors that differ", &d->differing);
	if (d->all.n > 0)
		print_errors("over all tensors compared", &d->all);
	if (n_compared(d) == 0)
		puts("no tensors were compared");
	return EXIT_OK;
}

static int print_result(struct diff *d, struct error *error)
{
	if (d->settings->quiet)
		return EXIT_OK;
	if (!d->settings->json)
		return print_text(d, error);
	fputs("\n],\n\"summary\": ", stdout);
	json_t *summary = json_pack("{s:o, s:o, s:I, s:I, s:o, s:o}", "a", facts_text(d->settings->paths[0]), "b",
	                            facts_text(d->settings->paths[1]), "different", (json_int_t)n_different(d),
	                            "equal", (json_int_t)(d->counts[COMPARE_EQUAL] + d->counts[COMPARE_SAME_VALUE]),
	                            "errors_of_differing", stats_facts(&d->differing), "errors_of_all",
	                            stats_facts(&d->all));
	int code = facts_print_part(stdout, summary, JSON_INDENT(2), error);
	fputs("\n}\n", stdout);
	return code;
}

static int diff(struct diff *d, struct error *error)
{
	if (d->settings->json && !d->settings->quiet)
		fputs("{\n\"tensors\": [", stdout);
	progress_start(&d->progress, "comparing", d->a.data_bytes, d->settings->quiet);
	int code = compare_all(d, error);
	progress_end(&d->progress);
	if (code == EXIT_OK)
		code = print_result(d, error);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct settings settings = {0};
	struct diff d = {.settings = &settings};

	const enum parsed parsed = parse(argc, argv, &settings, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = model_open(&d.a, settings.paths[0], error);
	if (code == EXIT_OK)
		code = model_open(&d.b, settings.paths[1], error);
	if (code == EXIT_OK)
		code = diff(&d, error);
	table_free(&d.table);
	model_close(&d.a);
	model_close(&d.b);
	return code != EXIT_OK || n_different(&d) == 0 ? code : EXIT_CHECK;
}

const struct command command_diff = {"diff", "compare two models tensor by tensor", run};
