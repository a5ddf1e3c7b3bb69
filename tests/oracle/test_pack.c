/* SPDX-License-Identifier: MIT */
/* The order of block codes in bytes: by hand, and bit by bit. */
#include "pack.h"

#include <string.h>

#include "oracle/inputs.h"
#include "suite.h"

/* Codes give these bytes and no more, and the bytes the codes. */
static void check(const uint8_t *codes, size_t n, unsigned bits, const uint8_t *want, size_t n_bytes)
{
	uint8_t packed[9], back[9];

	packed[n_bytes] = back[n] = 0xA5;
	mxfp_ref_pack(packed, codes, n, bits);
	ck_assert_mem_eq(packed, want, n_bytes);
	mxfp_ref_unpack(back, packed, n, bits);
	ck_assert_mem_eq(back, codes, n);
	ck_assert(packed[n_bytes] == 0xA5 && back[n] == 0xA5);
	suite_compared(2 * n);
}

TEST(nibbles_are_low_first)
{
	const uint8_t codes[] = {0x1, 0x2, 0xF, 0x0, 0x8, 0x7}, want[] = {0x21, 0x0F, 0x78};

	check(codes, sizeof codes, 4, want, sizeof want);
}

/* 000001, 000010, 000011, 111111 from the low bit: 10|000001, 0011|0000, 111111|00; then 4 codes that differ in
   each bit. */
TEST(four_6_bit_codes_take_three_bytes)
{
	const uint8_t codes[] = {0x01, 0x02, 0x03, 0x3F, 0x2A, 0x15, 0x30, 0x0C};
	const uint8_t want[] = {0x81, 0x30, 0xFC, 0x6A, 0x05, 0x33};

	check(codes, sizeof codes, 6, want, sizeof want);
}

TEST(bytes_stay_as_they_are)
{
	const uint8_t codes[] = {0x00, 0x80, 0xFF, 0x12};

	check(codes, sizeof codes, 8, codes, sizeof codes);
}

/* Bit k of code i is bit i * bits + k of the stream. */
TEST_LOOP(every_bit_lies_where_the_contract_says, 3)
{
	const unsigned widths[] = {4, 6, 8};
	unsigned bits = widths[_i];
	struct random r = {suite_seed()};
	uint8_t codes[32], packed[33], back[32];

	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < 32; i++)
			codes[i] = (uint8_t)random_below(&r, UINT32_C(1) << bits);
		memset(packed, 0xA5, sizeof packed);
		mxfp_ref_pack(packed, codes, 32, bits);
		for (unsigned i = 0; i < 32; i++)
			for (unsigned k = 0; k < bits; k++) {
				unsigned at = i * bits + k;
				ck_assert_uint_eq(packed[at / 8] >> at % 8 & 1, codes[i] >> k & 1);
			}
		ck_assert_uint_eq(packed[4 * bits], 0xA5);
		mxfp_ref_unpack(back, packed, 32, bits);
		ck_assert_mem_eq(back, codes, 32);
	}
	suite_compared(32000);
}
