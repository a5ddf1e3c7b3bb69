/* SPDX-License-Identifier: MIT */
/*
 * Error statistics: how far measured numbers b_i are from source numbers a_i.
 *
 * A pair in which a_i or b_i is NaN or Inf is excluded from every sum and maximum, and counted. Over the others:
 *
 *   SQNR            10 log10(sum a^2 / sum (b - a)^2) dB
 *   relative error  sqrt(sum (b - a)^2 / sum a^2), the Frobenius norm of the error over that of the source
 *   cosine          sum ab / (sqrt(sum a^2) sqrt(sum b^2)), cut to [-1, 1]
 *   max_absolute    max |b - a|
 *   max_relative    max |b - a| / |a| over a != 0
 *
 * Zero denominators: no error at all gives SQNR +Inf and relative error 0, even of an all-zero
 * source; an error against an all-zero source gives SQNR -Inf and relative error Inf. Cosine is 1
 * if source and measured are both all zero and 0 if one of them is. With no pair at all the three
 * are NaN.
 *
 * Each term is computed in binary64 (a difference of two binary32 numbers is rounded to it, rarely
 * inexact). Sums are plain and in element order, so they do not depend on the pieces in which the
 * elements are added. No square overflows or vanishes: the quotients of numbers times a power of two are the same.
 */
#ifndef TOOLS_BASE_STATS_H
#define TOOLS_BASE_STATS_H

#include <stddef.h>
#include <stdint.h>

/* All zero: nothing added yet. */
struct stats {
	uint64_t n;             /* pairs measured */
	uint64_t excluded;      /* pairs with a NaN or Inf */
	uint64_t unequal;       /* pairs of different values, excluded ones included; -0 equals +0, NaN equals NaN */
	uint64_t first_unequal; /* index of the first such pair among all added; only if unequal > 0 */
	double signal;          /* sum a^2, times 2^(-2 signal_unit) */
	double noise;           /* sum (b - a)^2, times 2^(-2 noise_unit) */
	double measured;        /* sum b^2, times 2^(-2 measured_unit) */
	double product;         /* sum ab, times 2^(-signal_unit - measured_unit) */
	double max_absolute;
	double max_relative;
	int signal_unit, noise_unit, measured_unit; /* 0 unless a number is beyond binary32 and products of it */
};

/* Adds n pairs. */
void stats_add(struct stats *stats, const float *source, const float *measured, size_t n);

/* The same for binary64 numbers. */
void stats_add_double(struct stats *stats, const double *source, const double *measured, size_t n);

/* Adds the sums and counts of another set of pairs, as if its pairs followed; each sum is added as one number. */
void stats_merge(struct stats *total, const struct stats *part);

/* As if all numbers that were added had been times 2^exponent, of magnitude at most 128. */
void stats_scale(struct stats *stats, int exponent);

/* Return the quotients above. */
double stats_sqnr(const struct stats *stats);
double stats_relative_error(const struct stats *stats);
double stats_cosine(const struct stats *stats);

#endif
