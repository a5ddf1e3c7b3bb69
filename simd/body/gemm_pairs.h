/* SPDX-License-Identifier: MIT */
/*
 * How a vector holds a pair of 16-bit integers of each column, neighbors in k, as dot_pairs() multiplies it: both in the column's lane of
 * 32 bits; or split, the first ones of all columns before the second ones, where a tier multiplies 16-bit lanes by one number and adds the
 * products to lanes of 32 bits. A dot product then takes two instructions, against four of which two only add neighbors.
 */
#ifndef MXFP_BODY_GEMM_PAIRS_H
#define MXFP_BODY_GEMM_PAIRS_H

#include "body/vector.h"

#ifdef HAS_LANE_PRODUCTS
enum { PAIRS_ARE_SPLIT = 1 };

/* Orders bytes of columns, before they are looked up, for widen_pairs() and multiply_pairs(). */
ALWAYS_INLINE vu8 order_bytes(vu8 codes)
{
	return split_bytes(codes);
}

/* Of ordered bytes, four of each column: the pairs of bytes 0 and 2, and of 1 and 3. */
ALWAYS_INLINE void widen_pairs(vu8 bytes, vs16 pairs[2])
{
	widen_signed((vs8)bytes, pairs);
}

/* The products of those pairs by bytes that are not negative. */
ALWAYS_INLINE void multiply_pairs(vu8 bytes, vu8 by, vs16 pairs[2])
{
	vs16 x[2], y[2];

	widen_pairs(bytes, x);
	widen_pairs(by, y);
	pairs[0] = x[0] * y[0];
	pairs[1] = x[1] * y[1];
}

/* A number of each column, below 2^15, as a pair of equal integers. */
ALWAYS_INLINE vs16 equal_pairs(vu32 v)
{
	return low_halves(v);
}

/* The first or the second integers of pairs. */
ALWAYS_INLINE vs32 one_of_pairs(vs16 pairs, bool second)
{
	return widen_half(pairs, second);
}
#else
enum { PAIRS_ARE_SPLIT = 0 };

ALWAYS_INLINE vu8 order_bytes(vu8 codes)
{
	return codes;
}

ALWAYS_INLINE void widen_pairs(vu8 bytes, vs16 pairs[2])
{
	pairs[0] = (vs16)((vu16)bytes << 8) >> 8;
	pairs[1] = (vs16)bytes >> 8;
}

ALWAYS_INLINE void multiply_pairs(vu8 bytes, vu8 by, vs16 pairs[2])
{
	widen_pairs(bytes, pairs);
	pairs[0] *= (vs16)((vu16)by & 0xFF);
	pairs[1] *= (vs16)((vu16)by >> 8);
}

ALWAYS_INLINE vs16 equal_pairs(vu32 v)
{
	return (vs16)(v | v << 16);
}

ALWAYS_INLINE vs32 one_of_pairs(vs16 pairs, bool second)
{
	return second ? (vs32)pairs >> 16 : (vs32)((vu32)pairs << 16) >> 16;
}
#endif

#endif
