/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "turns.h"

#include "samples.h"

enum { PAIRS_MAX = 1024, PAIRS_MIN = 5, TIMES_MAX = 1 << 20 };

/* The least seconds of a turn. */
static const double turn_seconds = 1.5e-3;

/* Finds how many times the work is done in a turn, the same for both; warms up. Returns 0 if it fails. */
static unsigned calibrate(const struct turns *turns)
{
	unsigned times = 1;

	for (;;) {
		const double old_seconds = turns->run(turns->context, OLD, times);
		const double new_seconds = turns->run(turns->context, NEW, times);

		if (old_seconds < 0 || new_seconds < 0)
			return 0;
		if (old_seconds + new_seconds >= 2 * turn_seconds || times >= TIMES_MAX)
			return times;
		/* Too little to be measured well, so not more than eight times as often at once. */
		const double wanted = 2.2 * turn_seconds / (old_seconds + new_seconds + 1e-9);
		times *= wanted < 2 ? 2 : wanted > 8 ? 8 : (unsigned)wanted;
	}
}

struct turns_result turns_measure(const struct turns *turns, unsigned pairs, double seconds)
{
	double ratios[PAIRS_MAX], sides[N_SIDES][PAIRS_MAX];
	const double start = bench_now(CLOCK_MONOTONIC);
	const unsigned times = calibrate(turns);
	unsigned n = 0;

	if (times == 0)
		return (struct turns_result){0};
	for (; n < pairs && n < PAIRS_MAX && (n < PAIRS_MIN || bench_now(CLOCK_MONOTONIC) - start < seconds); n++) {
		const int first = n % 2 == 0 ? OLD : NEW;

		for (int i = 0; i < N_SIDES; i++) {
			const int side = i == 0 ? first : N_SIDES - 1 - first;
			const double taken = turns->run(turns->context, side, times);
			if (taken <= 0)
				return (struct turns_result){0};
			sides[side][n] = taken / times;
		}
		ratios[n] = sides[OLD][n] / sides[NEW][n];
	}
	return (struct turns_result){
		.ratio = bench_summary(ratios, n).median,
		.seconds = {bench_summary(sides[OLD], n).median, bench_summary(sides[NEW], n).median},
		.pairs = n,
	};
}
