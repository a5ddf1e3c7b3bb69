/* SPDX-License-Identifier: MIT */
/* Samples of times. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <time.h>

/* The median of samples, and the distance of their quartiles over it. */
struct bench_time {
	double median, spread;
};

/* The time of a clock in seconds; the median and spread of n samples, which it sorts. */
double bench_now(clockid_t clock);
struct bench_time bench_summary(double *samples, unsigned n);

#endif
