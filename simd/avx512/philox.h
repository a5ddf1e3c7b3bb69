/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10 (ref/philox.c) for arrays: eight counters per vector, one in each qword, so that vpmuludq gives both
 * halves of the products without a shuffle. The bits above bit 31 of a qword are never used. Eight vectors are computed
 * at a time, because a round is a chain of dependent instructions.
 */
#ifndef MXFP_AVX512_PHILOX_H
#define MXFP_AVX512_PHILOX_H

#include "tier.h"
#include "body/philox.h"

enum { PHILOX_VECTORS = 8, PHILOX_VECTOR_WORDS = 32, PHILOX_WORDS = PHILOX_VECTORS * PHILOX_VECTOR_WORDS };

struct philox_vector {
	__m512i word[4];
};

struct philox_keys {
	uint32_t round[10][2];
};

/* x ^ y ^ key. */
ALWAYS_INLINE __m512i philox_xor(__m512i x, __m512i y, uint32_t key)
{
	return _mm512_ternarylogic_epi32(x, y, _mm512_set1_epi32((int)key), 0x96);
}

ALWAYS_INLINE void philox_vector_round(struct philox_vector *c, const uint32_t key[2])
{
	__m512i product0 = _mm512_mul_epu32(c->word[0], _mm512_set1_epi64(PHILOX_M0));
	__m512i product1 = _mm512_mul_epu32(c->word[2], _mm512_set1_epi64(PHILOX_M1));

	c->word[0] = philox_xor(_mm512_srli_epi64(product1, 32), c->word[1], key[0]);
	c->word[2] = philox_xor(_mm512_srli_epi64(product0, 32), c->word[3], key[1]);
	c->word[1] = product1;
	c->word[3] = product0;
}

/* Stores the words of eight counters in order. */
ALWAYS_INLINE void philox_vector_store(uint32_t *at, const struct philox_vector *c)
{
	const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
	const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
	__m512i words01 = _mm512_mask_shuffle_epi32(c->word[0], 0xAAAA, c->word[1], _MM_PERM_CCAA);
	__m512i words23 = _mm512_mask_shuffle_epi32(c->word[2], 0xAAAA, c->word[3], _MM_PERM_CCAA);

	_mm512_storeu_si512(at, _mm512_permutex2var_epi64(words01, low, words23));
	_mm512_storeu_si512(at + LANES, _mm512_permutex2var_epi64(words01, high, words23));
}

/* Stores the words of PHILOX_WORDS / 4 counters with the same upper half. In the first round only word 0 of the
   counters differs, in the second only words 2 and 3. */
ALWAYS_INLINE void philox_block(uint32_t *at, uint64_t first, uint64_t stream, const struct philox_keys *keys)
{
	const __m512i lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
	uint64_t stream_product = (stream & UINT32_MAX) * PHILOX_M1;
	uint32_t word0 = (uint32_t)(stream_product >> 32) ^ (uint32_t)(first >> 32) ^ keys->round[0][0];
	uint64_t product0 = (uint64_t)word0 * PHILOX_M0;
	struct philox_vector c[PHILOX_VECTORS];

#pragma GCC unroll 8
	for (int v = 0; v < PHILOX_VECTORS; v++) {
		int64_t counter = (int64_t)first + v * (PHILOX_VECTOR_WORDS / 4);
		__m512i product = _mm512_mul_epu32(_mm512_add_epi64(_mm512_set1_epi64(counter), lanes),
		                                   _mm512_set1_epi64(PHILOX_M0));
		__m512i word2 = _mm512_xor_si512(_mm512_srli_epi64(product, 32),
		                                 _mm512_set1_epi32((int)((uint32_t)(stream >> 32) ^ keys->round[0][1])));
		__m512i product1 = _mm512_mul_epu32(word2, _mm512_set1_epi64(PHILOX_M1));

		c[v].word[0] = philox_xor(_mm512_srli_epi64(product1, 32), _mm512_set1_epi32((int)stream_product),
		                          keys->round[1][0]);
		c[v].word[1] = product1;
		c[v].word[2] = philox_xor(product, _mm512_set1_epi32((int)(product0 >> 32)), keys->round[1][1]);
		c[v].word[3] = _mm512_set1_epi32((int)product0);
	}
#pragma GCC unroll 8
	for (int round = 2; round < 10; round++) {
#pragma GCC unroll 8
		for (int v = 0; v < PHILOX_VECTORS; v++)
			philox_vector_round(&c[v], keys->round[round]);
	}
#pragma GCC unroll 8
	for (int v = 0; v < PHILOX_VECTORS; v++)
		philox_vector_store(at + v * PHILOX_VECTOR_WORDS, &c[v]);
}

/* philox_fill() for many words. */
ALWAYS_INLINE const uint32_t *philox_array(uint32_t *buffer, uint64_t seed, uint64_t stream, uint64_t first_index,
                                           size_t n)
{
	size_t skip = (size_t)(first_index % 4), i = 0;
	uint64_t counter = first_index / 4;
	struct philox_keys keys;

	for (uint32_t round = 0; round < 10; round++) {
		keys.round[round][0] = (uint32_t)seed + round * PHILOX_W0;
		keys.round[round][1] = (uint32_t)(seed >> 32) + round * PHILOX_W1;
	}
	if ((uint32_t)counter <= UINT32_MAX - (n + skip) / 4)
		for (; n + skip - i >= PHILOX_WORDS; i += PHILOX_WORDS)
			philox_block(buffer + i, counter + i / 4, stream, &keys);
	if (i < n + skip)
		philox_fill(buffer + i, seed, stream, (counter + i / 4) * 4, n + skip - i);
	return buffer + skip;
}

#endif
