/* SPDX-License-Identifier: MIT */
/* Hostile numbers for comparing kernels: groups (vectors, blocks) in which one lane, all lanes or the largest number is
   what a kernel may get wrong. */
#ifndef TESTS_PATTERNS_H
#define TESTS_PATTERNS_H

#include <stddef.h>
#include <stdint.h>

#include "oracle/inputs.h"
#include "mxfp/format.h"

enum pattern {
	PATTERN_ZERO,        /* of both signs */
	PATTERN_MAX,         /* largest finite numbers */
	PATTERN_ALTERNATING, /* one magnitude, the signs alternate */
	PATTERN_OUTLIER,     /* one large among small ones */
	PATTERN_NAN,         /* one NaN, quiet or signaling, any payload and sign */
	PATTERN_INF,
	PATTERN_SUBNORMAL,
	PATTERN_BOUNDARY,    /* on, between and beside the format's values */
	PATTERN_NORMAL,      /* a spread of exponents */
	PATTERN_THRESHOLD,   /* the largest number's significand near a multiple of 1/32, where scale rules decide */
	PATTERN_SHORT,       /* short significands: ties, and errors of the same size */
	PATTERN_BITS,        /* any bits */
	N_PATTERNS
};

/* Where in a group the pattern shows, and how large its numbers are. */
struct pattern_group {
	enum pattern pattern;
	const struct mxfp_format_info *format; /* an element format: whose boundaries */
	size_t at;                             /* lane of the outlier, NaN, Inf, largest */
	int top;                               /* exponent of the format's 1, or of the largest number; in [-140, 127] */
};

/* Fills n binary32 numbers. */
void pattern_fill(struct random *r, const struct pattern_group *g, uint32_t *x, size_t n);

/* A group at random; top is 0 in half of them, else at an end of the range or anywhere. */
struct pattern_group pattern_any(struct random *r, const struct mxfp_format_info *format, size_t lanes);

/* Stores n numbers in an element format, at any address; PATTERN_BITS goes to the memory as random bytes. */
void pattern_store(struct random *r, enum pattern pattern, const struct mxfp_format_info *to, void *array,
                   const uint32_t *x, size_t n);

#endif
