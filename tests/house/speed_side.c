/* SPDX-License-Identifier: MIT */
/* A commit without a library, for test_compare_speed.sh: rows that take a known time. SLOW: one takes twice as long; LESS:
   one is absent; OTHER: one has other results; DIES: one ends the process; VERSION: of another interface. */
#include <stdlib.h>
#include <string.h>

#include "side.h"

#ifndef VERSION
#define VERSION SPEED_SIDE
#endif

enum { STEPS = 20000 };

static const char *const rows[] = {"product steady", "product changed", "other kind", "product dies", "product gone"};

#ifdef LESS
enum { N_ROWS = sizeof rows / sizeof rows[0] - 1 };
#else
enum { N_ROWS = sizeof rows / sizeof rows[0] };
#endif

static bool name_row(size_t i, char name[SPEED_NAME_BYTES])
{
	if (i < N_ROWS)
		strcpy(name, rows[i]);
	return i < N_ROWS;
}

static void run(const struct speed_work *work, size_t turn)
{
	const int *steps = work->state;
	volatile size_t sum = turn;

	for (int i = 0; i < *steps; i++)
		sum = sum + 1;
}

static bool start_row(size_t i, const struct speed_host *host, struct speed_work *work)
{
	int *steps = host->allocate(sizeof *steps);

	*steps = STEPS;
#ifdef SLOW
	if (i == 1)
		*steps = 2 * STEPS;
#endif
#ifdef DIES
	if (i == 3)
		abort();
#endif
	*work = (struct speed_work){.run = run, .state = steps};
#ifdef OTHER
	if (i == 2)
		work->result_bytes = 8;
#endif
	return true;
}

static const char *find_tier(int i, const char **lacks)
{
	static const char *const names[] = {"ref", "avx2", "avx512"};

	*lacks = i == 2 ? "a feature" : NULL;
	return i < 3 ? names[i] : NULL;
}

static int active(void)
{
	return 1;
}

const struct speed_side *speed_side(void);

const struct speed_side *speed_side(void)
{
	static const struct speed_side side = {VERSION, name_row, start_row, find_tier, active};

	return &side;
}
