/* SPDX-License-Identifier: MIT */
/* The most that a core can compute: multiplications and additions in registers, enough at a time to hide their latency.
   The file is compiled once per tier; PEAK is the name of what it defines. */
#include "config.h"

#include "gemm_bench.h"

#include "machine.h"

#ifdef LANES

enum { CHAINS = 12, TURNS = 20000 };

static double fma_loop(void)
{
	volatile float result;
	vf32 sum[CHAINS], x = splat_f32(0.5F);

#pragma GCC unroll 12
	for (int i = 0; i < CHAINS; i++)
		sum[i] = splat_f32((float)i);
	for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
		for (int i = 0; i < CHAINS; i++)
			sum[i] = fma_f32(sum[i], x, x);
#pragma GCC unroll 12
	for (int i = 1; i < CHAINS; i++)
		sum[0] += sum[i];
	result = sum[0][0];
	(void)result;
	return 2.0 * CHAINS * TURNS * LANES;
}
#endif

const struct bench_peak PEAK = {
#ifdef LANES
	.fma = fma_loop,
#else
	.fma = NULL,
#endif
#ifdef HAS_DOT
	.dot = peak_dot,
#else
	.dot = NULL,
#endif
};
