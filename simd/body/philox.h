/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (ref/philox.c) in vectors: each lane has its own counter and produces four words. */
#ifndef MXFP_BODY_PHILOX_H
#define MXFP_BODY_PHILOX_H

#include "ref.h"

/* Words that philox_fill() may write past the n requested. */
enum { PHILOX_SLACK = 4 * LANES + 3 };

/* Stores the words of counters first, first + 1, ... to at[0 .. 4 * LANES - 1]. */
ALWAYS_INLINE void philox_store(uint32_t *at, uint64_t first, uint64_t seed, uint64_t stream)
{
	vu32 c0 = lane_numbers() + (uint32_t)first;
	vu32 carry = (vu32)(c0 < (uint32_t)first);
	vu32 c1 = splat((uint32_t)(first >> 32)) - carry;
	vu32 c2 = splat((uint32_t)stream), c3 = splat((uint32_t)(stream >> 32));
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

	for (int round = 0; round < 10; round++) {
		vu32 high0 = multiply_high(c0, splat(PHILOX_M0)), low0 = c0 * PHILOX_M0;
		vu32 high1 = multiply_high(c2, splat(PHILOX_M1)), low1 = c2 * PHILOX_M1;

		c0 = high1 ^ c1 ^ k0;
		c2 = high0 ^ c3 ^ k1;
		c1 = low1;
		c3 = low0;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	store_interleaved(at, (const vu32[4]){c0, c1, c2, c3});
}

/* Returns where in the buffer the words of elements first_index .. first_index + n - 1 begin. The buffer has room for
   n + PHILOX_SLACK words. */
ALWAYS_INLINE const uint32_t *philox_fill(uint32_t *buffer, uint64_t seed, uint64_t stream, uint64_t first_index,
                                          size_t n)
{
	size_t skip = (size_t)(first_index % 4);

	for (size_t i = 0; i < n + skip; i += 4 * LANES)
		philox_store(buffer + i, first_index / 4 + i / 4, seed, stream);
	return buffer + skip;
}

#endif
