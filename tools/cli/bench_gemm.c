/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "cli/bench_gemm.h"

#include <stdio.h>

#include "io/facts.h"
#include "mxfp/isa.h"

enum { NAME_SIZE = 64 };

/* What a second thread is to bring. */
static const double pair_at_least = 1.9;

static double gflops(const struct bench_gemm_row *row, double seconds)
{
	const struct bench_gemm_shape *s = row->shape;

	return seconds > 0 ? 2e-9 * (double)s->m * (double)s->n * (double)s->k / seconds : 0;
}

/* GB/s of packed weights. */
static double gbps(const struct bench_gemm_row *row, double seconds)
{
	return seconds > 0 ? 1e-9 * (double)row->result.packed_bytes / seconds : 0;
}

/* What a target is about; 0 if it was not measured. */
static double measured(const struct bench_gemm_row *row, enum bench_gemm_unit unit)
{
	const struct bench_gemm_result *r = &row->result;

	switch (unit) {
	case BENCH_SGEMM:
		return r->sgemm / r->kernel.median;
	case BENCH_READ:
		return r->read / r->kernel.median;
	case BENCH_DENSE:
		return r->dense / r->kernel.median;
	case BENCH_ONE:
		return r->one / r->kernel.median;
	case BENCH_GBPS:
		return gbps(row, r->kernel.median);
	default:
		return gflops(row, r->kernel.median);
	}
}

static const char *unit_text(enum bench_gemm_unit unit)
{
	static const char *const texts[] = {
		[BENCH_GFLOPS] = "GFLOP/s", [BENCH_SGEMM] = "x sgemm", [BENCH_READ] = "of read",
		[BENCH_DENSE] = "x dense",  [BENCH_ONE] = "x one",     [BENCH_GBPS] = "GB/s",
	};

	return texts[unit];
}

/* The target of a row; at_least is 0 if it has none, or what it compares with was not there. On more threads it is
   what they are to bring, if memory is no limit. */
static struct bench_gemm_target target_of(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row)
{
	struct bench_gemm_target found = {.unit = BENCH_ONE, .at_least = pair_at_least};

	if (row->tier != rows->best_tier)
		return (struct bench_gemm_target){.at_least = 0};
	if (rows->threads != 1) {
		if (rows->threads != 2 || row->shape->place == BENCH_GEMM_DRAM)
			found.at_least = 0;
		return found;
	}
	for (size_t i = 0; i < bench_n_gemm_targets; i++)
		if (&bench_gemm_cases[bench_gemm_targets[i].of] == row->c &&
		    bench_gemm_targets[i].place == row->shape->place &&
		    measured(row, bench_gemm_targets[i].unit) > 0)
			return bench_gemm_targets[i];
	return (struct bench_gemm_target){.at_least = 0};
}

void bench_gemm_print_heading(const struct bench_gemm_rows *rows)
{
	printf("Products: GFLOP/s counts 2 m n k of the dense product, with weights packed before and everything else in\n"
	       "the time; sgemm is %s on the same shape, in turns; peak is what the core computes at most:\n"
	       "products of bytes, or of binary32 in a chain; dense is the same with dense weights, or as one product;\n"
	       "one is on one thread; GB/s counts packed weights, and read is a loop that only reads them.\n\n",
	       bench_sgemm_name() != NULL ? bench_sgemm_name() : "OpenBLAS, which is not there,");
	printf("%-32s%-7s %-19s%-5s%8s%7s%7s%6s%7s%6s%7s%7s  %s\n", "case", "tier", "m x n x k", "in", "GFLOP/s", "spread",
	       "sgemm", "ratio", "peak", rows->threads == 1 ? "dense" : "one", "GB/s", "read", "target");
}

static void print_number(const char *format, int width, double x)
{
	if (x > 0)
		printf(format, width, x);
	else
		printf("%*s", width, "-");
}

void bench_gemm_print_row(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row)
{
	const struct bench_gemm_target target = target_of(rows, row);
	const struct bench_gemm_result *r = &row->result;
	const bool reads = r->read > 0;
	char name[NAME_SIZE], shape[NAME_SIZE];

	bench_gemm_case_name(row->c, name, sizeof name);
	bench_gemm_shape_name(row->shape, shape, sizeof shape);
	printf("%-32s%-7s %-19s%-5s%8.1f%6.1f%%", name, mxfp_isa_name(row->tier), shape,
	       bench_gemm_place_name(row->shape->place), gflops(row, r->kernel.median), 100 * r->kernel.spread);
	print_number("%*.1f", 7, gflops(row, r->sgemm));
	print_number("%*.2f", 6, measured(row, BENCH_SGEMM));
	print_number("%*.0f", 7, 1e-9 * r->peak);
	print_number("%*.2f", 6, measured(row, rows->threads == 1 ? BENCH_DENSE : BENCH_ONE));
	print_number("%*.1f", 7, reads ? gbps(row, r->kernel.median) : 0);
	print_number("%*.1f", 7, gbps(row, r->read));
	if (target.at_least > 0)
		printf("  %g %s: %.2f %s", target.at_least, unit_text(target.unit), measured(row, target.unit),
		       measured(row, target.unit) >= target.at_least ? "met" : "missed");
	putchar('\n');
	fflush(stdout);
}

/* A number that was measured. */
static json_t *add_real(json_t *json, const char *key, double x)
{
	return x > 0 ? facts_set(json, key, json_real(x)) : json;
}

static json_t *row_json(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row)
{
	const struct bench_gemm_target target = target_of(rows, row);
	const struct bench_gemm_result *r = &row->result;
	const double value = measured(row, target.unit);
	char name[NAME_SIZE], shape[NAME_SIZE];

	bench_gemm_case_name(row->c, name, sizeof name);
	bench_gemm_shape_name(row->shape, shape, sizeof shape);
	json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:I}", "case", name, "tier", mxfp_isa_name(row->tier),
	                         "shape", shape, "in", bench_gemm_place_name(row->shape->place), "gflops",
	                         gflops(row, r->kernel.median), "spread", r->kernel.spread, "packed_bytes",
	                         (json_int_t)r->packed_bytes);
	json = add_real(json, "sgemm_gflops", gflops(row, r->sgemm));
	json = add_real(json, "dense_gflops", gflops(row, r->dense));
	json = add_real(json, "one_thread_gflops", gflops(row, r->one));
	json = add_real(json, "peak_gflops", 1e-9 * r->peak);
	json = add_real(json, "read_gbps", gbps(row, r->read));
	if (target.at_least > 0)
		json = facts_set(json, "target", json_pack("{s:f, s:s, s:f, s:b}", "at_least", target.at_least, "unit",
		                                           unit_text(target.unit), "measured", value, "met",
		                                           value >= target.at_least));
	return json;
}

json_t *bench_gemm_json(const struct bench_gemm_rows *rows)
{
	json_t *array = json_array();

	for (size_t i = 0; i < rows->n; i++)
		array = facts_append(array, row_json(rows, &rows->rows[i]));
	return array;
}
