/* SPDX-License-Identifier: MIT */
/* The rows of a comparison and what was found, in memory that processes share. */
#ifndef BENCH_COMPARE_TABLE_H
#define BENCH_COMPARE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "side.h"
#include "turns.h"

enum { TABLE_ROWS_MAX = 1024, TABLE_TIERS_MAX = 8, TABLE_TEXT_BYTES = 160 };

enum finding {
	FINDING_NONE,    /* not reached: no time was left */
	FINDING_OTHER,   /* not to be timed at this tier */
	FINDING_MISSING, /* a side has no such row, or cannot do it */
	FINDING_TIMED
};

struct cell {
	enum finding finding;
	bool cannot[N_SIDES];       /* MISSING: who */
	bool died;                  /* MISSING: the process ended there */
	bool other_results;         /* the sides compute different bits */
	struct turns_result result; /* the last measurement */
	double first;               /* the ratio of the first one, if it had to be confirmed; 0: it had not */
	bool fallen;                /* both are too low, or there was no time for a second */
};

struct table_row {
	char name[SPEED_NAME_BYTES];
	int index[N_SIDES]; /* in each side's rows; -1: none. Of commands: which */
	bool command;
	struct cell cells[TABLE_TIERS_MAX];
};

struct table_tier {
	char name[16];
	bool timed, all_rows;
	char why[TABLE_TEXT_BYTES]; /* it is not timed */
};

struct table {
	const char *names[N_SIDES]; /* of the commits */
	double below;               /* ratios lower than this are too low */
	unsigned pairs;             /* at most, of a first measurement; half as many at lower tiers, more of a second one */
	size_t n_rows, n_tiers, now; /* now: the row at hand, if a process ends */
	struct table_row rows[TABLE_ROWS_MAX];
	struct table_tier tiers[TABLE_TIERS_MAX];
};

/* Writes all rows to a file, one a line. Returns false if it cannot. */
bool table_write(const struct table *table, const char *path);

/* Prints what is too low, what was not timed, and a summary. Returns the number of fallen cells. */
size_t table_report(const struct table *table, const char *machine, double seconds);

#endif
