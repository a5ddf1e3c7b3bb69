/* SPDX-License-Identifier: MIT */
/*
 * Section 3 of doc/numerics.md, storage: a little-endian bit stream. Bit j of the stream is bit j % bits of code j / bits. -DN=32 codes,
 * of -DBITS=6. The arrays have just the bytes that they need, so one more would be out of bounds.
 */
#include "pack.h"
#include "spec.h"

enum { BYTES = N * BITS / 8 };

void pack(void)
{
	uint8_t codes[N], packed[BYTES], back[N];
	uint32_t bit = nondet_word();

	for (int i = 0; i < N; i++) {
		codes[i] = nondet_byte();
		ASSUME(codes[i] < 1 << BITS);
	}
	ASSUME(bit < N * BITS);
	INPUT(bit);
	uint8_t code = codes[bit / BITS];

	INPUT(code);
	mxfp_ref_pack(packed, codes, N, BITS);
	PROVE((packed[bit / 8] >> bit % 8 & 1) == (code >> bit % BITS & 1), "a bit of the stream is that of its code");
	mxfp_ref_unpack(back, packed, N, BITS);
	PROVE(back[bit / BITS] == code, "unpacking gives the codes back");
	REACHED();
}

/* Any bytes, spare bits of codes included. */
void unpack(void)
{
	uint8_t codes[N], packed[BYTES];
	uint32_t i = nondet_word();

	for (int j = 0; j < BYTES; j++)
		packed[j] = nondet_byte();
	ASSUME(i < N);
	INPUT(i);
	mxfp_ref_unpack(codes, packed, N, BITS);
	uint32_t bit = i * BITS, last = bit / 8 + 1 < BYTES ? bit / 8 + 1 : BYTES - 1;
	uint32_t two = packed[bit / 8] | (last != bit / 8 ? (uint32_t)packed[last] << 8 : 0);

	INPUT(two);
	PROVE(codes[i] == (two >> bit % 8 & ((1U << BITS) - 1)), "a code is its bits of the stream");
	REACHED();
}
