/* SPDX-License-Identifier: MIT */
/*
 * The clock. Kernel and limits take turns, so a slow phase of the machine falls on both; figures are medians of the
 * rounds with the distance of the quartiles. One thread is timed by its processor time, which leaves out what other
 * processes take, more threads by the time that passes. In DRAM each turn takes the next part of a ring that is longer
 * than the caches, so no part is still there when its turn comes again.
 */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "bench.h"

enum {
	CHUNK = 1 << 22, /* elements of a turn in DRAM: a millisecond or two */
	CLOCK_STEPS = 20000,
	ROUNDS_MIN = 3
};

/* Seconds of a turn in L2; seconds after which a slow kernel has had rounds enough. */
static const double turn_seconds = 2e-4, case_seconds = 2;

static double now(unsigned threads)
{
	struct timespec t;

	clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds that `times` runs take. */
static double timed(void (*run)(const struct bench_work *work), const struct bench_work *work, unsigned times)
{
	const double start = now(work->threads);

	for (unsigned i = 0; i < times; i++)
		run(work);
	return now(work->threads) - start;
}

/* Seconds an element, in one turn in the next place. */
static double turn(void (*run)(const struct bench_work *work), struct bench_work *work, unsigned times, size_t ring)
{
	work->start = (work->start + work->n) % ring;
	return timed(run, work, times) / times / (double)work->n;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct bench_time summary(double *samples, unsigned n)
{
	qsort(samples, n, sizeof *samples, compare);
	const double median = samples[n / 2];
	return (struct bench_time){median, (samples[n - 1 - n / 4] - samples[n / 4]) / median};
}

/* How often to run in one turn; also warms up. */
static unsigned calibrate(void (*run)(const struct bench_work *work), const struct bench_work *work)
{
	unsigned times = 1;

	while (times < 1u << 20 && timed(run, work, times) < turn_seconds)
		times *= 2;
	return times;
}

/* Elements whose bytes, read and written, are BENCH_L2_BYTES a thread: whole rows. */
static size_t l2_elements(const struct bench_work *work)
{
	const struct bench_case *c = work->c;
	const size_t row = bench_bytes(c->src, BENCH_COLS) + (c->op == BENCH_SCAN ? 0 : bench_bytes(c->dst, BENCH_COLS));

	return work->threads * (BENCH_L2_BYTES / row) * BENCH_COLS;
}

double bench_clock(void)
{
	/* Volatile, so that the compiler does not know the factor, which would let it take shorter ways. */
	volatile uint64_t factor = 0x5851F42D4C957F2D;
	const uint64_t a = factor;
	uint64_t x = a;
	const double start = now(1);

	for (unsigned i = 0; i < CLOCK_STEPS; i++)
		x *= a;
	factor = x;
	return 3e-9 * CLOCK_STEPS / (now(1) - start);
}

/* Sets how much is done in a turn, and returns the length of the ring that the turns go round. */
static size_t set_turn(struct bench_work *work, enum bench_place place)
{
	work->start = 0;
	if (place == BENCH_L2)
		return work->n = l2_elements(work);
	if (bench_reads_twice(work->c))
		return work->n = work->data->n;
	/* A power of 2 of parts, so that each of the three that take turns comes to every part. */
	work->n = CHUNK;
	return work->data->n;
}

struct bench_result bench_measure(struct bench_work *work, enum bench_place place, unsigned rounds)
{
	double kernel[BENCH_ROUNDS_MAX], limit[BENCH_ROUNDS_MAX], past[BENCH_ROUNDS_MAX], clock[BENCH_ROUNDS_MAX];
	const size_t ring = set_turn(work, place);
	const double start = now(work->threads);
	unsigned kernel_times = 1, limit_times = 1, i = 0;

	if (place == BENCH_L2) {
		kernel_times = calibrate(bench_run, work);
		limit_times = calibrate(bench_run_limit, work);
	}
	for (; i < rounds && (i < ROUNDS_MIN || now(work->threads) - start < case_seconds); i++) {
		limit[i] = turn(bench_run_limit, work, limit_times, ring);
		kernel[i] = turn(bench_run, work, kernel_times, ring);
		past[i] = place == BENCH_DRAM ? turn(bench_run_limit_past, work, 1, ring) : 0;
		clock[i] = bench_clock();
	}
	return (struct bench_result){
		.kernel = summary(kernel, i),
		.limit = summary(limit, i),
		.past = place == BENCH_DRAM ? summary(past, i) : (struct bench_time){0},
		.clock_ghz = summary(clock, i).median,
	};
}
