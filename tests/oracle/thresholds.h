/* SPDX-License-Identifier: MIT */
/*
 * Where the code of a conversion from binary32 changes. Conversions are monotone, so over the magnitudes of one
 * sign the codes form intervals; the oracle is asked at both ends of a range, and where the answers are equal, all
 * between are.
 */
#ifndef TESTS_THRESHOLDS_H
#define TESTS_THRESHOLDS_H

#include <stdint.h>

#include "oracle/oracle.h"

/* What a value of the interval is counted as. */
enum counted { COUNTED_NOT, COUNTED_SATURATED, COUNTED_OVERFLOWED, COUNTED_FLUSHED };

/* Magnitude bits from `start` to the next interval's start have this code. */
struct interval {
	uint32_t start;
	uint32_t code;
	enum counted counted;
};

/* The intervals of the finite nonzero magnitudes, 00000001 to 7F7FFFFF, of one sign. */
struct thresholds {
	struct interval *interval;
	size_t n, capacity;
};

/* Any rounding but `sr`, whose code does not follow from the value alone. */
void thresholds_init(struct thresholds *t, const struct oracle *o, const struct mxfp_rounding *rounding, bool negative);
void thresholds_clear(struct thresholds *t);

/* Compares the stored codes of n consecutive finite nonzero magnitudes from `first` on with their intervals, and
   adds what they count as to *counts. Returns the index of the first that differs, or n. */
size_t thresholds_mismatch(const struct thresholds *t, const struct mxfp_format_info *format, uint32_t first,
                           const void *codes, size_t n, struct mxfp_counts *counts);

#endif
