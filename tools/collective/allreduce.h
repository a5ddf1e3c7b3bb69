/* SPDX-License-Identifier: MIT */
/*
 * The sum of numbers that ranks hold, on every rank, with a payload of few bits: reduce-scatter and all-gather.
 *
 * Rank o owns chunk o of the numbers. Every rank encodes its numbers in the payload's format, chunk by chunk, and sends
 * each to its owner. The owner decodes what came, its own part too, and sums by mxfp_sum_arrays() in the order of the
 * ranks, whatever the order of arrival. It encodes the sum and sends the codes to all, itself too, and all decode the
 * same codes: the result has the same bits on every rank. Chunks are whole blocks of 32, so it does not depend on
 * who owns what either.
 *
 * With error feedback, a rank adds to its numbers what encoding took off those of the step before, and an owner to
 * its sum what encoding took off that: over many steps, no error adds up.
 */
#ifndef TOOLS_COLLECTIVE_ALLREDUCE_H
#define TOOLS_COLLECTIVE_ALLREDUCE_H

#include <stdint.h>

#include "base/stats.h"
#include "collective/exchange.h"
#include "mxfp/exec.h"
#include "mxfp/format.h"
#include "mxfp/options.h"

enum { PAYLOADS_MAX = 16, NUMBERS_MAX = 1 << 28, STEPS_MAX = 1000000 };

/*
 * Results against sums in binary64. The sum of binary32 numbers overflows no binary64, so it is not finite if a number of
 * a rank is not; such pairs are excluded. A result that is not finite while the sum is has an infinite error.
 */
struct allreduce_errors {
	struct stats stats;  /* of the pairs in which both are finite */
	uint64_t compared;   /* finite sums */
	uint64_t not_finite; /* of these, the results that are Inf or NaN */
	uint64_t excluded;   /* sums that are Inf or NaN */
};

/* The quotients of stats.h over the finite sums; NaN if there is none. */
double allreduce_sqnr(const struct allreduce_errors *errors);
double allreduce_relative_error(const struct allreduce_errors *errors);
double allreduce_max_absolute(const struct allreduce_errors *errors);

/* One payload. */
struct allreduce_row {
	enum mxfp_format format;
	uint64_t bytes;           /* sent in a step by the rank that sends most */
	struct allreduce_errors step, total; /* of the results of all steps, each against its sum, and of their sums */
	double seconds;           /* of a step on the slowest rank, on average, after one that is not timed; without
	                             processes: of all ranks' work */
	uint64_t hash;            /* XXH3-64 of all results, little-endian, on every rank */
};

struct allreduce {
	/* What is asked for. */
	struct exchange exchange;
	size_t n;                 /* numbers of a rank; with files, theirs, which allreduce_run() sets */
	unsigned steps;
	uint64_t seed;
	bool feedback;
	enum mxfp_rule rule;
	enum mxfp_round round;
	struct mxfp_exec exec;
	const char *const *files; /* n_ranks of FILE or FILE:TENSOR; NULL: numbers are made */
	/* What is found, on rank 0 but for hash. The caller sets n_rows and formats. */
	size_t n_rows;
	struct allreduce_row rows[PAYLOADS_MAX];
};

/* Whether numbers can be sent so: f32, bf16 or an MX format. */
bool allreduce_has(enum mxfp_format payload);

/* Returns the bytes that the rank which sends most sends in one step. */
uint64_t allreduce_bytes(const struct allreduce *a, enum mxfp_format payload);

/* Runs the steps for every payload. EXIT_CHECK: a rank has another result than rank 0; EXIT_IO, EXIT_INPUT,
   EXIT_MEMORY. */
int allreduce_run(struct allreduce *a, struct error *error);

#endif
