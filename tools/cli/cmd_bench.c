/* SPDX-License-Identifier: MIT */
/* mxfp bench: the speed of every kernel on this machine, beside the limit of moving its bytes. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "cli/bench_gemm.h"
#include "cli/bench_print.h"
#include "cli/commands.h"
#include "io/facts.h"
#include "io/json.h"
#include "model/choices.h"
#include "mxfp/isa.h"

enum {
	DRAM_ELEMENTS = 1 << 28,  /* 1 GiB of f32 */
	QUICK_ELEMENTS = 1 << 26, /* 256 MiB */
	ROUNDS = 101,
	QUICK_ROUNDS = 31,
	JSON_DIGITS = 6 /* significant ones of each real number */
};

/* That one product is timed for. */
static const double product_seconds = 2, quick_product_seconds = 0.5;

/* Below this, in GB/s in L2, DRAM is no limit, and a turn there would take seconds. */
static const double dram_from = 0.2;

struct bench {
	/* The command line. */
	const char *tier, *op, *format, *in, *shape;
	bool quick, json, all;
	uint64_t threads;
	/* What it means; -1: any. */
	int only_tier, only_op, only_place;
	enum mxfp_format only_format;
	/* The work. */
	struct bench_data data;
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

/* Finds `name` among the names that `name_of` gives; fails with the list of them. */
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
	if (b->only_tier >= 0 && !allowed(b->only_tier))
		return fail(error, EXIT_USAGE, "--tier: %s does not run here; mxfp info says why", b->tier);
	if (b->format == NULL || mxfp_format_from_name(b->format, &b->only_format) == MXFP_OK)
		return EXIT_OK;
	code = find_name("format", b->format, format_name, &found, error);
	b->only_format = (enum mxfp_format)found;
	return code;
}

static bool wanted(const struct bench *b, const struct bench_case *c)
{
	return (c->usual || b->all) && (b->only_op < 0 || (int)c->op == b->only_op) &&
	       (b->only_format == OPTION_FORMAT_NONE || c->dst == b->only_format || c->src == b->only_format);
}

/* Room for one more in an array of n that has room for *capacity; NULL: there is no memory, and b says so. */
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
		bench_print_row(rows, row);
}

/* Times one case in one tier, in each place that is wanted. */
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
		                                         bench_gbps(row.result.kernel.median) < dram_from)))
			continue;
		work.place = row.place = (enum bench_place)place;
		row.result = bench_measure(&work, b->quick ? QUICK_ROUNDS : ROUNDS);
		add_row(b, &row);
	}
}

/* Nothing more is to be timed: there is no memory, or nobody reads the rows (mxfp bench | head). */
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
	bench_data_fill(&b->data, c->src);
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
		bench_gemm_print_heading(rows);
	rows->rows[rows->n++] = *row;
	if (!b->json)
		bench_gemm_print_row(rows, row);
}

static void time_product(struct bench *b, const struct bench_gemm_case *c, const struct bench_gemm_shape *shape,
                         int tier)
{
	struct bench_gemm_data data = {.c = c, .shape = shape, .isa = mxfp_isa_name(tier)};
	struct bench_gemm_row row = {.c = c, .shape = shape, .tier = tier};

	if (!bench_gemm_data_make(&data, b->data.normals, 4 * (b->quick ? QUICK_ELEMENTS : DRAM_ELEMENTS),
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

/* Times a product in all shapes that are wanted. */
static void time_shapes(struct bench *b, const struct bench_gemm_case *c, int tier)
{
	for (size_t i = 0; i < bench_n_gemm_shapes && !is_over(b); i++)
		if (shape_wanted(b, &bench_gemm_shapes[i]) &&
		    (bench_gemm_shapes[i].experts == 1 || (c->sparsity.m == 0 && !c->outliers)))
			time_product(b, c, &bench_gemm_shapes[i], tier);
}

/* In each tier but the reference, which would take minutes. */
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
	json_t *json = bench_json(&b->rows);

	if (b->products.n != 0)
		json = facts_set(json, "products", bench_gemm_json(&b->products));
	int code = facts_print_part(stdout, json, JSON_INDENT(2) | JSON_REAL_PRECISION(JSON_DIGITS), error);

	if (code == EXIT_OK)
		putchar('\n');
	return code;
}

/* Times what is wanted. */
static void time_all(struct bench *b)
{
	const bool only_products = b->only_op == BENCH_GEMM;

	if (!b->json && !only_products)
		bench_print_machine(&b->rows);
	if (!only_products && b->shape == NULL)
		bench_cases(time_tiers, b);
	if (!b->json && b->rows.n != 0)
		bench_print_targets(&b->rows);
	if (is_over(b) || (!only_products && b->only_op >= 0))
		return;
	bench_sgemm_load((unsigned)b->threads);
	time_products(b);
}

static int run_bench(struct bench *b, struct error *error)
{
	const int best_tier = b->only_tier >= 0 ? b->only_tier : mxfp_isa_active();
	const bool little = b->only_place == BENCH_L2 || b->only_op == BENCH_GEMM || b->shape != NULL;
	int code = EXIT_OK;

	b->rows = (struct bench_rows){
		.best_tier = best_tier,
		.threads = (unsigned)b->threads,
		.dram_elements = b->quick ? QUICK_ELEMENTS : DRAM_ELEMENTS,
	};
	b->products = (struct bench_gemm_rows){.best_tier = best_tier, .threads = (unsigned)b->threads};
	if (!bench_data_make(&b->data, little ? BENCH_PATTERN : b->rows.dram_elements))
		return fail_memory(error);
	time_all(b);
	bench_data_free(&b->data);
	if (b->out_of_memory)
		code = fail_memory(error);
	else if (b->rows.n == 0 && b->products.n == 0)
		code = fail(error, EXIT_USAGE, "no case is left; leave out a filter, or give --all");
	else if (b->json)
		code = print_json(b, error);
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
		{"op", 0, OPTION_STRING, "convert|quantize|dequantize|scan|gemm",
		 "time only this kind of kernel", &b.op},
		{"format", 0, OPTION_STRING, "FORMAT|ELEMENT", "time only kernels from or to this format", &b.format},
		{"in", 0, OPTION_STRING, "l2|dram", "time only data in this place", &b.in},
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
