/* SPDX-License-Identifier: MIT */
/* SLEEF's functions of binary32 with an error below 1 ulp, loaded at run time, so that the command does not depend on it. */
#ifndef BENCH_SLEEF_PEER_H
#define BENCH_SLEEF_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "mxfp/options.h"

/* How SLEEF's names of a tier end, as in Sleef_expf8_u10avx2, and a loop over n numbers by a function of that name; n is a
   multiple of 16. */
struct sleef_tier {
	const char *suffix; /* NULL: the tier has none */
	const char *lanes;
	void (*run)(enum mxfp_function function, void *symbol, float *dst, const float *src, size_t n);
};

/* One for each tier. */
#define BENCH_TIER(name) extern const struct sleef_tier sleef_##name;
#include "tier.def"

/* Whether SLEEF is there and bench_sleef() has something to run: the same work by its vector function of this tier, or by
   the one that the function is made of with what binary32 arithmetic is left. */
bool bench_sleef_has(const char *isa, enum mxfp_function function);
void bench_sleef(const char *isa, enum mxfp_function function, float *dst, const float *src, size_t n);

#endif
