/* SPDX-License-Identifier: MIT */
/* The rows of two shared objects, listed and timed, in a process a tier: libraries read MXFP_ISA once. */
#ifndef BENCH_COMPARE_OBJECTS_H
#define BENCH_COMPARE_OBJECTS_H

#include "table.h"

/* The two objects and the memory that they work on. */
struct objects {
	const char *paths[N_SIDES];
	float *numbers[SPEED_N_NUMBERS]; /* made when a row of this process asks for them */
	bool has[SPEED_N_NUMBERS];
	void *results;
	unsigned char *arenas[N_SIDES]; /* what a row of a side allocates */
};

/* Reserves the memory. Returns false if there is none. */
bool objects_make(struct objects *objects);

/* Lists tiers, and the rows whose names contain one of the n texts, or all if n is 0, in the order of the new side. Returns
   false, with a line on stderr, if an object cannot be opened. */
bool objects_list(struct objects *objects, struct table *table, char *const *texts, int n);

/* Times what is to be timed at a tier until `end`, a time of CLOCK_MONOTONIC; what is too low is measured again. */
void objects_time(struct objects *objects, struct table *table, size_t tier, double end);

#endif
