/* SPDX-License-Identifier: MIT */
/*
 * Row operations on every tier and any number of threads give what the reference gives on one: results, blocks, counts, and
 * nothing beside them, in hostile floating-point states. MXFP_TEST_ROUNDS repeats the cases.
 */
#include <pthread.h>
#include <stdlib.h>

#include "equal/equal.h"
#include "equal/rows_case.h"
#include "body/fp_state.h"
#include "suite.h"

enum { SMALL_CASES = 1500, LONG_CASES = 40, WIDE_CASES = 3, MOST_THREADS = 7 };

static struct equal equal;
static struct rows_case c;
static struct rows_result want, got;

struct share {
	size_t n, first, step;
	void (*task)(void *argument, size_t i);
	void *argument;
};

static void *run_share(void *context)
{
	const struct share *share = context;

	for (size_t i = share->first; i < share->n; i += share->step)
		share->task(share->argument, i);
	return NULL;
}

/* The caller's threads, as many as *context says, whether or not there are so many processors. */
static void run_on_threads(void *context, size_t n, void (*task)(void *argument, size_t i), void *argument)
{
	const size_t threads = *(const size_t *)context;
	struct share shares[MOST_THREADS] = {{0}};
	pthread_t thread[MOST_THREADS];

	for (size_t t = 0; t < threads; t++) {
		shares[t] = (struct share){n, t, threads, task, argument};
		if (t != 0 && pthread_create(&thread[t], NULL, run_share, &shares[t]) != 0)
			abort();
	}
	run_share(&shares[0]);
	for (size_t t = 1; t < threads; t++)
		pthread_join(thread[t], NULL);
}

static void compare(const char *isa, size_t threads)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .isa = isa, .threads = 1, .run = threads > 1 ? run_on_threads : NULL,
	                               .run_context = &threads};
	const uint64_t before = fp_state_get();
	char text[300];

	fp_state_set(fp_state_hostile(random_below(&equal.random, FP_STATE_N_HOSTILE)));
	const enum mxfp_status status = rows_case_run(&c, &exec, &got);
	fp_state_set(before);
	rows_case_describe(&c, text, sizeof text);
	ck_assert_msg(status == MXFP_OK, "%s: %s", text, mxfp_status_text(status));
	ck_assert_msg(rows_result_equal(&c, &want, &got), "%s: %s, %zu threads differ from ref", text, isa, threads);
}

/* One case on all tiers; with 1 thread, or with each number. */
static void try_case(enum rows_op op, size_t rows, size_t cols, bool all_threads)
{
	static const size_t threads[] = {1, 2, 3, 7};
	const struct mxfp_exec one = {.size = sizeof one, .isa = "ref", .threads = 1};
	char text[300];

	rows_case_draw(&c, &equal.random, op, rows, cols);
	rows_case_describe(&c, text, sizeof text);
	const enum mxfp_status status = rows_case_run(&c, &one, &want);
	ck_assert_msg(status == MXFP_OK, "%s: %s", text, mxfp_status_text(status));
	for (size_t i = 0; i < (all_threads ? 4 : 1); i++) {
		if (i != 0)
			compare("ref", threads[i]);
		for (size_t t = 0; t < equal.n_tiers; t++)
			compare(equal.tier[t].name, threads[i]);
	}
	suite_compared(rows);
}

/* Lengths about every multiple of a vector, and shapes at random. */
TEST_LOOP(small_rows, ROWS_N_OPS)
{
	for (unsigned i = 0; i < suite_share(SMALL_CASES * equal.rounds); i++) {
		const bool few = random_below(&equal.random, 4) != 0;

		try_case((enum rows_op)_i, random_below(&equal.random, 5), random_below(&equal.random, few ? 40 : 200), false);
	}
}

/* Rows of more than a strip, up to 5000. */
TEST_LOOP(long_rows, ROWS_N_OPS)
{
	for (unsigned i = 0; i < suite_share(LONG_CASES * equal.rounds); i++)
		try_case((enum rows_op)_i, 1 + random_below(&equal.random, 2), 1 + random_below(&equal.random, 5000), false);
}

/* So many numbers that threads share them. */
TEST_LOOP(threads_share_rows, ROWS_N_OPS)
{
	for (unsigned i = 0; i < suite_share(WIDE_CASES * equal.rounds); i++) {
		const size_t cols = random_below(&equal.random, 2) == 0 ? 1 + random_below(&equal.random, 8) : 1 + random_below(&equal.random, 3000);

		try_case((enum rows_op)_i, (80000 + random_below(&equal.random, 60000)) / cols, cols, true);
	}
}

int main(void)
{
	rows_case_init(&c);
	rows_result_init(&want);
	rows_result_init(&got);
	return equal_main(&equal, NULL);
}
