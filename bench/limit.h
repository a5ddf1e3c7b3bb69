/* SPDX-License-Identifier: MIT */
/* Plain loops that read and write bytes in the ratios of limit.def: see limits.c. */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include <stddef.h>
#include <stdint.h>

enum { LIMIT_LINE_BYTES = 64 };

typedef void limit_loop(void *dst, const void *src, size_t n_steps);

struct limit {
	unsigned in, out;     /* cache lines read and written in a step; out 0: reads, and writes 8 bytes at the end */
	limit_loop *run;      /* with ordinary stores */
	limit_loop *run_past; /* with stores past the caches; dst is aligned to lines */
};

/* One table per tier. Its first row only reads, and the last has no function. */
#define BENCH_TIER(name) extern const struct limit limits_##name[];
#include "tier.def"

#endif
