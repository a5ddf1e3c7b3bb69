/* SPDX-License-Identifier: MIT */
/* Arithmetic of fixed-point numbers, for functions of one number. */
#include "wide.h"

#include <string.h>

/* Limb `index` of a number that has zeros on both sides. */
static uint64_t limb_at(const struct wide *a, int index, int n)
{
	return index < 0 || index > n ? 0 : a->limb[index];
}

/* a * 2^shift for a shift of either sign. No limb is written before it was last read, so r may be a. */
static void shift_by(struct wide *r, const struct wide *a, int shift, int n)
{
	int limbs = shift >= 0 ? shift / 64 : -((63 - shift) / 64);
	int bits = shift - 64 * limbs;

	for (int done = 0; done <= n; done++) {
		int i = shift >= 0 ? done : n - done;
		uint64_t below = bits != 0 ? limb_at(a, i + limbs + 1, n) >> (64 - bits) : 0;

		r->limb[i] = limb_at(a, i + limbs, n) << bits | below;
	}
}

void mxfp_wide_set(struct wide *r, uint64_t significand, int exponent, int n)
{
	*r = (struct wide){{significand}};
	shift_by(r, r, exponent, n);
}

bool mxfp_wide_is_zero(const struct wide *a, int n)
{
	for (int i = 0; i <= n; i++)
		if (a->limb[i] != 0)
			return false;
	return true;
}

bool mxfp_wide_less(const struct wide *a, const struct wide *b, int n)
{
	for (int i = 0; i <= n; i++)
		if (a->limb[i] != b->limb[i])
			return a->limb[i] < b->limb[i];
	return false;
}

void mxfp_wide_add(struct wide *r, const struct wide *a, const struct wide *b, int n)
{
	uint64_t carry = 0;

	for (int i = n; i >= 0; i--) {
		uint64_t sum = a->limb[i] + carry;
		carry = sum < carry;
		sum += b->limb[i];
		carry += sum < b->limb[i];
		r->limb[i] = sum;
	}
}

void mxfp_wide_sub(struct wide *r, const struct wide *a, const struct wide *b, int n)
{
	uint64_t borrow = 0;

	for (int i = n; i >= 0; i--) {
		uint64_t x = a->limb[i], y = b->limb[i];
		r->limb[i] = x - y - borrow;
		borrow = x < y || (x == y && borrow != 0);
	}
}

void mxfp_wide_mul_small(struct wide *r, const struct wide *a, uint64_t m, int n)
{
	uint64_t carry = 0;

	for (int i = n; i >= 0; i--) {
		uint64_t low, high = mxfp_wide_mul_limbs(a->limb[i], m, &low);
		low += carry;
		carry = high + (low < carry);
		r->limb[i] = low;
	}
}

void mxfp_wide_div_small(struct wide *r, const struct wide *a, uint32_t d, int n)
{
	uint64_t rest = 0;

	for (int i = 0; i <= n; i++) { /* long division by digits of 32 bits */
		if (rest == 0 && a->limb[i] == 0) {
			r->limb[i] = 0;
			continue;
		}
		uint64_t high = rest << 32 | a->limb[i] >> 32;
		uint64_t low = high % d << 32 | (uint32_t)a->limb[i];
		r->limb[i] = high / d << 32 | low / d;
		rest = low % d;
	}
}

void mxfp_wide_shift_left(struct wide *r, const struct wide *a, int shift, int n)
{
	shift_by(r, a, shift, n);
}

void mxfp_wide_shift_right(struct wide *r, const struct wide *a, int shift, int n)
{
	shift_by(r, a, -shift, n);
}

/*
 * Limb i times limb j has the weight of limb i + j, and its high half that of i + j - 1. One limb past the last is kept.
 * Of the products with i + j = n + 2 that are left out, n - 1 of them, each is less than 2^64 of that further limb's
 * units, or one unit; the others and what that limb loses are together less than another.
 */
void mxfp_wide_mul(struct wide *r, const struct wide *a, const struct wide *b, int n)
{
	uint64_t p[2 + WIDE_MAX] = {0};

	for (int i = n; i >= 0; i--) {
		uint64_t carry = 0;

		if (a->limb[i] == 0)
			continue;
		for (int j = i == 0 ? n : n + 1 - i; j >= 0; j--) {
			uint64_t low, high = mxfp_wide_mul_limbs(a->limb[i], b->limb[j], &low);
			low += carry;
			high += low < carry;
			p[i + j] += low;
			carry = high + (p[i + j] < low);
		}
		if (i > 0)
			p[i - 1] = carry;
	}
	memcpy(r->limb, p, sizeof r->limb); /* of a size that is known, which takes no call */
}

/*
 * Newton's iteration y (2 - a y), which squares the relative error and leaves 1 / a from below. The first y has 30 bits: a
 * is cut to 31 bits of fraction and the quotient to an integer. A step adds the errors of two products, the first of them
 * times y <= 1: at most 32 units.
 */
void mxfp_wide_reciprocal(struct wide *r, const struct wide *a, int n)
{
	struct wide y, t, two;

	mxfp_wide_set(&y, (UINT64_C(1) << 62) / (a->limb[0] << 31 | a->limb[1] >> 33), -31, n);
	mxfp_wide_set(&two, 2, 0, n);
	for (int bits = 29; bits < 64 * n; bits *= 2) {
		mxfp_wide_mul(&t, a, &y, n);
		mxfp_wide_sub(&t, &two, &t, n);
		mxfp_wide_mul(&y, &y, &t, n);
	}
	*r = y;
}

uint64_t mxfp_wide_top(const struct wide *a, int n, int *exponent)
{
	int first = 0, shift = 0;
	uint64_t top, below = 0;

	while (a->limb[first] == 0)
		first++;
	top = a->limb[first];
	for (int step = 32; step > 0; step /= 2)
		if (top >> (64 - step) == 0) {
			top <<= step;
			shift += step;
		}
	if (shift > 0 && first < n) {
		top |= a->limb[first + 1] >> (64 - shift);
		below = a->limb[first + 1] << shift;
	} else if (first < n) {
		below = a->limb[first + 1];
	}
	for (int i = first + 2; i <= n; i++)
		below |= a->limb[i];
	*exponent = 2 - shift - 64 * first;
	return top >> 2 | ((top & 3) != 0 || below != 0);
}
