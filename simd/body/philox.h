/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10 (ref/philox.c) in vectors: each lane has its own counter and produces four words. PHILOX_CHAINS vectors
 * are computed at a time, because a round is a chain of dependent instructions.
 *
 * A tier may give the high halves of products in another order of lanes, which is its own inverse (vector.h). So words 0
 * and 2 change their order in every round. Words 1 and 3 are low halves, not used before the round after the next,
 * and keep theirs: the orders agree then. In the last round low halves come in the order of the high ones.
 */
#ifndef MXFP_BODY_PHILOX_H
#define MXFP_BODY_PHILOX_H

#include "mxfp/philox.h"
#include "ref.h"

enum {
	PHILOX_CHAINS = 2,
	PHILOX_STEP = PHILOX_CHAINS * 4 * LANES, /* words at a time */
	PHILOX_SLACK = PHILOX_STEP + 3            /* that philox_fill() may write past the n requested */
};

/* What the counters of a call share. In the first round only word 0 of the counters differs, in the second only words 2
   and 3, so that the products of others are constants. */
struct philox_constants {
	vu32 first;     /* what is added to the high halves of the first round's products */
	vu32 second[2]; /* and to those and to the low halves in the second, to make words 0 and 2 */
	vu32 word3;     /* after the second */
	vu32 key[10][2];
};

/* For counters whose upper half is that of `counter`. */
static inline void philox_init(struct philox_constants *c, uint64_t seed, uint64_t stream, uint64_t counter)
{
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	const uint64_t product1 = (stream & UINT32_MAX) * PHILOX_M1;
	const uint32_t word0 = (uint32_t)(product1 >> 32) ^ (uint32_t)(counter >> 32) ^ k0;
	const uint64_t product0 = (uint64_t)word0 * PHILOX_M0;

	for (int round = 0; round < 10; round++) {
		c->key[round][0] = splat(k0);
		c->key[round][1] = splat(k1);
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	c->first = splat((uint32_t)(stream >> 32)) ^ c->key[0][1];
	c->second[0] = splat((uint32_t)product1) ^ c->key[1][0];
	c->second[1] = splat((uint32_t)(product0 >> 32)) ^ c->key[1][1];
	c->word3 = splat((uint32_t)product0);
}

/* The first two rounds. */
ALWAYS_INLINE void philox_begin(vu32 word[4], vu32 counter, const struct philox_constants *c)
{
	const vu32 word2 = high_halves(products(counter, PHILOX_M0)) ^ c->first;

	word[0] = high_halves(products(word2, PHILOX_M1)) ^ c->second[0];
	word[1] = word2 * PHILOX_M1;
	word[2] = counter * PHILOX_M0 ^ c->second[1];
	word[3] = c->word3;
}

ALWAYS_INLINE void philox_round(vu32 word[4], const vu32 key[2], bool last)
{
	const struct products p0 = products(word[0], PHILOX_M0), p1 = products(word[2], PHILOX_M1);
	const vu32 low0 = last ? low_halves(p0) : word[0] * PHILOX_M0, low1 = last ? low_halves(p1) : word[2] * PHILOX_M1;

	word[0] = high_halves(p1) ^ (word[1] ^ key[0]);
	word[2] = high_halves(p0) ^ (word[3] ^ key[1]);
	word[1] = low1;
	word[3] = low0;
}

/* Stores the words of PHILOX_STEP / 4 counters, `counter` and the next ones. */
ALWAYS_INLINE void philox_step(uint32_t *at, uint32_t counter, const struct philox_constants *c)
{
	vu32 word[PHILOX_CHAINS][4];

#pragma GCC unroll 2
	for (uint32_t v = 0; v < PHILOX_CHAINS; v++)
		philox_begin(word[v], quarter_numbers() + (counter + v * LANES), c);
#pragma GCC unroll 8
	for (int round = 2; round < 10; round++) {
#pragma GCC unroll 2
		for (int v = 0; v < PHILOX_CHAINS; v++)
			philox_round(word[v], c->key[round], round == 9);
	}
#pragma GCC unroll 2
	for (int v = 0; v < PHILOX_CHAINS; v++)
		store_quarters(at + v * 4 * LANES, word[v]);
}

/* Returns where in the buffer the words of elements first_index .. first_index + n - 1 begin. The buffer has room for
   n + PHILOX_SLACK words. */
static inline const uint32_t *philox_fill(uint32_t *buffer, uint64_t seed, uint64_t stream, uint64_t first_index, size_t n)
{
	const size_t skip = (size_t)(first_index % 4), end = n + skip;
	const uint64_t counter = first_index / 4;
	struct philox_constants c;

	if ((uint32_t)counter > UINT32_MAX - end / 4) { /* the upper half is about to change */
		for (size_t i = 0; i < n; i++)
			buffer[skip + i] = mxfp_philox_word(seed, stream, first_index + i);
		return buffer + skip;
	}
	philox_init(&c, seed, stream, counter);
	for (size_t i = 0; i < end; i += PHILOX_STEP)
		philox_step(buffer + i, (uint32_t)(counter + i / 4), &c);
	return buffer + skip;
}

#endif
