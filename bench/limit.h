/* SPDX-License-Identifier: MIT */
/* Plain loops that move bytes in a ratio of limit.def: see limits.c. */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include <stddef.h>
#include <stdint.h>

enum { LIMIT_LINE_BYTES = 64 };

typedef void limit_loop(void *dst, const void *src, size_t n_steps);

struct limit {
	unsigned in, out;     /* lines read and written in a step; out 0: only reads, and writes 8 bytes at the end */
	limit_loop *run;      /* with ordinary stores */
	limit_loop *run_past; /* with stores past the caches, of whole lines at their multiples */
};

/* One table a tier, its first row reading only, the last without a function. */
#define BENCH_TIER(name) extern const struct limit limits_##name[];
#include "tier.def"

#endif
