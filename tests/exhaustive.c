/* SPDX-License-Identifier: MIT */
/*
 * make check-exhaustive: all 2^32 binary32 inputs to every element format, rounding mode and overflow mode, against
 * the intervals of equal codes that MPFR gives (thresholds.h); codes and counts. Stochastic rounding, whose result
 * depends on the index too, is tried on samples by test_convert. Where an option cannot matter it is run once: the
 * overflow mode of formats that always overflow or always saturate, the rounding mode of f32 itself.
 *
 * --format F, --round M and --overflow O choose a part; --workers N the threads (2).
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "parallel.h"
#include "thresholds.h"

enum {
	PIECE = 1 << 16,
	N_PIECES = 1 << 16,
	N_GROUPS = 64, /* between two lines of progress */
	N_SHOWN = 10   /* mismatches in a case */
};

#define F32_SIGN UINT32_C(0x80000000)
#define F32_INF UINT32_C(0x7F800000)

struct choice {
	const char *format, *round, *overflow;
	unsigned workers;
};

/* One format, mode and overflow mode. */
struct sweep {
	struct oracle oracle;
	struct mxfp_rounding rounding;
	struct thresholds thresholds[2]; /* by sign; none for f32 */
	size_t first_piece;
	atomic_uint *n_mismatches;
};

static _Thread_local uint32_t numbers[PIECE];
static _Thread_local uint32_t codes[PIECE]; /* of any width */

static uint32_t stored(const struct mxfp_format_info *f, size_t i)
{
	uint16_t half;

	if (f->storage_bytes == 1)
		return ((const uint8_t *)codes)[i];
	if (f->storage_bytes == 4)
		return codes[i];
	memcpy(&half, (const uint8_t *)codes + 2 * i, sizeof half);
	return half;
}

static void mismatch(const struct sweep *s, const char *what, uint32_t x, uint32_t code)
{
	if (atomic_fetch_add(s->n_mismatches, 1) < N_SHOWN)
		printf("%s %s %s: %s of %08" PRIX32 ": %" PRIX32 "\n", s->oracle.format->name,
		       mxfp_option_name(MXFP_OPTION_ROUND, (int)s->rounding.mode),
		       mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)s->rounding.overflow), what, x, code);
}

/* Index of the first wrong code of the piece, or PIECE. Zero, Inf and NaN are asked for one by one, as is all of
   f32. */
static size_t compare(const struct sweep *s, struct mxfp_counts *want)
{
	const struct mxfp_format_info *f = s->oracle.format;
	uint32_t first = numbers[0] & ~F32_SIGN;
	size_t alone = first == 0 ? 1 : first < F32_INF ? 0 : PIECE;

	if (s->oracle.n == 0)
		alone = PIECE;
	for (size_t i = 0; i < alone; i++)
		if (stored(f, i) != oracle_encode(&s->oracle, numbers[i], 0, &s->rounding, 0, want))
			return i;
	if (alone == PIECE)
		return PIECE;
	return alone + thresholds_mismatch(&s->thresholds[numbers[0] >> 31], f, first + (uint32_t)alone,
	                                   (const uint8_t *)codes + alone * f->storage_bytes, PIECE - alone, want);
}

static void run_piece(const void *context, size_t piece, struct mxfp_counts *unused)
{
	const struct sweep *s = context;
	struct mxfp_counts counts = {0}, want = {0};
	const struct mxfp_convert_job job = {
		.dst_format = s->oracle.format->format,
		.src_format = MXFP_FORMAT_F32,
		.dst = codes,
		.src = numbers,
		.n = PIECE,
		.rounding = s->rounding,
		.counts = &counts,
	};

	(void)unused;
	for (uint32_t i = 0; i < PIECE; i++)
		numbers[i] = (uint32_t)(s->first_piece + piece) * PIECE + i;
	mxfp_kernels_get()->convert[job.dst_format][job.src_format](&job);
	size_t wrong = compare(s, &want);
	if (wrong < PIECE)
		mismatch(s, "code", numbers[wrong], stored(s->oracle.format, wrong));
	else if (memcmp(&counts, &want, sizeof want) != 0)
		mismatch(s, "counts from", numbers[0], PIECE);
}

static double seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* All inputs of one case; the number of pieces with a mismatch. */
static unsigned run_case(struct sweep *s, unsigned workers)
{
	atomic_uint n_mismatches = 0;
	struct timespec start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int negative = 0; negative < 2 && s->oracle.n != 0; negative++)
		thresholds_init(&s->thresholds[negative], &s->oracle, &s->rounding, negative != 0);
	s->n_mismatches = &n_mismatches;
	for (size_t group = 0; group < N_GROUPS; group++) {
		s->first_piece = group * (N_PIECES / N_GROUPS);
		mxfp_parallel_for(workers, NULL, N_PIECES / N_GROUPS, run_piece, s, NULL);
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r%s %zu/%d ", s->oracle.format->name, group + 1, N_GROUPS);
	}
	printf("%-8s %s %s: %" PRIu64 " inputs, %zu + %zu intervals, %u pieces wrong, %.1f s\n", s->oracle.format->name,
	       mxfp_option_name(MXFP_OPTION_ROUND, (int)s->rounding.mode),
	       mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)s->rounding.overflow), (uint64_t)PIECE * N_PIECES,
	       s->thresholds[0].n, s->thresholds[1].n, n_mismatches, seconds_since(&start));
	fflush(stdout);
	for (int negative = 0; negative < 2; negative++)
		thresholds_clear(&s->thresholds[negative]);
	return n_mismatches;
}

static int matches(const char *wanted, const char *name)
{
	return wanted == NULL || strcmp(wanted, name) == 0;
}

/* Whether the case is chosen and is not the same as another. */
static int is_run(const struct choice *c, const struct mxfp_format_info *f, enum mxfp_round mode,
                  enum mxfp_overflow overflow)
{
	return matches(c->format, f->name) && matches(c->round, mxfp_option_name(MXFP_OPTION_ROUND, (int)mode)) &&
	       matches(c->overflow, mxfp_option_name(MXFP_OPTION_OVERFLOW, (int)overflow)) &&
	       (overflow == MXFP_OVERFLOW_SAT || oracle_has_overflow_modes(f)) &&
	       (mode == MXFP_ROUND_RNE || f->format != MXFP_FORMAT_F32);
}

static void run_format(const struct choice *c, enum mxfp_format format, unsigned *n_cases, uint64_t *n_mismatches)
{
	struct sweep s = {0};

	oracle_init(&s.oracle, format);
	for (int mode = MXFP_ROUND_RNE; mode < MXFP_ROUND_SR; mode++)
		for (int overflow = MXFP_OVERFLOW_SAT; overflow <= MXFP_OVERFLOW_OVF; overflow++)
			if (is_run(c, s.oracle.format, (enum mxfp_round)mode, (enum mxfp_overflow)overflow)) {
				s.rounding.mode = (enum mxfp_round)mode;
				s.rounding.overflow = (enum mxfp_overflow)overflow;
				*n_mismatches += run_case(&s, c->workers);
				++*n_cases;
			}
	oracle_clear(&s.oracle);
}

static int usage(void)
{
	fputs("usage: exhaustive [--format F] [--round M] [--overflow sat|ovf] [--workers N]\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct choice c = {.workers = 2};
	unsigned n_cases = 0;
	uint64_t n_mismatches = 0;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			return usage();
		if (strcmp(argv[i], "--format") == 0)
			c.format = argv[i + 1];
		else if (strcmp(argv[i], "--round") == 0)
			c.round = argv[i + 1];
		else if (strcmp(argv[i], "--overflow") == 0)
			c.overflow = argv[i + 1];
		else if (strcmp(argv[i], "--workers") == 0)
			c.workers = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else
			return usage();
	}
	puts("Inputs: all of binary32. One overflow mode where it cannot matter; f32 in one mode; sr is in test_convert.");
	for (int f = 0; f < MXFP_N_FORMATS; f++)
		if (mxfp_format_info((enum mxfp_format)f)->kind != MXFP_KIND_BLOCK)
			run_format(&c, (enum mxfp_format)f, &n_cases, &n_mismatches);
	mpfr_free_cache();
	printf("cases: %u\ninputs compared: %" PRIu64 "\npieces of 65536 inputs with a mismatch: %" PRIu64 "\n", n_cases,
	       (uint64_t)n_cases * PIECE * N_PIECES, n_mismatches);
	return n_cases == 0 ? usage() : n_mismatches != 0;
}
