/* SPDX-License-Identifier: MIT */
/* Times another library as `mxfp bench` times this one: on 512 KiB read and written, and on 1 GiB of f32, the next
   64 MiB in each turn; medians, on one thread. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	PEER_COLS = 4096,
	PEER_DRAM = 1 << 28,
	PEER_CHUNK = 1 << 24,
	PEER_L2_BYTES = 512 << 10,
	PEER_ROUNDS = 9
};

/* Converts n elements, whole rows of PEER_COLS, from src to dst. */
typedef void peer_work(void *dst, const void *src, size_t n, void *context);

/* A case. Bytes are those of PEER_COLS elements. `src` holds PEER_COLS elements, which are repeated. */
struct peer {
	const char *library, *name;
	size_t src_bytes, dst_bytes;
	const void *row;
	peer_work *run;
	void *context;
};

/* Processor time, which excludes other processes. */
static inline double peer_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int peer_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Prints the median of turns. Each converts n elements `times` times, the next n of `total` elements. */
static inline void peer_turns(const struct peer *peer, const char *place, char *dst, const char *src, size_t n,
                              size_t total, unsigned times)
{
	double seconds[PEER_ROUNDS];
	size_t start = 0;

	for (int i = 0; i < PEER_ROUNDS; i++, start = (start + n) % total) {
		const double begin = peer_now();
		for (unsigned k = 0; k < times; k++)
			peer->run(dst + start / PEER_COLS * peer->dst_bytes, src + start / PEER_COLS * peer->src_bytes,
			          n, peer->context);
		seconds[i] = (peer_now() - begin) / times;
	}
	qsort(seconds, PEER_ROUNDS, sizeof *seconds, peer_compare);
	printf("%-9s %-16s %-5s %8.2f GB/s, spread %.1f %%\n", peer->library, peer->name, place,
	       4e-9 * (double)n / seconds[PEER_ROUNDS / 2],
	       100 * (seconds[PEER_ROUNDS * 3 / 4] - seconds[PEER_ROUNDS / 4]) / seconds[PEER_ROUNDS / 2]);
	fflush(stdout);
}

/* Times a case in L2 and in DRAM; dst and src are memory from peer_memory(). */
static inline void peer_time(const struct peer *peer, char *dst, char *src)
{
	const size_t l2 = PEER_L2_BYTES / (peer->src_bytes + peer->dst_bytes) * PEER_COLS;
	unsigned times = 1;

	for (size_t row = 0; row < PEER_DRAM / PEER_COLS; row++)
		memcpy(src + row * peer->src_bytes, peer->row, peer->src_bytes);
	for (double seconds = 0; seconds < 2e-3 && times < 1 << 16; times *= 2) {
		const double begin = peer_now();
		for (unsigned k = 0; k < times; k++)
			peer->run(dst, src, l2, peer->context);
		seconds = peer_now() - begin;
	}
	peer_turns(peer, "L2", dst, src, l2, l2, times);
	peer_turns(peer, "DRAM", dst, src, PEER_CHUNK, PEER_DRAM, 1);
}

/* Allocates and touches memory for PEER_DRAM elements of 4 bytes; exits if there is none. */
static inline char *peer_memory(void)
{
	char *memory = aligned_alloc(4096, (size_t)PEER_DRAM * 4);

	if (memory == NULL) {
		fprintf(stderr, "no memory for 1 GiB\n");
		exit(1);
	}
	memset(memory, 0, (size_t)PEER_DRAM * 4);
	return memory;
}

/* A row of standard normals, by the Box-Muller transform. */
static inline void peer_normals(float *row)
{
	srand(1);
	for (int i = 0; i < PEER_COLS; i++) {
		const double u = (rand() + 1.0) / (RAND_MAX + 1.0), v = rand() / (RAND_MAX + 1.0);
		row[i] = (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
	}
}

#endif
