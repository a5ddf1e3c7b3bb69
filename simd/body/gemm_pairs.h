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

/* Orders bytes of columns, before they are looked up, for widen_pairs() and multiply_bytes(). */
ALWAYS_INLINE vu8 order_bytes(vu8 codes)
{
	return split_bytes(codes);
}

/* Of ordered bytes, four of each column: the pairs of bytes 0 and 2, and of 1 and 3. */
ALWAYS_INLINE void widen_pairs(vu8 bytes, vs16 pairs[2])
{
	widen_signed(bytes, pairs);
}

/* A number of each column, below 2^15, as a pair of equal integers. */
ALWAYS_INLINE vs16 equal_pairs(vu32 v)
{
	return twice_low_halves(v);
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
