/* SPDX-License-Identifier: MIT */
/*
 * make check-exhaustive: the conversions of every tier that the machine has, the reference among them.
 *
 * From f32: all 2^32 inputs to every element format, rounding mode and overflow mode, against the intervals of equal
 * codes that MPFR gives (thresholds.h); codes and counts. Where an option cannot matter it is run once: the overflow
 * mode of formats that always overflow or always saturate, the rounding mode of f32 itself. Stochastic rounding, whose
 * result depends on the index too, on 2^24 numbers against the reference.
 * From every other format: all of its numbers, all options, against the reference; no case of the reference itself.
 * Then the scales of NVFP4, every recipe, for every finite largest magnitude of a tensor, against the processor's own binary32
 * (exhaustive_nvfp4.c).
 * Then the functions of one number, all 2^32 inputs with the default parameter, against MPFR (exhaustive_function.c).
 *
 * --tier T, --from F, --format F, --round M and --overflow O choose a part of the conversions (with the last two, of
 * f32 only), --recipe R|all one of NVFP4, --function F|all one of the functions, --every N each N-th piece of 65536 of
 * these two; --workers N the threads (2).
 * MXFP_TEST_PART=K/N runs the K-th of N parts, which add up to everything: each N-th conversion, recipe and function, on all tiers.
 * --record FILE appends each case that ends, and leaves out those that the file has without a fault.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "oracle/exhaustive.h"
#include "mxfp/isa.h"

/* What the arguments choose; NULL: all. */
struct choice {
	const char *tier, *from, *format, *round, *overflow, *recipe, *function, *every, *record, *workers;
	unsigned long part, of; /* MXFP_TEST_PART; of 0: all */
};

enum kind { FROM_F32, FROM_NARROW, NVFP4, FUNCTION };

/* What all tiers do, with one expectation: a conversion, the scale bytes of a recipe, a function. */
struct unit {
	enum kind kind;
	enum mxfp_format from, to;     /* a conversion */
	struct mxfp_rounding rounding; /* FROM_F32 */
	int which;                     /* a recipe, a function */
	size_t every;
};

enum { MAX_TIERS = EXHAUSTIVE_MAX_TIERS, NAME = 100 };

struct tiers {
	size_t n;
	struct exhaustive_case cases[MAX_TIERS];
};

static struct {
	bool counting; /* units are counted, and not run */
	unsigned n_units, n_in_part, at, n_run, n_recorded;
	uint64_t n_inputs, n_wrong_pieces;
} total;

void exhaustive_convert(const struct exhaustive_case *c, const struct mxfp_kernels *table, struct mxfp_convert_job *job)
{
	job->dst_format = c->dst_format;
	job->src_format = c->src_format;
	job->rounding = c->rounding;
	table->convert[c->dst_format][c->src_format](job);
}

static const char *mode_name(const struct exhaustive_case *c)
{
	return mxfp_option_name(MXFP_OPTION_ROUND, (int)c->rounding.mode);
}

static const char *overflow_name(const struct exhaustive_case *c)
{
	return mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)c->rounding.overflow);
}

void exhaustive_wrong(const struct exhaustive_case *c, atomic_uint *n_wrong, const char *what, uint32_t number)
{
	if (atomic_fetch_add(n_wrong, 1) < EXHAUSTIVE_N_SHOWN)
		printf("%s %s to %s, %s %s%s: wrong %s %08" PRIX32 "\n", c->tier, mxfp_format_get_info(c->src_format)->name,
		       mxfp_format_get_info(c->dst_format)->name, mode_name(c), overflow_name(c),
		       c->rounding.no_negative_zero ? " no -0" : "", what, number);
}

void exhaustive_run(const struct exhaustive_case *c, size_t n, void (*run)(void *context, size_t i), void *context)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = c->workers};

	mxfp_parallel_for(&exec, n, run, context);
}

/* What a case is called, in the output and in the record. */
static void name_case(const struct unit *u, const struct exhaustive_case *c, char *name)
{
	switch (u->kind) {
	case FROM_F32:
		snprintf(name, NAME, "%s %s to %s, %s %s:", c->tier, mxfp_format_get_info(u->from)->name,
		         mxfp_format_get_info(u->to)->name, mode_name(c), overflow_name(c));
		break;
	case FROM_NARROW:
		snprintf(name, NAME, "%s %s to %s, all options:", c->tier, mxfp_format_get_info(u->from)->name,
		         mxfp_format_get_info(u->to)->name);
		break;
	case NVFP4:
		snprintf(name, NAME, "%s nvfp4 %s, scales, 1 in %zu:", c->tier, mxfp_option_name(MXFP_OPTION_RECIPE, u->which), u->every);
		break;
	case FUNCTION:
		snprintf(name, NAME, "%s function %s, 1 in %zu:", c->tier, mxfp_option_name(MXFP_OPTION_FUNCTION, u->which), u->every);
		break;
	}
}

/* Whether the record has the case, without a fault; then it counts. */
static bool is_recorded(const struct choice *choice, const char *name)
{
	FILE *f = choice->record != NULL ? fopen(choice->record, "r") : NULL;
	uint64_t n_inputs;
	unsigned n_wrong;
	char line[200];
	bool found = false;

	while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
		found = strncmp(line, name, strlen(name)) == 0 &&
		        sscanf(line + strlen(name), " %" SCNu64 " inputs, %u pieces wrong", &n_inputs, &n_wrong) == 2 &&
		        n_wrong == 0;
	if (f != NULL)
		fclose(f);
	if (found) {
		total.n_recorded++;
		total.n_inputs += n_inputs;
	}
	return found;
}

static void report(const struct choice *choice, const char *name, struct exhaustive_result r, double seconds)
{
	FILE *f;

	total.n_run++;
	total.n_inputs += r.n_inputs;
	total.n_wrong_pieces += r.n_wrong_pieces;
	printf("%s %" PRIu64 " inputs, %u pieces wrong, %.1f s\n", name, r.n_inputs, r.n_wrong_pieces, seconds);
	fflush(stdout);
	if (choice->record == NULL)
		return;
	f = fopen(choice->record, "a");
	if (f == NULL || fprintf(f, "%s %" PRIu64 " inputs, %u pieces wrong, %.1f s\n", name, r.n_inputs,
	                         r.n_wrong_pieces, seconds) < 0 || fclose(f) != 0) {
		perror(choice->record);
		exit(EXIT_FAILURE);
	}
}

static bool matches(const char *wanted, const char *name)
{
	return wanted == NULL || strcmp(wanted, name) == 0;
}

/* What a tier runs. */
typedef void kernel(void);
static kernel *kernel_of(const struct unit *u, const struct mxfp_kernels *table)
{
	switch (u->kind) {
	case FROM_F32:
	case FROM_NARROW:
		return (kernel *)table->convert[u->to][u->from];
	case NVFP4:
		return (kernel *)table->quantize[MXFP_FORMAT_NVFP4];
	case FUNCTION:
		return (kernel *)table->apply[u->which];
	}
	return NULL;
}

/* Whether the reference is a case, which others judge; elsewhere it is what the others are compared with. */
static bool judges_reference(const struct unit *u)
{
	return u->kind == FUNCTION || u->kind == NVFP4 || (u->kind == FROM_F32 && u->rounding.mode != MXFP_ROUND_SR);
}

/* The tiers that have a kernel of their own: one whose slot holds the function of another of them, or the reference's, is the
   same code. */
static void choose_tiers(const struct unit *u, const struct tiers *all, struct tiers *chosen)
{
	chosen->n = 0;
	for (size_t i = 0; i < all->n; i++) {
		const struct exhaustive_case *c = &all->cases[i];
		bool same = exhaustive_is_reference(c) ? !judges_reference(u) : kernel_of(u, c->table) == kernel_of(u, c->reference);

		for (size_t k = 0; k < chosen->n && !same; k++)
			same = kernel_of(u, c->table) == kernel_of(u, chosen->cases[k].table);
		if (same)
			continue;
		chosen->cases[chosen->n] = *c;
		chosen->cases[chosen->n].src_format = u->from;
		chosen->cases[chosen->n].dst_format = u->to;
		chosen->cases[chosen->n++].rounding = u->rounding;
	}
}

static void leave_out_recorded(const struct choice *choice, const struct unit *u, struct tiers *t)
{
	char name[NAME];
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		name_case(u, &t->cases[i], name);
		if (!is_recorded(choice, name))
			t->cases[n++] = t->cases[i];
	}
	t->n = n;
}

/* Each tier by itself: the intervals of codes, which are made once, are compared faster than any kernel runs. */
static void run_from_f32(const struct tiers *t, const struct mxfp_rounding *rounding, struct exhaustive_result *results)
{
	struct thresholds thresholds[2] = {{0}, {0}};
	struct oracle oracle;

	oracle_init(&oracle, t->cases[0].dst_format);
	for (int negative = 0; negative < 2 && oracle.n != 0; negative++)
		thresholds_init(&thresholds[negative], &oracle, rounding, negative != 0);
	for (size_t i = 0; i < t->n; i++)
		results[i] = exhaustive_f32(&t->cases[i], &oracle, thresholds);
	for (int negative = 0; negative < 2; negative++)
		thresholds_clear(&thresholds[negative]);
	oracle_clear(&oracle);
}

static void run_cases(const struct unit *u, const struct tiers *t, struct exhaustive_result *results)
{
	switch (u->kind) {
	case NVFP4:
		exhaustive_nvfp4(t->cases, t->n, (enum mxfp_recipe)u->which, u->every, results);
		return;
	case FUNCTION:
		exhaustive_function(t->cases, t->n, (enum mxfp_function)u->which, u->every, results);
		return;
	case FROM_F32:
		if (u->rounding.mode != MXFP_ROUND_SR) {
			run_from_f32(t, &u->rounding, results);
			return;
		}
		for (size_t i = 0; i < t->n; i++)
			results[i] = exhaustive_sample(&t->cases[i]);
		return;
	case FROM_NARROW:
		for (size_t i = 0; i < t->n; i++)
			results[i] = exhaustive_narrow(&t->cases[i]);
	}
}

static double seconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Each `of`-th unit is in a part, whatever the record has of it. */
static bool is_in_part(const struct choice *choice, unsigned index)
{
	return choice->of == 0 || index % choice->of == choice->part - 1;
}

static void run_unit(const struct choice *choice, const struct tiers *all, const struct unit *u)
{
	struct exhaustive_result results[MAX_TIERS];
	struct tiers t;
	char name[NAME];

	choose_tiers(u, all, &t);
	if (t.n == 0)
		return;
	const unsigned index = total.n_units++;
	if (!is_in_part(choice, index))
		return;
	if (total.counting) {
		total.n_in_part++;
		return;
	}
	total.at++;
	leave_out_recorded(choice, u, &t);
	if (t.n == 0)
		return;
	const double began = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	run_cases(u, &t, results);
	const double seconds = seconds_of(CLOCK_MONOTONIC) - began;
	for (size_t i = 0; i < t.n; i++) {
		name_case(u, &t.cases[i], name);
		report(choice, name, results[i], seconds);
	}
	printf("%u of %u: these %zu in %.1f s of processor time\n", total.at, total.n_in_part, t.n,
	       seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor);
	fflush(stdout);
}

/* Whether the mode is chosen and is not the same as another. */
static bool is_wanted(const struct choice *choice, const struct mxfp_format_info *to, int mode, int overflow)
{
	return matches(choice->round, mxfp_option_name(MXFP_OPTION_ROUND, mode)) &&
	       matches(choice->overflow, mxfp_option_name(MXFP_OPTION_OVERFLOW, overflow)) &&
	       (overflow == MXFP_OVERFLOW_SAT || oracle_has_overflow_modes(to)) &&
	       (mode == MXFP_ROUND_RNE || to->format != MXFP_FORMAT_F32);
}

static void run_modes(const struct choice *choice, const struct tiers *tiers, struct unit u)
{
	for (int mode = MXFP_ROUND_RNE; mode <= MXFP_ROUND_SR; mode++)
		for (int overflow = MXFP_OVERFLOW_SAT; overflow <= MXFP_OVERFLOW_OVF; overflow++) {
			u.rounding = (struct mxfp_rounding){
				.mode = (enum mxfp_round)mode,
				.overflow = (enum mxfp_overflow)overflow,
			};
			if (is_wanted(choice, mxfp_format_get_info(u.to), mode, overflow))
				run_unit(choice, tiers, &u);
		}
}

static bool is_element(const char *wanted, int format)
{
	const struct mxfp_format_info *f = mxfp_format_get_info((enum mxfp_format)format);

	return f->kind != MXFP_KIND_BLOCK && matches(wanted, f->name);
}

static void run_conversions(const struct choice *choice, const struct tiers *tiers)
{
	for (int from = 0; from < MXFP_N_FORMATS; from++)
		for (int to = 0; to < MXFP_N_FORMATS; to++) {
			const struct unit u = {.kind = from == MXFP_FORMAT_F32 ? FROM_F32 : FROM_NARROW, .from = (enum mxfp_format)from,
			                       .to = (enum mxfp_format)to};

			if (!is_element(choice->from, from) || !is_element(choice->format, to))
				continue;
			if (u.kind == FROM_F32)
				run_modes(choice, tiers, u);
			else if (choice->round == NULL && choice->overflow == NULL)
				run_unit(choice, tiers, &u);
		}
}

/* Recipes or functions: those that are chosen. */
static void run_options(const struct choice *choice, const struct tiers *tiers, enum kind kind)
{
	const char *wanted = kind == NVFP4 ? choice->recipe : choice->function, *name;
	struct unit u = {.kind = kind, .every = choice->every != NULL ? strtoul(choice->every, NULL, 10) : 1};

	for (; (name = mxfp_option_name(kind == NVFP4 ? MXFP_OPTION_RECIPE : MXFP_OPTION_FUNCTION, u.which)) != NULL; u.which++)
		if (matches(wanted, name) || matches(wanted, "all"))
			run_unit(choice, tiers, &u);
}

static void run(const struct choice *choice, const struct tiers *tiers)
{
	const bool of_conversions = choice->from != NULL || choice->format != NULL || choice->round != NULL || choice->overflow != NULL;

	total.n_units = 0;
	if (choice->recipe == NULL && choice->function == NULL)
		run_conversions(choice, tiers);
	if (!of_conversions && choice->function == NULL)
		run_options(choice, tiers, NVFP4);
	if (!of_conversions && choice->recipe == NULL)
		run_options(choice, tiers, FUNCTION);
}

/* The tables of the chosen tiers, the reference's last: it takes longest. */
static void make_tiers(const struct choice *choice, struct mxfp_kernels *table, struct tiers *tiers)
{
	int last = 0;

	for (; mxfp_isa_name(last) != NULL; last++)
		if (mxfp_isa_available() >> last & 1) /* what fills a table may itself need the tier's instructions */
			mxfp_kernels_init(&table[last], UINT32_C(1) << last);
	for (int i = last - 1; i >= 0; i--)
		if (mxfp_isa_available() >> i & 1 && matches(choice->tier, mxfp_isa_name(i)))
			tiers->cases[tiers->n++] = (struct exhaustive_case){
				.tier = mxfp_isa_name(i),
				.table = &table[i],
				.reference = &table[0],
				.workers = choice->workers != NULL ? (unsigned)strtoul(choice->workers, NULL, 10) : 2,
			};
}

static int usage(void)
{
	fputs("usage: exhaustive [--tier T] [--from F] [--format F] [--round M] [--overflow sat|ovf] [--workers N]"
	      " [--recipe R|all] [--function F|all] [--every N] [--record FILE]\n", stderr);
	return 2;
}

static bool parse(struct choice *choice, char **argv)
{
	const struct {
		const char *name, **value;
	} options[] = {
		{"--tier", &choice->tier}, {"--from", &choice->from}, {"--format", &choice->format},
		{"--round", &choice->round}, {"--overflow", &choice->overflow}, {"--workers", &choice->workers},
		{"--record", &choice->record}, {"--recipe", &choice->recipe}, {"--every", &choice->every},
		{"--function", &choice->function},
	};
	enum { N_OPTIONS = sizeof options / sizeof options[0] };

	for (; argv[0] != NULL; argv += 2) {
		size_t i = 0;
		while (i < N_OPTIONS && strcmp(options[i].name, argv[0]) != 0)
			i++;
		if (i == N_OPTIONS || argv[1] == NULL)
			return false;
		*options[i].value = argv[1];
	}
	return true;
}

/* K/N: the K-th of N parts that add up to everything. */
static bool parse_part(struct choice *choice)
{
	const char *text = getenv("MXFP_TEST_PART");
	char end;

	if (text == NULL || *text == '\0')
		return true;
	return sscanf(text, "%lu/%lu%c", &choice->part, &choice->of, &end) == 2 && choice->part >= 1 && choice->part <= choice->of;
}

int main(int argc, char **argv)
{
	static struct mxfp_kernels table[MAX_TIERS];
	static struct tiers tiers;
	struct choice choice = {0};

	(void)argc;
	if (!parse(&choice, argv + 1) || !parse_part(&choice) || (choice.every != NULL && strtoul(choice.every, NULL, 10) == 0))
		return usage();
	make_tiers(&choice, table, &tiers);
	total.counting = true;
	run(&choice, &tiers);
	total.counting = false;
	run(&choice, &tiers);
	mpfr_free_cache();
	if (choice.of != 0)
		printf("part %lu of %lu: %u of %u expectations\n", choice.part, choice.of, total.n_in_part, total.n_units);
	printf("cases: %u, and %u in the record\ninputs compared: %" PRIu64 "\npieces of 65536 inputs with a mismatch: %"
	       PRIu64 "\n", total.n_run, total.n_recorded, total.n_inputs, total.n_wrong_pieces);
	return total.n_units == 0 ? usage() : total.n_wrong_pieces != 0;
}
