/* SPDX-License-Identifier: MIT */
/*
 * make check-exhaustive: the conversions of every tier that the machine has, the reference among them.
 *
 * From f32: all 2^32 inputs to every element format, rounding mode and overflow mode, against the intervals of equal
 * codes that MPFR gives (thresholds.h); codes and counts. Where an option cannot matter it is run once: the overflow
 * mode of formats that always overflow or always saturate, the rounding mode of f32 itself. Stochastic rounding, whose
 * result depends on the index too, on 2^24 numbers against the reference.
 * From every other format: all of its numbers, all options, against the reference; no case of the reference itself.
 * Then the scale bytes of NVFP4, every recipe, for every finite largest magnitude of a tensor (exhaustive_nvfp4.c).
 * Then the functions of one number, all 2^32 inputs with the default parameter, against MPFR (exhaustive_function.c).
 *
 * --tier T, --from F, --format F, --round M and --overflow O choose a part of the conversions (with the last two, of
 * f32 only), --recipe R|all one of NVFP4, --function F|all one of the functions, --every N each N-th piece of 65536 of
 * these two; --workers N the threads (2).
 * --record FILE appends each case that ends, and leaves out those that the file has without a fault.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "oracle/exhaustive.h"
#include "mxfp/isa.h"

/* What the arguments choose; NULL: all. */
struct choice {
	const char *tier, *from, *format, *round, *overflow, *recipe, *function, *every, *record, *workers;
};

static struct {
	unsigned n_run, n_recorded;
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

/* What a case is called, in the output and in the record. */
static void name_case(const struct exhaustive_case *c, char *name, size_t size)
{
	const char *from = mxfp_format_get_info(c->src_format)->name, *to = mxfp_format_get_info(c->dst_format)->name;

	if (c->src_format == MXFP_FORMAT_F32)
		snprintf(name, size, "%s %s to %s, %s %s:", c->tier, from, to, mode_name(c), overflow_name(c));
	else
		snprintf(name, size, "%s %s to %s, all options:", c->tier, from, to);
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

static void report(const struct choice *choice, const char *name, struct exhaustive_result r,
                   const struct timespec *start)
{
	struct timespec now;
	FILE *f;

	clock_gettime(CLOCK_MONOTONIC, &now);
	double seconds = (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
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

/* The conversion from f32 in one mode on every tier: the intervals are made when the first tier needs them. */
static void run_mode(const struct choice *choice, struct exhaustive_case *tiers, size_t n_tiers,
                     const struct oracle *oracle, const struct mxfp_rounding *rounding)
{
	struct thresholds thresholds[2] = {{0}, {0}};
	struct timespec start;
	char name[100];

	for (struct exhaustive_case *c = tiers; c < tiers + n_tiers; c++) {
		c->rounding = *rounding;
		name_case(c, name, sizeof name);
		if (c->table->convert[c->dst_format][c->src_format] == c->reference->convert[c->dst_format][c->src_format] &&
		    (c->table != c->reference || rounding->mode == MXFP_ROUND_SR))
			continue;
		if (is_recorded(choice, name))
			continue;
		clock_gettime(CLOCK_MONOTONIC, &start);
		if (rounding->mode == MXFP_ROUND_SR) {
			report(choice, name, exhaustive_sample(c), &start);
			continue;
		}
		for (int negative = 0; negative < 2 && oracle->n != 0 && thresholds[negative].n == 0; negative++)
			thresholds_init(&thresholds[negative], oracle, rounding, negative != 0);
		report(choice, name, exhaustive_f32(c, oracle, thresholds), &start);
	}
	for (int negative = 0; negative < 2; negative++)
		thresholds_clear(&thresholds[negative]);
}

/* Whether the mode is chosen and is not the same as another. */
static bool is_wanted(const struct choice *choice, const struct mxfp_format_info *to, int mode, int overflow)
{
	return matches(choice->round, mxfp_option_name(MXFP_OPTION_ROUND, mode)) &&
	       matches(choice->overflow, mxfp_option_name(MXFP_OPTION_OVERFLOW, overflow)) &&
	       (overflow == MXFP_OVERFLOW_SAT || oracle_has_overflow_modes(to)) &&
	       (mode == MXFP_ROUND_RNE || to->format != MXFP_FORMAT_F32);
}

static void run_from_f32(const struct choice *choice, struct exhaustive_case *tiers, size_t n_tiers)
{
	struct oracle oracle;

	oracle_init(&oracle, tiers->dst_format);
	for (int mode = MXFP_ROUND_RNE; mode <= MXFP_ROUND_SR; mode++)
		for (int overflow = MXFP_OVERFLOW_SAT; overflow <= MXFP_OVERFLOW_OVF; overflow++) {
			const struct mxfp_rounding rounding = {
				.mode = (enum mxfp_round)mode,
				.overflow = (enum mxfp_overflow)overflow,
			};
			if (is_wanted(choice, oracle.format, mode, overflow))
				run_mode(choice, tiers, n_tiers, &oracle, &rounding);
		}
	oracle_clear(&oracle);
}

static void run_from_narrow(const struct choice *choice, struct exhaustive_case *tiers, size_t n_tiers)
{
	struct timespec start;
	char name[100];

	for (struct exhaustive_case *c = tiers; c < tiers + n_tiers; c++) {
		name_case(c, name, sizeof name);
		if (c->table->convert[c->dst_format][c->src_format] == c->reference->convert[c->dst_format][c->src_format] ||
		    choice->round != NULL || choice->overflow != NULL || is_recorded(choice, name))
			continue;
		clock_gettime(CLOCK_MONOTONIC, &start);
		report(choice, name, exhaustive_narrow(c), &start);
	}
}

static void run_nvfp4(const struct choice *choice, const struct exhaustive_case *tiers, size_t n_tiers)
{
	size_t every = choice->every != NULL ? strtoul(choice->every, NULL, 10) : 1;
	const char *recipe;
	struct timespec start;
	char name[100];

	for (int r = 0; (recipe = mxfp_option_name(MXFP_OPTION_RECIPE, r)) != NULL; r++)
		for (const struct exhaustive_case *c = tiers; c < tiers + n_tiers; c++) {
			snprintf(name, sizeof name, "%s nvfp4 %s, scales, 1 in %zu:", c->tier, recipe, every);
			if (c->table->quantize[MXFP_FORMAT_NVFP4] == c->reference->quantize[MXFP_FORMAT_NVFP4] ||
			    (!matches(choice->recipe, recipe) && !matches(choice->recipe, "all")) || is_recorded(choice, name))
				continue;
			clock_gettime(CLOCK_MONOTONIC, &start);
			report(choice, name, exhaustive_nvfp4(c, (enum mxfp_recipe)r, every), &start);
		}
}

static void run_functions(const struct choice *choice, const struct exhaustive_case *tiers, size_t n_tiers)
{
	size_t every = choice->every != NULL ? strtoul(choice->every, NULL, 10) : 1;
	const char *function;
	struct timespec start;
	char name[100];

	for (int f = 0; (function = mxfp_option_name(MXFP_OPTION_FUNCTION, f)) != NULL; f++)
		for (const struct exhaustive_case *c = tiers; c < tiers + n_tiers; c++) {
			snprintf(name, sizeof name, "%s function %s, 1 in %zu:", c->tier, function, every);
			if ((c->table->apply[f] == c->reference->apply[f] && c->table != c->reference) ||
			    (!matches(choice->function, function) && !matches(choice->function, "all")) ||
			    is_recorded(choice, name))
				continue;
			clock_gettime(CLOCK_MONOTONIC, &start);
			report(choice, name, exhaustive_function(c, (enum mxfp_function)f, every), &start);
		}
}

static bool is_element(const char *wanted, int format)
{
	const struct mxfp_format_info *f = mxfp_format_get_info((enum mxfp_format)format);

	return f->kind != MXFP_KIND_BLOCK && matches(wanted, f->name);
}

static void run(const struct choice *choice, struct exhaustive_case *tiers, size_t n_tiers)
{
	for (int from = 0; from < MXFP_N_FORMATS; from++)
		for (int to = 0; to < MXFP_N_FORMATS; to++) {
			if (!is_element(choice->from, from) || !is_element(choice->format, to))
				continue;
			for (size_t i = 0; i < n_tiers; i++) {
				tiers[i].src_format = (enum mxfp_format)from;
				tiers[i].dst_format = (enum mxfp_format)to;
			}
			(from == MXFP_FORMAT_F32 ? run_from_f32 : run_from_narrow)(choice, tiers, n_tiers);
		}
}

/* The tables of the chosen tiers, the reference's last: it takes longest. */
static size_t make_tiers(const struct choice *choice, struct mxfp_kernels *table, struct exhaustive_case *tiers)
{
	size_t n = 0;
	int last = 0;

	for (; mxfp_isa_name(last) != NULL; last++)
		if (mxfp_isa_available() >> last & 1) /* what fills a table may itself need the tier's instructions */
			mxfp_kernels_init(&table[last], UINT32_C(1) << last);
	for (int i = last - 1; i >= 0; i--)
		if (mxfp_isa_available() >> i & 1 && matches(choice->tier, mxfp_isa_name(i)))
			tiers[n++] = (struct exhaustive_case){
				.tier = mxfp_isa_name(i),
				.table = &table[i],
				.reference = &table[0],
				.workers = choice->workers != NULL ? (unsigned)strtoul(choice->workers, NULL, 10) : 2,
			};
	return n;
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

int main(int argc, char **argv)
{
	static struct mxfp_kernels table[32];
	struct exhaustive_case tiers[32];
	struct choice choice = {0};

	(void)argc;
	if (!parse(&choice, argv + 1) || (choice.every != NULL && strtoul(choice.every, NULL, 10) == 0))
		return usage();
	size_t n_tiers = make_tiers(&choice, table, tiers);
	bool of_conversions = choice.from != NULL || choice.format != NULL || choice.round != NULL || choice.overflow != NULL;
	if (choice.recipe == NULL && choice.function == NULL)
		run(&choice, tiers, n_tiers);
	if (!of_conversions && choice.function == NULL)
		run_nvfp4(&choice, tiers, n_tiers);
	if (!of_conversions && choice.recipe == NULL)
		run_functions(&choice, tiers, n_tiers);
	mpfr_free_cache();
	printf("cases: %u, and %u in the record\ninputs compared: %" PRIu64 "\npieces of 65536 inputs with a mismatch: %"
	       PRIu64 "\n", total.n_run, total.n_recorded, total.n_inputs, total.n_wrong_pieces);
	return total.n_run + total.n_recorded == 0 ? usage() : total.n_wrong_pieces != 0;
}
