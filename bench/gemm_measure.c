/* SPDX-License-Identifier: MIT */
/* Times a product, OpenBLAS and limits in turns: measure.c says why. */
#include "config.h"

#include <string.h>

#include "gemm_bench.h"
#include "speed.h"

enum { ROUNDS_MIN = 3 };

/* The least seconds of a turn. */
static const double turn_seconds = 1e-3;

/* What is run in turns. */
typedef void run_gemm(struct bench_gemm_data *data, unsigned threads);

/* Moves on to the next copy of the weights. */
static const uint8_t *next(struct bench_ring *ring)
{
	ring->next = (ring->next + 1) % ring->n;
	return ring->memory + ring->next * ring->step;
}

static void run(struct bench_gemm_data *data, const struct mxfp_product *products, size_t n, unsigned threads)
{
	const struct mxfp_exec exec = {.size = sizeof exec, .threads = threads, .isa = data->isa};
	struct mxfp_gemm_options options = data->options;

	if (products == &data->dense)
		options.activation = MXFP_FUNCTION_IDENTITY;
	(void)mxfp_gemm_grouped(NULL, products, n, &options, data->workspace, data->workspace_bytes, &exec);
}

static void run_products(struct bench_gemm_data *data, unsigned threads)
{
	if (data->n_products == 1)
		data->products[0].w_packed = next(&data->weights);
	run(data, data->products, data->n_products, threads);
}

static void run_dense(struct bench_gemm_data *data, unsigned threads)
{
	data->dense.w_packed = next(&data->dense_weights);
	run(data, &data->dense, 1, threads);
}

static void run_sgemm(struct bench_gemm_data *data, unsigned threads)
{
	const struct bench_gemm_shape *s = data->shape;

	bench_sgemm(s->m, s->n, s->k, data->a, data->w, data->c_values, threads);
}

static void run_read(struct bench_gemm_data *data, unsigned threads)
{
	bench_read(data->read, next(&data->weights), data->weights.bytes / LIMIT_LINE_BYTES, threads);
}

/* A participant; skipped if `run` is NULL. */
struct turn {
	run_gemm *run;
	unsigned threads, times;
	double samples[BENCH_ROUNDS_MAX];
};

static double timed(const struct turn *turn, struct bench_gemm_data *data, clockid_t clock)
{
	const double start = bench_now(clock);

	for (unsigned i = 0; i < turn->times; i++)
		turn->run(data, turn->threads);
	return bench_now(clock) - start;
}

/* Warms up and finds how many runs make a turn. */
static void calibrate(struct turn *turn, struct bench_gemm_data *data, clockid_t clock)
{
	turn->times = 1;
	while (turn->run != NULL && turn->times < 1u << 20 && timed(turn, data, clock) < turn_seconds)
		turn->times *= 2;
}

static struct bench_time summary(struct turn *turn, unsigned rounds)
{
	return turn->run != NULL ? bench_summary(turn->samples, rounds) : (struct bench_time){0};
}

/* Operations per second; 0 without a loop. */
static double peak(bench_peak_loop *loop)
{
	const double start = bench_now(CLOCK_THREAD_CPUTIME_ID), operations = loop != NULL ? loop() : 0;

	return operations / (bench_now(CLOCK_THREAD_CPUTIME_ID) - start);
}

const struct bench_peak *bench_peak_of_tier(const char *isa)
{
#define BENCH_TIER(name) \
	if (strcmp(isa, #name) == 0) \
		return &peak_##name;
#include "tier.def"
	return &peak_ref;
}

static bench_peak_loop *peak_loop(const struct bench_gemm_data *data)
{
	const struct bench_peak *found = bench_peak_of_tier(data->isa);

	return data->c->acc == MXFP_ACC_EXACT ? found->dot : found->fma;
}

struct bench_gemm_result bench_gemm_measure(struct bench_gemm_data *data, double seconds)
{
	enum { PRODUCTS, SGEMM, DENSE, ONE, READ, TURNS };
	const unsigned threads = data->exec.threads;
	const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
	struct turn turns[TURNS] = {
		[PRODUCTS] = {.run = run_products, .threads = threads},
		[SGEMM] = {.run = bench_sgemm_name() != NULL ? run_sgemm : NULL, .threads = threads},
		[DENSE] = {.run = data->dense_weights.n != 0 ? run_dense : NULL, .threads = threads},
		[ONE] = {.run = threads != 1 ? run_products : NULL, .threads = 1},
		[READ] = {.run = data->shape->m == 1 ? run_read : NULL, .threads = threads},
	};
	double peaks[BENCH_ROUNDS_MAX];
	unsigned i = 0;

	data->read = bench_limits_of_tier(data->isa)[0].run;
	for (int t = 0; t < TURNS; t++)
		calibrate(&turns[t], data, clock);
	const double start = bench_now(clock);
	for (; i < BENCH_ROUNDS_MAX && (i < ROUNDS_MIN || bench_now(clock) - start < seconds); i++) {
		for (int t = 0; t < TURNS; t++)
			if (turns[t].run != NULL)
				turns[t].samples[i] = timed(&turns[t], data, clock) / turns[t].times;
		peaks[i] = peak(peak_loop(data));
	}
	return (struct bench_gemm_result){
		.kernel = summary(&turns[PRODUCTS], i),
		.sgemm = summary(&turns[SGEMM], i).median,
		.dense = summary(&turns[DENSE], i).median,
		.one = summary(&turns[ONE], i).median,
		.read = summary(&turns[READ], i).median,
		.peak = threads * bench_summary(peaks, i).median,
		.packed_bytes = data->weights.bytes,
	};
}
