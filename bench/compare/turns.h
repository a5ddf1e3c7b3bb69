/* SPDX-License-Identifier: MIT */
/* Two ways to do the same work, timed in turns. */
#ifndef BENCH_COMPARE_TURNS_H
#define BENCH_COMPARE_TURNS_H

#include <stdbool.h>
#include <stddef.h>

enum { OLD, NEW, N_SIDES };

/* What takes turns: side `side` does its work `times` times and returns the seconds of processor time, or a negative number if
   that failed. */
struct turns {
	double (*run)(void *context, int side, unsigned times);
	void *context;
};

struct turns_result {
	double ratio;            /* how many times as fast NEW is: the median over pairs of turns; 0: failed */
	double seconds[N_SIDES]; /* medians, of doing the work once */
	unsigned pairs;
};

/*
 * Old, new, new, old, and so on: neighbours are a pair, so that a slow phase of the machine falls on both, and each side is
 * the first of a pair as often as the second. Ends after `pairs` pairs, or once `seconds` have passed and there are a few.
 */
struct turns_result turns_measure(const struct turns *turns, unsigned pairs, double seconds);

#endif
