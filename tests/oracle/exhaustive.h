/* SPDX-License-Identifier: MIT */
/* The cases of make check-exhaustive: one conversion, recipe of NVFP4 or function, by the kernel of one tier. */
#ifndef TESTS_EXHAUSTIVE_H
#define TESTS_EXHAUSTIVE_H

#include <stdatomic.h>

#include "kernels.h"
#include "oracle/oracle.h"
#include "oracle/thresholds.h"

enum {
	EXHAUSTIVE_PIECE = 1 << 16, /* numbers that a thread converts in one call */
	EXHAUSTIVE_N_SHOWN = 10,    /* wrong pieces of a case that are printed */
	EXHAUSTIVE_MAX_TIERS = 32
};

/* A tier and a conversion. */
struct exhaustive_case {
	const char *tier;
	const struct mxfp_kernels *table, *reference;
	enum mxfp_format src_format, dst_format;
	struct mxfp_rounding rounding;
	unsigned workers;
};

/* Whether the case's kernels are the reference's. */
static inline bool exhaustive_is_reference(const struct exhaustive_case *c)
{
	return c->table == c->reference;
}

struct exhaustive_result {
	uint64_t n_inputs;
	unsigned n_wrong_pieces;
};

/* All of binary32 against the intervals of MPFR; `thresholds` by sign, without any if the destination is f32. */
struct exhaustive_result exhaustive_f32(const struct exhaustive_case *c, const struct oracle *oracle,
                                        const struct thresholds *thresholds);

/* 2^24 numbers of binary32, evenly spread, with indices of all sizes, against the reference: for stochastic
   rounding. */
struct exhaustive_result exhaustive_sample(const struct exhaustive_case *c);

/* All numbers of a format of at most 19 bits in every mode, overflow mode and sign of zero against the reference. */
struct exhaustive_result exhaustive_narrow(const struct exhaustive_case *c);

/* The scales of NVFP4 on n tiers against the processor's own binary32: of tensors of every finite largest magnitude, or in each
   `every`-th piece of them. */
void exhaustive_nvfp4(const struct exhaustive_case *tiers, size_t n, enum mxfp_recipe recipe, size_t every,
                      struct exhaustive_result *results);

/* A function of one number with its default parameter on n tiers against values computed once: all 2^32 arguments, or each
   `every`-th piece of them. Prints how many of the expected values needed MPFR. */
void exhaustive_function(const struct exhaustive_case *tiers, size_t n, enum mxfp_function function, size_t every,
                         struct exhaustive_result *results);

/* Calls run(context, i) for every i < n on the case's workers. */
void exhaustive_run(const struct exhaustive_case *c, size_t n, void (*run)(void *context, size_t i), void *context);

/* Converts a piece by the case's kernel, or the reference's. */
void exhaustive_convert(const struct exhaustive_case *c, const struct mxfp_kernels *table,
                        struct mxfp_convert_job *job);

/* Prints what is wrong at which number, a few times a case. */
void exhaustive_wrong(const struct exhaustive_case *c, atomic_uint *n_wrong, const char *what, uint32_t number);

#endif
