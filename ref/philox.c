/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (Salmon et al. 2011): the random words of stochastic rounding, by seed, stream and index. */
#include "mxfp/philox.h"

#include "ref.h"

void mxfp_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)p1;
		c3 = (uint32_t)p0;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

uint32_t mxfp_philox_word(uint64_t seed, uint64_t stream, uint64_t index)
{
	const uint32_t counter[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), (uint32_t)stream,
	                             (uint32_t)(stream >> 32)};
	const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	uint32_t words[4];

	mxfp_philox4x32_10(counter, key, words);
	return words[index % 4];
}
