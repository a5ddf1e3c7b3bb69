/* SPDX-License-Identifier: MIT */
/*
 * Nonnegative fixed-point numbers below 2^64: limb[0] is the integer part, limb[i] has the weight 2^-64i. An operation on n
 * limbs of fraction reads no others; what it leaves in them is undefined. Its unit is 2^-64n. Results may be their operands.
 */
#ifndef MXFP_REF_WIDE_H
#define MXFP_REF_WIDE_H

#include <stdbool.h>
#include <stdint.h>

enum { WIDE_MAX = 8 };

struct wide {
	uint64_t limb[1 + WIDE_MAX];
};

/* significand * 2^exponent, truncated to a unit. What is past the top is lost. */
void mxfp_wide_set(struct wide *r, uint64_t significand, int exponent, int n);

bool mxfp_wide_is_zero(const struct wide *a, int n);
bool mxfp_wide_less(const struct wide *a, const struct wide *b, int n);

/* Exact, modulo 2^64. */
void mxfp_wide_add(struct wide *r, const struct wide *a, const struct wide *b, int n);
void mxfp_wide_sub(struct wide *r, const struct wide *a, const struct wide *b, int n);
void mxfp_wide_mul_small(struct wide *r, const struct wide *a, uint64_t m, int n);
void mxfp_wide_shift_left(struct wide *r, const struct wide *a, int shift, int n);

/* Truncated: less than one unit too small. */
void mxfp_wide_div_small(struct wide *r, const struct wide *a, uint32_t d, int n);
void mxfp_wide_shift_right(struct wide *r, const struct wide *a, int shift, int n);

/* At most 16 units too small. */
void mxfp_wide_mul(struct wide *r, const struct wide *a, const struct wide *b, int n);

/* 1 / a for 1 <= a < 4; the error is below 128 units. */
void mxfp_wide_reciprocal(struct wide *r, const struct wide *a, int n);

/* The top 62 significant bits of a number that is not zero, the lowest of them jammed: set if anything below is not
   zero. The number is that * 2^*exponent. */
uint64_t mxfp_wide_top(const struct wide *a, int n, int *exponent);

/* Both 64-bit halves of a product. */
static inline uint64_t mxfp_wide_mul_limbs(uint64_t a, uint64_t b, uint64_t *low)
{
#ifdef __SIZEOF_INT128__
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;

	*low = (uint64_t)product;
	return (uint64_t)(product >> 64);
#else
	uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
	uint64_t middle = a1 * b0 + (a0 * b0 >> 32);         /* at most (2^32 - 1) 2^32 */
	uint64_t carry = a0 * b1 + (uint32_t)middle;

	*low = a * b;
	return a1 * b1 + (middle >> 32) + (carry >> 32);
#endif
}

#endif
