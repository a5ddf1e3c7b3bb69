/* SPDX-License-Identifier: MIT */
/* A function of one number at every binary32, NaN included, against oracle_function.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "oracle/exhaustive.h"
#include "oracle/oracle_function.h"

enum { PIECE = EXHAUSTIVE_PIECE, N_PIECES = 1 << 16, N_GROUPS = 64 /* between two signs of progress */ };

struct sweep {
	const struct exhaustive_case *tiers;
	size_t n_tiers;
	enum mxfp_function function;
	size_t first_piece, every;
	atomic_uint *n_wrong; /* by tier */
	atomic_uint *n_undecided;
};

static _Thread_local uint32_t numbers[PIECE], expected[PIECE], values[PIECE];

static void run_tier(const struct sweep *s, size_t tier, uint32_t parameter)
{
	const struct mxfp_apply_job job = {s->function, parameter, (const float *)numbers, (float *)values, PIECE};
	size_t i = 0;

	s->tiers[tier].table->apply[s->function](&job);
	if (memcmp(values, expected, sizeof values) == 0)
		return;
	while (values[i] == expected[i])
		i++;
	if (atomic_fetch_add(&s->n_wrong[tier], 1) < EXHAUSTIVE_N_SHOWN)
		printf("%s %s(%08" PRIX32 "): %08" PRIX32 " instead of %08" PRIX32 "\n", s->tiers[tier].tier,
		       mxfp_option_name(MXFP_OPTION_FUNCTION, (int)s->function), numbers[i], values[i], expected[i]);
}

static void run_piece(void *context, size_t piece)
{
	const struct sweep *s = context;
	uint32_t parameter = oracle_function_parameter(s->function);
	uint64_t n_undecided = 0;

	for (uint32_t i = 0; i < PIECE; i++) {
		numbers[i] = (uint32_t)((s->first_piece + piece) * s->every) * PIECE + i;
		expected[i] = oracle_function_fast(s->function, numbers[i], parameter, &n_undecided);
	}
	for (size_t tier = 0; tier < s->n_tiers; tier++)
		run_tier(s, tier, parameter);
	atomic_fetch_add(s->n_undecided, (unsigned)n_undecided);
}

void exhaustive_function(const struct exhaustive_case *tiers, size_t n, enum mxfp_function function, size_t every,
                         struct exhaustive_result *results)
{
	atomic_uint n_wrong[EXHAUSTIVE_MAX_TIERS] = {0}, n_undecided = 0;
	struct sweep s = {.tiers = tiers, .n_tiers = n, .function = function, .every = every, .n_wrong = n_wrong,
	                  .n_undecided = &n_undecided};
	size_t pieces = (N_PIECES + every - 1) / every, group = (pieces + N_GROUPS - 1) / N_GROUPS;

	for (; s.first_piece < pieces; s.first_piece += group) {
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r%zu/%zu ", s.first_piece, pieces);
		exhaustive_run(tiers, pieces - s.first_piece < group ? pieces - s.first_piece : group, run_piece, &s);
	}
	printf("%s: MPFR decided %u\n", mxfp_option_name(MXFP_OPTION_FUNCTION, (int)function), n_undecided);
	for (size_t tier = 0; tier < n; tier++)
		results[tier] = (struct exhaustive_result){(uint64_t)pieces * PIECE, n_wrong[tier]};
}
