/* SPDX-License-Identifier: MIT */
/* Times products of other libraries in the shapes of `mxfp bench --op gemm`: C = A W^T, W of 4096 x 4096, in whatever
   order the library likes, made before; medians, of processor time on one thread and of wall-clock time on several. */
#ifndef BENCH_PEERS_PRODUCT_H
#define BENCH_PEERS_PRODUCT_H

#include "peer.h"

enum { PRODUCT_N = PEER_COLS, PRODUCT_K = PEER_COLS, PRODUCT_M_MAX = 512 };

static const int product_rows[] = {1, 4, 16, 512};
static const int product_threads[] = {1, 2};
#define PRODUCT_COUNT(array) (sizeof(array) / sizeof(array)[0])

/* How long a row of the table takes. */
static const double product_seconds = 0.4;

typedef void product_work(void *context);

static inline double product_now(int threads)
{
	struct timespec t;

	clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Prints the median of at least three turns, of one product each. */
static inline void product_time(const char *library, const char *name, int m, int threads, product_work *run,
                                void *context)
{
	enum { TURNS_MAX = 1001 };
	static double seconds[TURNS_MAX];
	int n = 0;

	run(context);
	for (const double start = product_now(threads); n < TURNS_MAX && (n < 3 || product_now(threads) - start < product_seconds);
	     n++) {
		const double begin = product_now(threads);
		run(context);
		seconds[n] = product_now(threads) - begin;
	}
	qsort(seconds, (size_t)n, sizeof *seconds, peer_compare);
	printf("%-9s %-24s %3dx%dx%d  %d thread%s %8.1f GFLOP/s, spread %.1f %%\n", library, name, m, PRODUCT_N, PRODUCT_K,
	       threads, threads == 1 ? " " : "s", 2e-9 * m * PRODUCT_N * PRODUCT_K / seconds[n / 2],
	       100 * (seconds[n * 3 / 4] - seconds[n / 4]) / seconds[n / 2]);
	fflush(stdout);
}

/* Rows of normals, each the same one from another place on, so that no two rows are equal. */
static inline float *product_numbers(int rows)
{
	float row[2 * PEER_COLS], *numbers = malloc((size_t)rows * PEER_COLS * sizeof *numbers);

	if (numbers == NULL)
		exit(1);
	peer_normals(row);
	memcpy(row + PEER_COLS, row, PEER_COLS * sizeof *row);
	for (int i = 0; i < rows; i++)
		memcpy(numbers + (size_t)i * PEER_COLS, row + i % PEER_COLS, PEER_COLS * sizeof *row);
	return numbers;
}

#endif
