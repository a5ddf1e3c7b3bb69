/* SPDX-License-Identifier: MIT */
/* mxfp bench: measures the speed of every kernel on this machine, beside the limit of moving its bytes, and of
   products. Prints rows as they are measured and the targets at the end, or all of it as JSON. */
#include "config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "bench.h"
#include "cli/bench_sources.h"
#include "cli/commands.h"
#include "gemm_bench.h"
#include "io/facts.h"
#include "io/json.h"
#include "model/choices.h"
#include "mxfp/isa.h"
#include "mxfp/version.h"

/* One figure. */
struct bench_row {
	struct bench_case c;
	enum bench_place place;
	int tier;
	struct bench_result result;
};

/* All figures, and how they were measured. */
struct bench_rows {
	size_t n, capacity;
	struct bench_row *rows;
	int best_tier;        /* targets are for this one, on one thread */
	unsigned threads;
	size_t dram_elements;
};

struct bench_gemm_row {
	const struct bench_gemm_case *c;
	const struct bench_gemm_shape *shape;
	const struct bench_gemm_source *source;
	int tier;
	struct bench_gemm_result result;
};

struct bench_gemm_rows {
	size_t n, capacity;
	struct bench_gemm_row *rows;
	int best_tier;
	unsigned threads;
};

enum { NAME_SIZE = 64 };

/* Returns the elements per second in GB/s, at 4 bytes each. */
static double element_gbps(double seconds)
{
	return 4e-9 / seconds;
}

static double ratio(const struct bench_row *row)
{
	return row->result.limit.median / row->result.kernel.median;
}

/* Sets `name` to the system's name of the processor. */
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

/* The figure beside limit and kernel: its name, its key in JSON, its meaning. */
struct other {
	const char *name, *key, *text;
};

static const struct other *other_of(const struct bench_rows *rows)
{
	static const struct other past = {"past", "past_gbps", "past is that loop with stores past the caches"};
	static const struct other one = {"one", "one_thread_gbps", "one is the kernel on one thread"};

	return rows->threads == 1 ? &past : &one;
}

static void print_machine(const struct bench_rows *rows)
{
	char name[256];

	processor(name, sizeof name);
	printf("mxfp %s, %s\n%s, tier %s, %u thread%s\n", mxfp_version(), mxfp_build_info(), name,
	       mxfp_isa_name(rows->best_tier), rows->threads, rows->threads == 1 ? "" : "s");
	printf("L2: %d KiB read and written; DRAM: %zu MiB of f32. GB/s counts 4 bytes an element; spread is\n"
	       "that of the quartiles; limit is a plain loop that moves the same bytes, in turns with the kernel;\n"
	       "%s; ratio is GB/s over limit; L1 is how fast\n"
	       "the core reads L1 beside it, and falls when the machine is in a slow phase; SLEEF is its function of\n"
	       "binary32 with an error below 1 ulp on the same work, in turns, and the ratio to that; steps are two\n"
	       "calls that do the same, or of squares blocks of a row, in turns, and the ratio to that.\n\n",
	       BENCH_L2_BYTES >> 10, rows->dram_elements >> 18, other_of(rows)->text);
	printf("%-11s%-27s%-7s %-5s%7s %7s%8s%7s%7s%7s  %s\n", "op", "case", "tier", "in", "GB/s", "spread", "limit",
	       "ratio", other_of(rows)->name, "L1", "target");
}

/* Returns the target of a row, or NULL. */
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
	switch (target->unit) {
	case BENCH_UNIT_LIMIT:
		return ratio(row);
	case BENCH_UNIT_STEPS:
		return row->result.steps.median / row->result.kernel.median;
	default:
		return element_gbps(row->result.kernel.median);
	}
}

static const char *unit(const struct bench_target *target)
{
	return bench_unit_texts[target->unit];
}

static const char *verdict(double value, const struct bench_target *target)
{
	return value >= target->at_least ? "met" : "missed";
}

static void print_row(const struct bench_rows *rows, const struct bench_row *row)
{
	const struct bench_target *target = target_of(rows, row);
	const struct bench_result *r = &row->result;
	char name[NAME_SIZE];

	bench_case_name(&row->c, name, sizeof name);
	printf("%-11s%-27s%-7s %-5s%7.2f %6.1f%%%8.2f%7.2f", bench_op_names[row->c.op], name,
	       mxfp_isa_name(row->tier), bench_place_names[row->place], element_gbps(r->kernel.median),
	       100 * r->kernel.spread, element_gbps(r->limit.median), ratio(row));
	if (r->other.median > 0)
		printf("%7.2f", element_gbps(r->other.median));
	else
		printf("%7s", "-");
	printf("%7.0f", 1e-9 / r->core);
	if (r->sleef.median > 0)
		printf("  SLEEF %.2f %.2f", element_gbps(r->sleef.median), r->sleef.median / r->kernel.median);
	if (r->steps.median > 0)
		printf("  steps %.2f %.2f", element_gbps(r->steps.median), r->steps.median / r->kernel.median);
	if (target != NULL)
		printf("  %g %s %s", target->at_least, unit(target), verdict(measured(row, target), target));
	putchar('\n');
	fflush(stdout);
}

/* Returns the row that is furthest from the target, and counts the target's rows and those that miss it. */
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

static void print_targets(const struct bench_rows *rows)
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
	                         "gbps", element_gbps(r->kernel.median), "spread", r->kernel.spread, "limit_gbps",
	                         element_gbps(r->limit.median), "limit_spread", r->limit.spread, "ratio", ratio(row),
	                         "l1_gbps", 1e-9 / r->core);
	if (r->other.median > 0)
		json = facts_set(json, other_of(rows)->key, json_real(element_gbps(r->other.median)));
	if (r->sleef.median > 0)
		json = facts_set(json, "sleef_gbps", json_real(element_gbps(r->sleef.median)));
	if (r->steps.median > 0)
		json = facts_set(json, "steps_gbps", json_real(element_gbps(r->steps.median)));
	return target != NULL ? facts_set(json, "target", target_json(row, target)) : json;
}

static json_t *rows_json(const struct bench_rows *rows)
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

/* For products: the speed-up that a second thread should bring. */
static const double pair_at_least = 1.9;

static double gflops(const struct bench_gemm_row *row, double seconds)
{
	const struct bench_gemm_shape *s = row->shape;

	return seconds > 0 ? 2e-9 * (double)s->m * (double)s->n * (double)s->k / seconds : 0;
}

/* Returns GB/s of packed weights. */
static double gbps(const struct bench_gemm_row *row, double seconds)
{
	return seconds > 0 ? 1e-9 * (double)row->result.packed_bytes / seconds : 0;
}

/* Returns the figure that a target is about; 0 if it was not measured. */
static double product_measured(const struct bench_gemm_row *row, enum bench_gemm_unit unit)
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

/* Returns the target of a row; at_least is 0 if it has none, or if what it compares with was not measured. On several
   threads it is their speed-up, if memory is not the limit. */
static struct bench_gemm_target product_target(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row)
{
	struct bench_gemm_target found = {.unit = BENCH_ONE, .at_least = pair_at_least};

	if (row->tier != rows->best_tier || strcmp(row->source->name, BENCH_SOURCE_NORMAL) != 0)
		return (struct bench_gemm_target){.at_least = 0};
	if (rows->threads != 1) {
		if (rows->threads != 2 || row->shape->place == BENCH_GEMM_DRAM)
			found.at_least = 0;
		return found;
	}
	for (size_t i = 0; i < bench_n_gemm_targets; i++)
		if (&bench_gemm_cases[bench_gemm_targets[i].of] == row->c &&
		    bench_gemm_targets[i].place == row->shape->place &&
		    product_measured(row, bench_gemm_targets[i].unit) > 0)
			return bench_gemm_targets[i];
	return (struct bench_gemm_target){.at_least = 0};
}

static void print_product_heading(const struct bench_gemm_rows *rows)
{
	printf("Products: GFLOP/s counts 2 m n k of the dense product, with weights packed before and everything else in\n"
	       "the time; sgemm is %s on the same shape, in turns; peak is what the core computes at most:\n"
	       "products of bytes, or of binary32 in a chain; dense is the same with dense weights and no epilogue, or\n"
	       "as one product; one is on one thread; GB/s counts packed weights, and read is a loop that only reads them.\n\n",
	       bench_sgemm_name() != NULL ? bench_sgemm_name() : "OpenBLAS, which is not there,");
	printf("%-32s%-9s%-7s %-19s%-5s%8s%7s%7s%6s%7s%6s%7s%7s  %s\n", "case", "data", "tier", "m x n x k", "in", "GFLOP/s",
	       "spread", "sgemm", "ratio", "peak", rows->threads == 1 ? "dense" : "one", "GB/s", "read", "target");
}

static void print_number(const char *format, int width, double x)
{
	if (x > 0)
		printf(format, width, x);
	else
		printf("%*s", width, "-");
}

static void print_product(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row)
{
	const struct bench_gemm_target target = product_target(rows, row);
	const struct bench_gemm_result *r = &row->result;
	const bool reads = r->read > 0;
	char name[NAME_SIZE], shape[NAME_SIZE];

	bench_gemm_case_name(row->c, name, sizeof name);
	bench_gemm_shape_name(row->shape, shape, sizeof shape);
	printf("%-32s%-9s%-7s %-19s%-5s%8.1f%6.1f%%", name, bench_source_kind(row->source), mxfp_isa_name(row->tier), shape,
	       bench_gemm_place_name(row->shape->place), gflops(row, r->kernel.median), 100 * r->kernel.spread);
	print_number("%*.1f", 7, gflops(row, r->sgemm));
	print_number("%*.2f", 6, product_measured(row, BENCH_SGEMM));
	print_number("%*.0f", 7, 1e-9 * r->peak);
	print_number("%*.2f", 6, product_measured(row, rows->threads == 1 ? BENCH_DENSE : BENCH_ONE));
	print_number("%*.1f", 7, reads ? gbps(row, r->kernel.median) : 0);
	print_number("%*.1f", 7, gbps(row, r->read));
	if (target.at_least > 0)
		printf("  %g %s: %.2f %s", target.at_least, unit_text(target.unit), product_measured(row, target.unit),
		       product_measured(row, target.unit) >= target.at_least ? "met" : "missed");
	putchar('\n');
	fflush(stdout);
}

/* Adds a measured number. */
static json_t *add_real(json_t *json, const char *key, double x)
{
	return x > 0 ? facts_set(json, key, json_real(x)) : json;
}

static json_t *product_json(const struct bench_gemm_rows *rows, const struct bench_gemm_row *row)
{
	const struct bench_gemm_target target = product_target(rows, row);
	const struct bench_gemm_result *r = &row->result;
	const double value = product_measured(row, target.unit);
	char name[NAME_SIZE], shape[NAME_SIZE];

	bench_gemm_case_name(row->c, name, sizeof name);
	bench_gemm_shape_name(row->shape, shape, sizeof shape);
	json_t *json = json_pack("{s:s, s:o, s:s, s:s, s:s, s:f, s:f, s:I}", "case", name, "data",
	                         facts_text(row->source->name), "tier", mxfp_isa_name(row->tier), "shape", shape, "in", bench_gemm_place_name(row->shape->place), "gflops",
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

static json_t *products_json(const struct bench_gemm_rows *rows)
{
	json_t *array = json_array();

	for (size_t i = 0; i < rows->n; i++)
		array = facts_append(array, product_json(rows, &rows->rows[i]));
	return array;
}

enum {
	DRAM_ELEMENTS = 1 << 28,  /* 1 GiB of f32 */
	QUICK_ELEMENTS = 1 << 26, /* 256 MiB */
	ROUNDS = 101,
	QUICK_ROUNDS = 31,
	JSON_DIGITS = 6 /* significant digits of each real number */
};

/* How long one product is timed. */
static const double product_seconds = 2, quick_product_seconds = 0.5;

/* Below this speed in L2, in GB/s, DRAM is not the limit, and timing it there would take seconds. */
static const double dram_from = 0.2;

struct bench {
	/* The command line. */
	const char *tier, *op, *format, *in, *shape, *sources_given;
	bool quick, json, all;
	uint64_t threads;
	/* Their meaning; -1: any. */
	int only_tier, only_op, only_place;
	enum mxfp_format only_format;
	/* The work. */
	struct bench_data data;
	struct bench_sources sources;
	struct bench_rows rows;
	struct bench_gemm_rows products;
	bool out_of_memory;
};

static const struct usage usage = {
	"bench [options]",
	"Times the kernels of each available instruction-set tier on data in the L2 cache\n"
	"and in memory (2 GiB; 512 MiB with --quick), alternating with a plain loop that\n"
	"moves the same bytes. Takes several minutes; --quick and the filters shorten it.\n"
	"On a busy machine only the ratios are meaningful.",
	"  mxfp bench --quick --op quantize --format mxfp4\n"
	"  mxfp bench --json > figures.json",
};

/* Finds `name` among the names that `name_of` returns; else fails with the list of them. */
static int find_name(const char *option, const char *name, const char *(*name_of)(int i), int *index,
                     struct error *error)
{
	const char *names[CHOICES_MAX];
	char where[16];
	size_t n = 0;

	for (; n < CHOICES_MAX && name_of((int)n) != NULL; n++) {
		names[n] = name_of((int)n);
		if (strcasecmp(name, names[n]) == 0) {
			*index = (int)n;
			return EXIT_OK;
		}
	}
	snprintf(where, sizeof where, "--%s", option);
	return nearest_fail(where, name, "known", names, n, error);
}

static const char *op_name(int i)
{
	return i < BENCH_N_OPS ? bench_op_names[i] : NULL;
}

static const char *place_name(int i)
{
	return i < BENCH_N_PLACES ? bench_place_names[i] : NULL;
}

static const char *format_name(int i)
{
	const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)i);

	return info != NULL ? info->name : NULL;
}

/* Whether the machine has the tier and it is not above the ceiling that --isa or MXFP_ISA sets. */
static bool allowed(int tier)
{
	return tier <= mxfp_isa_active() && (mxfp_isa_available() >> tier & 1) != 0;
}

static int check(struct bench *b, struct error *error)
{
	int found = -1, code = EXIT_OK;

	if (b->threads == 0 || b->threads > BENCH_THREADS_MAX)
		return fail(error, EXIT_USAGE, "--threads: %llu is out of range; give 1 to %d",
		            (unsigned long long)b->threads, (int)BENCH_THREADS_MAX);
	if (b->op != NULL)
		code = find_name("op", b->op, op_name, &b->only_op, error);
	if (code == EXIT_OK && b->in != NULL)
		code = find_name("in", b->in, place_name, &b->only_place, error);
	if (code == EXIT_OK && b->tier != NULL)
		code = find_name("tier", b->tier, mxfp_isa_name, &b->only_tier, error);
	if (code != EXIT_OK)
		return code;
	const bool products = b->only_op < 0 || b->only_op == BENCH_GEMM;
	const struct option_use uses[] = {
		{"data", products, "products"},
		{"shape", products, "products"},
		{"in", b->shape == NULL, "all shapes, and --shape names one"},
		{"all", b->only_op != BENCH_GEMM && b->shape == NULL, "kernels, and not for products"},
		{NULL, true, NULL},
	};
	code = options_check_used(uses, error);
	if (code != EXIT_OK)
		return code;
	if (b->only_tier >= 0 && !allowed(b->only_tier))
		return fail(error, EXIT_USAGE, "--tier: %s does not run here; mxfp info says why", b->tier);
	if (b->format == NULL || mxfp_format_from_name(&b->only_format, b->format) == MXFP_OK)
		return EXIT_OK;
	code = find_name("format", b->format, format_name, &found, error);
	b->only_format = (enum mxfp_format)found;
	return code;
}

static bool wanted(const struct bench *b, const struct bench_case *c)
{
	return (c->usual || b->all) && (b->only_op < 0 || (int)c->op == b->only_op) &&
	       (b->only_format == OPTION_FORMAT_NONE || c->dst == b->only_format || c->src == b->only_format ||
	        (c->op == BENCH_FAKE && c->blocks == b->only_format));
}

/* Makes room for one more item in an array of n with room for *capacity; NULL: memory ran out, which b notes. */
static void *grow(struct bench *b, void *array, size_t n, size_t *capacity, size_t size)
{
	if (n < *capacity)
		return array;
	void *larger = realloc(array, (2 * *capacity + 64) * size);
	if (larger == NULL)
		b->out_of_memory = true;
	else
		*capacity = 2 * *capacity + 64;
	return larger;
}

static void add_row(struct bench *b, const struct bench_row *row)
{
	struct bench_rows *rows = &b->rows;
	struct bench_row *room = grow(b, rows->rows, rows->n, &rows->capacity, sizeof *row);

	if (room == NULL)
		return;
	rows->rows = room;
	rows->rows[rows->n++] = *row;
	if (!b->json)
		print_row(rows, row);
}

/* Times one case in one tier, in each selected place. */
static void time_case(struct bench *b, const struct bench_case *c, int tier)
{
	struct bench_work work = {
		.c = c,
		.isa = mxfp_isa_name(tier),
		.limits = bench_limits_of_tier(mxfp_isa_name(tier)),
		.data = &b->data,
		.threads = b->rows.threads,
	};
	struct bench_row row = {.c = *c, .tier = tier};

	for (int place = 0; place < BENCH_N_PLACES; place++) {
		if (b->only_place >= 0 && place != b->only_place)
			continue;
		/* The reference is never fast enough for memory to matter. */
		if (place == BENCH_DRAM && (tier == 0 || (row.place == BENCH_L2 && row.result.kernel.median > 0 &&
		                                         element_gbps(row.result.kernel.median) < dram_from)))
			continue;
		work.place = row.place = (enum bench_place)place;
		row.result = bench_measure(&work, b->quick ? QUICK_ROUNDS : ROUNDS);
		add_row(b, &row);
	}
}

/* Whether to stop timing: memory ran out, or nobody reads the rows any more (mxfp bench | head). */
static bool is_over(const struct bench *b)
{
	return b->out_of_memory || ferror(stdout);
}

/* Times a case in each tier. */
static int time_tiers(const struct bench_case *c, void *context)
{
	struct bench *b = context;

	if (!wanted(b, c))
		return 0;
	bench_data_fill(&b->data, c->src, c->positive);
	for (int tier = 0; mxfp_isa_name(tier) != NULL; tier++)
		if (allowed(tier) && (b->only_tier < 0 || tier == b->only_tier))
			time_case(b, c, tier);
	return is_over(b);
}

static void add_product(struct bench *b, const struct bench_gemm_row *row)
{
	struct bench_gemm_rows *rows = &b->products;
	struct bench_gemm_row *room = grow(b, rows->rows, rows->n, &rows->capacity, sizeof *row);

	if (room == NULL)
		return;
	rows->rows = room;
	if (!b->json && rows->n == 0)
		print_product_heading(rows);
	rows->rows[rows->n++] = *row;
	if (!b->json)
		print_product(rows, row);
}

static void time_product(struct bench *b, const struct bench_gemm_case *c, const struct bench_gemm_shape *shape,
                         const struct bench_gemm_source *source, int tier)
{
	struct bench_gemm_data data = {.c = c, .shape = shape, .source = source, .isa = mxfp_isa_name(tier)};
	struct bench_gemm_row row = {.c = c, .shape = shape, .source = source, .tier = tier};

	if (!bench_gemm_data_make(&data, 4 * (b->quick ? QUICK_ELEMENTS : DRAM_ELEMENTS),
	                          (unsigned)b->threads)) {
		b->out_of_memory = true;
		return;
	}
	row.result = bench_gemm_measure(&data, b->quick ? quick_product_seconds : product_seconds);
	bench_gemm_data_free(&data);
	add_product(b, &row);
}

static bool shape_wanted(const struct bench *b, const struct bench_gemm_shape *shape)
{
	char name[64];

	bench_gemm_shape_name(shape, name, sizeof name);
	if (b->shape != NULL)
		return strcmp(b->shape, name) == 0;
	if (b->only_place >= 0)
		return strcmp(bench_gemm_place_name(shape->place), bench_place_names[b->only_place]) == 0;
	return shape->quick || !b->quick;
}

/* Times a product of each source of numbers. A case with outliers of its own makes them from normal numbers only. */
static void time_sources(struct bench *b, const struct bench_gemm_case *c, const struct bench_gemm_shape *shape, int tier)
{
	for (size_t i = 0; i < b->sources.n && !is_over(b); i++)
		if (!c->outliers || strcmp(b->sources.items[i].name, BENCH_SOURCE_NORMAL) == 0)
			time_product(b, c, shape, &b->sources.items[i], tier);
}

/* Times a product in all selected shapes. */
static void time_shapes(struct bench *b, const struct bench_gemm_case *c, int tier)
{
	for (size_t i = 0; i < bench_n_gemm_shapes && !is_over(b); i++)
		if (shape_wanted(b, &bench_gemm_shapes[i]) &&
		    (bench_gemm_shapes[i].experts == 1 ||
		     (c->sparsity.m == 0 && !c->outliers && c->epilogue == BENCH_GEMM_PLAIN)))
			time_sources(b, c, &bench_gemm_shapes[i], tier);
}

/* Times products in each tier except the reference, which would take minutes. */
static void time_products(struct bench *b)
{
	for (size_t i = 0; i < bench_n_gemm_cases; i++) {
		const struct bench_gemm_case *c = &bench_gemm_cases[i];

		if (b->only_format != OPTION_FORMAT_NONE && c->a != b->only_format && c->w != b->only_format)
			continue;
		for (int tier = 1; mxfp_isa_name(tier) != NULL; tier++)
			if (allowed(tier) && (b->only_tier < 0 || tier == b->only_tier))
				time_shapes(b, c, tier);
	}
}

static int print_json(const struct bench *b, struct error *error)
{
	json_t *json = rows_json(&b->rows);

	if (b->products.n != 0)
		json = facts_set(json, "products", products_json(&b->products));
	int code = facts_print_part(stdout, json, JSON_INDENT(2) | JSON_REAL_PRECISION(JSON_DIGITS), error);

	if (code == EXIT_OK)
		putchar('\n');
	return code;
}

/* Times everything selected. */
static void time_all(struct bench *b)
{
	const bool only_products = b->only_op == BENCH_GEMM;

	if (!b->json && !only_products)
		print_machine(&b->rows);
	if (!only_products && b->shape == NULL)
		bench_cases(time_tiers, b);
	if (!b->json && b->rows.n != 0)
		print_targets(&b->rows);
	if (is_over(b) || (!only_products && b->only_op >= 0))
		return;
	bench_sgemm_load((unsigned)b->threads);
	time_products(b);
}

/* Says what remains to be said. */
static int finish(const struct bench *b, struct error *error)
{
	if (b->out_of_memory)
		return fail_memory(error);
	if (b->rows.n == 0 && b->products.n == 0)
		return fail(error, EXIT_USAGE, "no case is left; leave out a filter, or give --all");
	return b->json ? print_json(b, error) : EXIT_OK;
}

static int run_bench(struct bench *b, struct error *error)
{
	const int best_tier = b->only_tier >= 0 ? b->only_tier : mxfp_isa_active();
	const bool little = b->only_place == BENCH_L2 || b->only_op == BENCH_GEMM || b->shape != NULL;
	int code;

	b->rows = (struct bench_rows){
		.best_tier = best_tier,
		.threads = (unsigned)b->threads,
		.dram_elements = b->quick ? QUICK_ELEMENTS : DRAM_ELEMENTS,
	};
	b->products = (struct bench_gemm_rows){.best_tier = best_tier, .threads = (unsigned)b->threads};
	if (!bench_data_make(&b->data, little ? BENCH_PATTERN : b->rows.dram_elements))
		return fail_memory(error);
	code = bench_sources_make(&b->sources, b->sources_given, b->data.normals, error);
	if (code == EXIT_OK)
		time_all(b);
	bench_data_free(&b->data);
	if (code == EXIT_OK)
		code = finish(b, error);
	bench_sources_free(&b->sources);
	free(b->rows.rows);
	free(b->products.rows);
	return code;
}

static int run(int argc, char **argv, struct error *error)
{
	struct bench b = {
		.threads = 1, .only_tier = -1, .only_op = -1, .only_place = -1, .only_format = OPTION_FORMAT_NONE,
	};
	const struct option_spec options[] = {
		{"quick", 0, OPTION_FLAG, NULL, "use less memory and fewer rounds", &b.quick},
		{"json", 0, OPTION_FLAG, NULL, "print JSON", &b.json},
		{"all", 0, OPTION_FLAG, NULL, "time every pair of formats, rounding mode, rule and recipe", &b.all},
		{"op", 0, OPTION_STRING, "convert|quantize|dequantize|scan|apply|rows|fake|gemm",
		 "time only this kind of kernel", &b.op},
		{"format", 0, OPTION_STRING, "FORMAT|ELEMENT", "time only kernels from or to this format", &b.format},
		{"in", 0, OPTION_STRING, "l2|dram", "time only data in this place", &b.in},
		{"data", 0, OPTION_STRING, "normal|t4|outliers|FILE,...",
		 "numbers of the operands of products (default normal)", &b.sources_given},
		{"shape", 0, OPTION_STRING, "MxNxK", "time only products of this shape", &b.shape},
		{"tier", 0, OPTION_STRING, "TIER", "time only this instruction-set tier", &b.tier},
		{"threads", 0, OPTION_UNSIGNED, "N", "use at most this many threads", &b.threads},
		{.kind = OPTION_END},
	};

	const enum parsed parsed = options_parse(argc, argv, options, &usage, 0, 0, NULL, error);
	if (parsed != PARSED_RUN)
		return parsed_code(parsed);
	int code = check(&b, error);
	return code == EXIT_OK ? run_bench(&b, error) : code;
}

const struct command command_bench = {"bench", "time the kernels and compare them with machine limits", run};
