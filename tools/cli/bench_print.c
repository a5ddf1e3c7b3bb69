/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "cli/bench_print.h"

#include <stdio.h>
#include <string.h>

#include "io/facts.h"
#include "mxfp/isa.h"
#include "mxfp/version.h"

enum { NAME_SIZE = 64 };

double bench_gbps(double seconds)
{
	return 4e-9 / seconds;
}

static double ratio(const struct bench_row *row)
{
	return row->result.limit.median / row->result.kernel.median;
}

/* What the system calls the processor, in `name`. */
static void processor(char *name, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(name, size, "unknown processor");
	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		const char *value = strchr(line, ':');
		if (value != NULL && strncmp(line, "model name", strlen("model name")) == 0) {
			snprintf(name, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
			break;
		}
	}
	if (file != NULL)
		fclose(file);
}

/* The figure that stands beside limit and kernel: its name, its key in JSON, what it is. */
struct other {
	const char *name, *key, *text;
};

static const struct other *other_of(const struct bench_rows *rows)
{
	static const struct other past = {"past", "past_gbps", "past is that loop with stores past the caches"};
	static const struct other one = {"one", "one_thread_gbps", "one is the kernel on one thread"};

	return rows->threads == 1 ? &past : &one;
}

void bench_print_machine(const struct bench_rows *rows)
{
	char name[256];

	processor(name, sizeof name);
	printf("mxfp %s, %s\n%s, tier %s, %u thread%s\n", mxfp_version(), mxfp_build_info(), name,
	       mxfp_isa_name(rows->best_tier), rows->threads, rows->threads == 1 ? "" : "s");
	printf("L2: %d KiB read and written; DRAM: %zu MiB of f32. GB/s counts 4 bytes an element; spread is\n"
	       "that of the quartiles; limit is a plain loop that moves the same bytes, in turns with the kernel;\n"
	       "%s; ratio is GB/s over limit; L1 is how fast\n"
	       "the core reads L1 beside it, and falls when the machine is in a slow phase.\n\n",
	       BENCH_L2_BYTES >> 10, rows->dram_elements >> 18, other_of(rows)->text);
	printf("%-11s%-27s%-7s %-5s%7s %7s%8s%7s%7s%7s  %s\n", "op", "case", "tier", "in", "GB/s", "spread", "limit",
	       "ratio", other_of(rows)->name, "L1", "target");
}

/* The target of a row, or NULL. */
static const struct bench_target *target_of(const struct bench_rows *rows, const struct bench_row *row)
{
	if (row->tier != rows->best_tier || rows->threads != 1)
		return NULL;
	for (size_t i = 0; i < bench_n_targets; i++)
		if (bench_targets[i].group == row->c.group && bench_targets[i].place == row->place)
			return &bench_targets[i];
	return NULL;
}

static double measured(const struct bench_row *row, const struct bench_target *target)
{
	return target->of_limit ? ratio(row) : bench_gbps(row->result.kernel.median);
}

static const char *unit(const struct bench_target *target)
{
	return target->of_limit ? "of limit" : "GB/s";
}

static const char *verdict(double value, const struct bench_target *target)
{
	return value >= target->at_least ? "met" : "missed";
}

void bench_print_row(const struct bench_rows *rows, const struct bench_row *row)
{
	const struct bench_target *target = target_of(rows, row);
	const struct bench_result *r = &row->result;
	char name[NAME_SIZE];

	bench_case_name(&row->c, name, sizeof name);
	printf("%-11s%-27s%-7s %-5s%7.2f %6.1f%%%8.2f%7.2f", bench_op_names[row->c.op], name,
	       mxfp_isa_name(row->tier), bench_place_names[row->place], bench_gbps(r->kernel.median),
	       100 * r->kernel.spread, bench_gbps(r->limit.median), ratio(row));
	if (r->other.median > 0)
		printf("%7.2f", bench_gbps(r->other.median));
	else
		printf("%7s", "-");
	printf("%7.0f", 1e-9 / r->core);
	if (target != NULL)
		printf("  %g %s %s", target->at_least, unit(target), verdict(measured(row, target), target));
	putchar('\n');
	fflush(stdout);
}

/* The row that is furthest from the target, and how many rows it has and how many miss it. */
static const struct bench_row *worst(const struct bench_rows *rows, const struct bench_target *target, size_t *n,
                                     size_t *missed)
{
	const struct bench_row *found = NULL;

	*n = *missed = 0;
	for (size_t i = 0; i < rows->n; i++) {
		const struct bench_row *row = &rows->rows[i];
		if (target_of(rows, row) != target)
			continue;
		++*n;
		*missed += measured(row, target) < target->at_least;
		if (found == NULL || measured(row, target) < measured(found, target))
			found = row;
	}
	return found;
}

void bench_print_targets(const struct bench_rows *rows)
{
	size_t n, missed, printed = 0;
	char name[NAME_SIZE];

	for (size_t i = 0; i < bench_n_targets; i++) {
		const struct bench_target *target = &bench_targets[i];
		const struct bench_row *row = worst(rows, target, &n, &missed);
		if (row == NULL)
			continue;
		if (printed++ == 0)
			printf("\nTargets of tier %s, and the case that is furthest from each\n%-44s%-5s%16s %9s  %-7s %s\n",
			       mxfp_isa_name(rows->best_tier), "work", "in", "target", "measured", "", "case");
		bench_case_name(&row->c, name, sizeof name);
		printf("%-44s%-5s%7g %-8s %9.2f  %-7s %s", bench_group_texts[target->group],
		       bench_place_names[target->place], target->at_least, unit(target), measured(row, target),
		       verdict(measured(row, target), target), name);
		printf(missed != 0 ? "; %zu of %zu missed\n" : "\n", missed, n);
	}
}

static json_t *target_json(const struct bench_row *row, const struct bench_target *target)
{
	return json_pack("{s:s, s:f, s:s, s:b}", "group", bench_group_texts[target->group], "at_least",
	                 target->at_least, "unit", unit(target), "met", measured(row, target) >= target->at_least);
}

static json_t *row_json(const struct bench_rows *rows, const struct bench_row *row)
{
	const struct bench_target *target = target_of(rows, row);
	const struct bench_result *r = &row->result;
	char name[NAME_SIZE];

	bench_case_name(&row->c, name, sizeof name);
	json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "op", bench_op_names[row->c.op],
	                         "case", name, "tier", mxfp_isa_name(row->tier), "in", bench_place_names[row->place],
	                         "gbps", bench_gbps(r->kernel.median), "spread", r->kernel.spread, "limit_gbps",
	                         bench_gbps(r->limit.median), "limit_spread", r->limit.spread, "ratio", ratio(row),
	                         "l1_gbps", 1e-9 / r->core);
	if (r->other.median > 0)
		json = facts_set(json, other_of(rows)->key, json_real(bench_gbps(r->other.median)));
	return target != NULL ? facts_set(json, "target", target_json(row, target)) : json;
}

json_t *bench_json(const struct bench_rows *rows)
{
	char name[256];
	json_t *array = json_array();

	processor(name, sizeof name);
	for (size_t i = 0; i < rows->n; i++)
		array = facts_append(array, row_json(rows, &rows->rows[i]));
	return json_pack("{s:s, s:s, s:o, s:s, s:i, s:i, s:I, s:o}", "version", mxfp_version(), "build",
	                 mxfp_build_info(), "processor", facts_text(name), "tier", mxfp_isa_name(rows->best_tier),
	                 "threads", (int)rows->threads, "l2_bytes", (int)BENCH_L2_BYTES,
	                 "dram_elements", (json_int_t)rows->dram_elements, "rows", array);
}
