/* SPDX-License-Identifier: MIT */
/* What the machine can do at most, for programs that compare their own work with it: `mxfp eval --profile`. */
#ifndef BENCH_SPEED_H
#define BENCH_SPEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit.h"

struct bench_speed {
	double operations; /* a second, two each fused multiply-add of binary32 in registers; 0: the tier has no vectors */
	double bytes;      /* a second, by a loop that reads */
};

/* The best of a few rounds, a fraction of a second, on all threads at once, 0: one a processor; the loop reads memory of at
   least so many bytes, over and over. False: there is no memory. */
bool bench_speed(struct bench_speed *speed, unsigned threads, size_t bytes);

/* Reads lines of memory on all threads. */
void bench_read(limit_loop *run, const uint8_t *from, size_t lines, unsigned threads);

#endif
