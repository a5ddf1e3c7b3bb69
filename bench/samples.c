/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "samples.h"

#include <stdlib.h>

double bench_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct bench_time bench_summary(double *samples, unsigned n)
{
	qsort(samples, n, sizeof *samples, compare);
	const double median = samples[n / 2];
	return (struct bench_time){median, (samples[n - 1 - n / 4] - samples[n / 4]) / median};
}
