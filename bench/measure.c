/* SPDX-License-Identifier: MIT */
/*
 * How times are measured. Kernel and limits take turns, so that a slow phase of the machine affects both; results are
 * medians over the rounds with the distance of the quartiles. One thread is timed by its processor time, which excludes
 * other processes, more threads by the time that passes. In DRAM each turn takes the next part of a ring larger than
 * the caches, so that no part is still in a cache when its turn comes again.
 */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "sleef_peer.h"

enum {
	CHUNK = 1 << 22, /* the least elements of a turn in DRAM: a millisecond or two */
	PAST_CACHES_BYTES = 32 << 20, /* MXFP_PAST_CACHES_BYTES of lib/kernels.h */
	CORE_BYTES = 16 << 10, /* smaller than any L1 */
	CORE_RUNS = 200,
	ROUNDS_MIN = 3
};

/* The least seconds of a turn in L2; the seconds after which a slow kernel gets no more rounds. */
static const double turn_seconds = 2e-4, case_seconds = 2;

typedef void run_work(const struct bench_work *work);

/* Each turn is `times` runs on the next part of the ring, whose size is in elements. */
struct turns {
	clockid_t clock;
	unsigned times;
	size_t ring;
};

/* The seconds of a turn. */
static double timed(run_work *run, const struct bench_work *work, const struct turns *turns)
{
	const double start = bench_now(turns->clock);

	for (unsigned i = 0; i < turns->times; i++)
		run(work);
	return bench_now(turns->clock) - start;
}

/* The seconds per element of a turn on the next part of the ring. */
static double turn(run_work *run, struct bench_work *work, const struct turns *turns)
{
	work->start = (work->start + work->n) % turns->ring;
	return timed(run, work, turns) / turns->times / (double)work->n;
}

static double turn_of_one_thread(struct bench_work *work, const struct turns *turns)
{
	const unsigned threads = work->threads;

	work->threads = 1;
	const double seconds = turn(bench_run, work, turns);
	work->threads = threads;
	return seconds;
}

/* Finds how many runs make a turn, and warms up. */
static struct turns calibrate(run_work *run, const struct bench_work *work, struct turns turns)
{
	while (turns.times < 1u << 20 && timed(run, work, &turns) < turn_seconds)
		turns.times *= 2;
	return turns;
}

/* The elements, in whole rows, for which each thread reads and writes BENCH_L2_BYTES; of squares, those nearest to that. */
static size_t l2_elements(const struct bench_work *work)
{
	const struct bench_case *c = work->c;
	const enum mxfp_format dst = bench_has_steps(c) && !c->squares ? MXFP_FORMAT_F32 : c->dst;
	const size_t row = bench_bytes(c->src, BENCH_COLS) + (c->op == BENCH_SCAN ? 0 : bench_bytes(dst, BENCH_COLS));

	if (c->squares)
		return work->threads * (BENCH_L2_BYTES / row + BENCH_SQUARE / 2) / BENCH_SQUARE * BENCH_SQUARE * BENCH_COLS;
	return work->threads * (BENCH_L2_BYTES / row) * BENCH_COLS;
}

double bench_core(const struct bench_data *data, const struct limit *limits)
{
	double start = 0;

	for (int i = -CORE_RUNS; i < CORE_RUNS; i++) {
		if (i == 0) /* the runs before warmed up */
			start = bench_now(CLOCK_THREAD_CPUTIME_ID);
		limits->run(data->dst, data->src, CORE_BYTES / LIMIT_LINE_BYTES);
	}
	return (bench_now(CLOCK_THREAD_CPUTIME_ID) - start) / CORE_RUNS / CORE_BYTES;
}

/* Sets the elements of a turn. Returns the elements of the ring. */
static size_t set_turn(struct bench_work *work)
{
	work->start = 0;
	if (work->place == BENCH_L2)
		return work->n = l2_elements(work);
	if (bench_reads_twice(work->c))
		return work->n = work->data->n;
	/* The number of parts is a power of 2, so that each of the three that take turns comes to every part. */
	const size_t width = mxfp_format_get_info(work->c->dst)->storage_bytes;
	work->n = work->c->op != BENCH_SCAN && width > 1 ? PAST_CACHES_BYTES / width : CHUNK;
	return work->data->n;
}

struct bench_result bench_measure(struct bench_work *work, unsigned rounds)
{
	double kernel[BENCH_ROUNDS_MAX], limit[BENCH_ROUNDS_MAX], other[BENCH_ROUNDS_MAX], core[BENCH_ROUNDS_MAX];
	double sleef[BENCH_ROUNDS_MAX], steps[BENCH_ROUNDS_MAX];
	const bool in_l2 = work->place == BENCH_L2, alone = work->threads == 1;
	const bool has_sleef = alone && in_l2 && work->c->op == BENCH_APPLY && !bench_has_steps(work->c) &&
	                       bench_sleef_has(work->isa, work->c->function);
	const bool has_steps = alone && bench_has_steps(work->c), past = alone && !in_l2 && !has_steps;
	const struct turns once = {alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, 1, set_turn(work)};
	const struct turns of_kernel = in_l2 ? calibrate(bench_run, work, once) : once;
	const struct turns of_limit = in_l2 ? calibrate(bench_run_limit, work, once) : once;
	const double start = bench_now(once.clock);
	unsigned i = 0;

	for (; i < rounds && (i < ROUNDS_MIN || bench_now(once.clock) - start < case_seconds); i++) {
		limit[i] = turn(bench_run_limit, work, &of_limit);
		kernel[i] = turn(bench_run, work, &of_kernel);
		other[i] = !alone ? turn_of_one_thread(work, &of_kernel) : past ? turn(bench_run_limit_past, work, &once) : 0;
		sleef[i] = has_sleef ? turn(bench_run_sleef, work, &of_kernel) : 0;
		steps[i] = has_steps ? turn(bench_run_steps, work, &of_kernel) : 0;
		core[i] = bench_core(work->data, work->limits);
	}
	return (struct bench_result){
		.kernel = bench_summary(kernel, i),
		.limit = bench_summary(limit, i),
		.other = !alone || past ? bench_summary(other, i) : (struct bench_time){0},
		.sleef = has_sleef ? bench_summary(sleef, i) : (struct bench_time){0},
		.steps = has_steps ? bench_summary(steps, i) : (struct bench_time){0},
		.core = bench_summary(core, i).median,
	};
}
