/* SPDX-License-Identifier: MIT */
/* mxfp diff: shows which tensors of two models differ, and by how much. */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analyse/compare.h"
#include "analyse/variant.h"
#include "base/printable.h"
#include "base/table.h"
#include "cli/commands.h"
#include "io/facts.h"
#include "io/shape.h"
#include "model/carry.h"
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
	size_t n_decoded;                    /* tensors compared that are quantized in one of the models */
	size_t n_unknown;                    /* of another dtype, in which the values of one are not known */
	struct error unread;                 /* why a quantized tensor is compared as it is stored; empty: none is */
	size_t n_printed;                    /* JSON values of tensors */
};

static enum parsed parse(int argc, char **argv, struct settings *s, struct error *error)
{
	static const struct usage usage = {
		"diff A B [options]",
		"Compares two .safetensors files or model directories tensor by tensor and lists\n"
		"the tensors that are missing from one of them or differ in dtype, shape or\n"
		"values (-0 equals +0, NaN equals NaN). Quantized tensors, in any layout that\n"
		"mxfp dequantize reads, count as the tensors they were made from and are compared\n"
		"by their numbers. The error of B relative to A is given as the largest absolute\n"
		"error, SQNR, and Frobenius norm relative to that of A. Exits with 1 if anything\n"
		"differs.",
		"  mxfp diff model.safetensors decoded.safetensors\n"
		"  mxfp diff model quantized",
	};
	const struct option_spec options[] = {
		{"json", 0, OPTION_FLAG, NULL, "print JSON, including tensors that are equal", &s->json},
		{"quiet", 'q', OPTION_FLAG, NULL, "do not print progress or the table: the exit status tells the result", &s->quiet},
		OPTION_ALLOW_UNKNOWN,
		{.kind = OPTION_END},
	};

	return options_parse(argc, argv, options, &usage, 2, 2, s->paths, error);
}

static void add_heading(struct table *table)
{
	static const char *const heading[] = {"tensor", "differs in", "A", "B", "max error", "SQNR dB", "rel. error",
	                                      "unequal", "first at", "NaN, Inf"};

	table->n_columns = sizeof heading / sizeof heading[0];
	table->n_left = 4;
	for (size_t i = 0; i < table->n_columns; i++)
		table_cell(table, "%s", heading[i]);
}

/* "BF16", or of a quantized tensor "mxfp4" or "mxfp4 4:8". */
static const char *type_name(const struct compare_side *side, char text[VARIANT_TEXT])
{
	if (!side->decoded)
		return dtype_info(side->tensor->dtype)->name;
	const struct variant variant = {
		.format = side->quantized.choice.form->format,
		.sparsity = side->quantized.choice.sparsity,
	};
	return variant_format(&variant, text);
}

static const char *name_of(const struct comparison *c)
{
	return (c->a.tensor != NULL ? c->a : c->b).shown.name;
}

static void type_cell(struct table *table, const struct compare_side *side)
{
	char shape[SHAPE_TEXT], type[VARIANT_TEXT];

	if (side->tensor == NULL)
		table_cell(table, "-");
	else
		table_cell(table, "%s %s", type_name(side, type), shape_text(&side->shown, shape));
}

/* Returns the elements that differ in value, or in bits if values are not known. */
static uint64_t unequal_elements(const struct comparison *c)
{
	return c->measured && c->stats.unequal > 0 ? c->stats.unequal : c->unequal_bits;
}

/* The errors are of elements that are finite in both. Where all of these are equal and others are not, NaN stands for
   them: no error would say that the tensors are equal. */
static double known(const struct stats *stats, double error, double none)
{
	return stats->unequal > 0 && error == none ? (double)NAN : error;
}

static double max_error(const struct stats *stats)
{
	return stats->n == 0 ? (double)NAN : known(stats, stats->max_absolute, 0);
}

static double sqnr(const struct stats *stats)
{
	return known(stats, stats_sqnr(stats), (double)INFINITY);
}

static double relative_error(const struct stats *stats)
{
	return known(stats, stats_relative_error(stats), 0);
}

static void add_row(struct table *table, const struct comparison *c)
{
	table_name(table, name_of(c));
	table_cell(table, "%s", result_names[c->result]);
	type_cell(table, &c->a);
	type_cell(table, &c->b);
	if (c->measured) {
		report_number_cell(table, max_error(&c->stats));
		report_sqnr_cell(table, sqnr(&c->stats));
		report_number_cell(table, relative_error(&c->stats));
	} else {
		for (int i = 0; i < 3; i++)
			table_cell(table, "-");
	}
	if (compare_looked(c))
		table_cell(table, "%" PRIu64, unequal_elements(c));
	else
		table_cell(table, "-");
	if (unequal_elements(c) > 0 && c->result != COMPARE_SAME_VALUE)
		table_cell(table, "%" PRIu64, c->first_unequal);
	else
		table_cell(table, "-");
	if (c->measured)
		table_cell(table, "%" PRIu64, c->stats.excluded);
	else
		table_cell(table, "-");
}

static json_t *stats_facts(const struct stats *stats)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I}", "max_absolute", facts_number(max_error(stats)), "sqnr_db",
	                 facts_number(sqnr(stats)), "relative_error", facts_number(relative_error(stats)),
	                 "elements", (json_int_t)stats->n, "excluded", (json_int_t)stats->excluded, "unequal",
	                 (json_int_t)stats->unequal);
}

static json_t *type_facts(const struct compare_side *side)
{
	char type[VARIANT_TEXT];

	if (side->tensor == NULL)
		return json_null();
	return json_pack("{s:s, s:s*, s:o}", "dtype", type_name(side, type), "layout",
	                 side->decoded ? side->quantized.choice.layout->name : NULL, "shape", shape_facts(&side->shown));
}

static json_t *comparison_facts(const struct comparison *c)
{
	return json_pack("{s:s, s:s, s:b, s:b, s:o, s:o, s:I, s:o}", "name", name_of(c), "result",
	                 result_names[c->result], "differs", (int)compare_differs(c->result), "compared",
	                 (int)compare_looked(c), "a", type_facts(&c->a), "b", type_facts(&c->b), "unequal_bits",
	                 (json_int_t)c->unequal_bits, "errors", c->measured ? stats_facts(&c->stats) : json_null());
}

static int compare(struct diff *d, struct comparison *c, struct error *error)
{
	int code = compare_tensors(c, &d->progress, error);

	if (code != EXIT_OK)
		return code;
	d->counts[c->result]++;
	d->n_decoded += compare_looked(c) && (c->a.decoded || c->b.decoded);
	d->n_unknown += c->result == COMPARE_DTYPE && !c->measured;
	if (c->measured)
		stats_merge(&d->all, &c->stats);
	if (c->measured && compare_differs(c->result))
		stats_merge(&d->differing, &c->stats);
	if (d->settings->json) {
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

/* Compares a tensor of A, or one that only B has. */
static int compare_named(struct diff *d, const struct model_tensor *tensor, bool in_a, struct error *error)
{
	const struct model *own = in_a ? &d->a : &d->b, *other = in_a ? &d->b : &d->a;
	struct comparison c = {.measured = false};
	struct compare_side *side = in_a ? &c.a : &c.b, *beside = in_a ? &c.b : &c.a;
	struct arena arena = {0};
	bool has;
	int code = compare_own(side, &has, own, tensor, &arena, &d->unread, error);

	if (code == EXIT_OK && has)
		code = compare_find(beside, other, side->shown.name, &d->unread, error);
	if (code == EXIT_OK && has && !in_a && beside->tensor != NULL) {
		struct compare_side compared;

		/* If B has a tensor quantized and not, A's was compared with the one that is found by its name. */
		code = compare_find(&compared, own, side->shown.name, &d->unread, error);
		if (code == EXIT_OK && compared.tensor != side->tensor)
			*beside = (struct compare_side){.unread = false};
	}
	if (code == EXIT_OK && has && (in_a || beside->tensor == NULL))
		code = compare(d, &c, error);
	arena_free(&arena);
	return code;
}

/* Compares every tensor of A, then lists those that only B has. */
static int compare_all(struct diff *d, struct error *error)
{
	int code = EXIT_OK;

	for (int pass = 0; pass < 2; pass++) {
		const struct model *model = pass == 0 ? &d->a : &d->b;

		for (size_t f = 0; f < model->n_files; f++)
			for (size_t t = 0; t < model->files[f].n_tensors && code == EXIT_OK; t++) {
				const struct model_tensor tensor = {&model->files[f].tensors[t], &model->files[f]};

				code = compare_named(d, &tensor, pass == 0, error);
			}
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

/* Returns the number of tensors whose values or bits were compared. */
static size_t n_compared(const struct diff *d)
{
	return d->counts[COMPARE_EQUAL] + d->counts[COMPARE_SAME_VALUE] + d->counts[COMPARE_VALUE] +
	       d->counts[COMPARE_DTYPE] - d->n_unknown;
}

/* What was compared and what was not. */
static void print_coverage(const struct diff *d)
{
	const struct {
		size_t n;
		const char *what;
	} left_out[] = {
		{d->counts[COMPARE_SHAPE], "of another shape"},
		{d->n_unknown, "of a dtype that mxfp cannot decode"},
		{d->counts[COMPARE_ONLY_A], "only in A"},
		{d->counts[COMPARE_ONLY_B], "only in B"},
	};
	const char *between = "; not compared:";

	if (n_compared(d) == 0)
		printf("no tensors were compared");
	else
		printf("%zu tensors were compared, %zu of them quantized and decoded", n_compared(d), d->n_decoded);
	for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
		if (left_out[i].n > 0) {
			printf("%s %zu %s", between, left_out[i].n, left_out[i].what);
			between = ",";
		}
	putchar('\n');
	if (d->unread.text[0] != '\0')
		printf("of quantized tensors that cannot be decoded the parts are compared as stored: %s\n", d->unread.text);
}

static void print_number(double x)
{
	if (isnan(x))
		putchar('-');
	else
		printf("%.4g", x);
}

static void print_errors(const char *over, const struct stats *stats)
{
	char text[REPORT_CELL];

	if (stats->n + stats->excluded == 0)
		return;
	printf("%s: SQNR %s, rel. error ", over, report_sqnr(text, sqnr(stats)));
	print_number(relative_error(stats));
	fputs(", max error ", stdout);
	print_number(max_error(stats));
	if (stats->excluded > 0)
		printf("; without %" PRIu64 " elements that are NaN or Inf in A or B", stats->excluded);
	putchar('\n');
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
	print_coverage(d);
	print_errors("over the tensors that differ", &d->differing);
	print_errors("over all tensors compared", &d->all);
	return EXIT_OK;
}

static int print_result(struct diff *d, struct error *error)
{
	if (!d->settings->json)
		return d->settings->quiet ? EXIT_OK : print_text(d, error);
	fputs("\n],\n\"summary\": ", stdout);
	json_t *summary = json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o?, s:o, s:o}", "a",
	                            facts_text(d->settings->paths[0]), "b", facts_text(d->settings->paths[1]),
	                            "different", (json_int_t)n_different(d), "equal",
	                            (json_int_t)(d->counts[COMPARE_EQUAL] + d->counts[COMPARE_SAME_VALUE]), "compared",
	                            (json_int_t)n_compared(d), "decoded", (json_int_t)d->n_decoded, "not_decoded",
	                            d->unread.text[0] != '\0' ? facts_text(d->unread.text) : NULL,
	                            "errors_of_differing", stats_facts(&d->differing), "errors_of_all",
	                            stats_facts(&d->all));
	int code = facts_print_part(stdout, summary, JSON_INDENT(2), error);
	fputs("\n}\n", stdout);
	return code;
}

static int diff(struct diff *d, struct error *error)
{
	if (d->settings->json)
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
	int code = meaning_open(&d.a, settings.paths[0], MEANING_COMPARES, error);
	if (code == EXIT_OK)
		code = meaning_open(&d.b, settings.paths[1], MEANING_COMPARES, error);
	/* Either may have experts one by one, and both, if one has some of them so. */
	if (code == EXIT_OK)
		code = model_split_like(&d.a, &d.b, error);
	if (code == EXIT_OK)
		code = model_split_like(&d.b, &d.a, error);
	if (code == EXIT_OK)
		code = diff(&d, error);
	if (code == EXIT_OK)
		code = carry_warn(&d.a, stderr, error);
	if (code == EXIT_OK)
		code = carry_warn(&d.b, stderr, error);
	table_free(&d.table);
	model_close(&d.a);
	model_close(&d.b);
	return code != EXIT_OK || n_different(&d) == 0 ? code : EXIT_CHECK;
}

const struct command command_diff = {"diff", "compare two models tensor by tensor", run};
