/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "speed.h"

#include <stdlib.h>
#include <string.h>

#include "gemm_bench.h"
#include "internal.h"

enum { ROUNDS = 11, PIECES = 64, BYTES_MIN = 1 << 18 };

/* The least seconds of a round. */
static const double round_seconds = 2e-3;

struct reading {
	limit_loop *run;
	const uint8_t *from;
	size_t lines;
};

static void read_piece(void *context, size_t piece)
{
	const struct reading *r = context;
	const size_t start = piece * r->lines / PIECES, end = (piece + 1) * r->lines / PIECES;
	uint64_t sum;

	r->run(&sum, r->from + start * LIMIT_LINE_BYTES, end - start);
}

void bench_read(limit_loop *run, const uint8_t *from, size_t lines, unsigned threads)
{
	struct reading r = {run, from, lines};

	mxfp_parallel_for(&(struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = threads}, PIECES, read_piece, &r);
}

struct computing {
	bench_peak_loop *run;
	double operations[PIECES];
};

static void compute_piece(void *context, size_t piece)
{
	struct computing *c = context;

	c->operations[piece] = c->run();
}

static double compute(struct computing *c, unsigned threads)
{
	double sum = 0;

	mxfp_parallel_for(&(struct mxfp_exec){.size = sizeof(struct mxfp_exec), .threads = threads}, PIECES, compute_piece, c);
	for (int i = 0; i < PIECES; i++)
		sum += c->operations[i];
	return sum;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

bool bench_speed(struct bench_speed *speed, unsigned threads, size_t bytes)
{
	const char *isa = mxfp_isa_name(mxfp_isa_active());
	const size_t lines = (bytes > BYTES_MIN ? bytes : BYTES_MIN) / LIMIT_LINE_BYTES;
	limit_loop *read = bench_limits_of_tier(isa)[0].run;
	struct computing c = {.run = bench_peak_of_tier(isa)->fma};
	uint8_t *memory = malloc(lines * LIMIT_LINE_BYTES);

	*speed = (struct bench_speed){0};
	if (memory == NULL)
		return false;
	memset(memory, 1, lines * LIMIT_LINE_BYTES);
	for (int i = 0; i < ROUNDS; i++) {
		double start = bench_now(CLOCK_MONOTONIC), seconds, done = 0;

		do {
			bench_read(read, memory, lines, threads);
			done += (double)lines * LIMIT_LINE_BYTES;
			seconds = bench_now(CLOCK_MONOTONIC) - start;
		} while (seconds < round_seconds);
		speed->bytes = larger(speed->bytes, done / seconds);
		start = bench_now(CLOCK_MONOTONIC);
		if (c.run != NULL) {
			done = compute(&c, threads);
			speed->operations = larger(speed->operations, done / (bench_now(CLOCK_MONOTONIC) - start));
		}
	}
	free(memory);
	return true;
}
