/* SPDX-License-Identifier: MIT */
/* Blocks of Q8_0: bytes that gguf-py 0.19 makes of these numbers, and what cannot come from it. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "io/ggml_q8.h"
#include "suite.h"

enum { N_CASES = 5 };

/* The numbers of a case: in eighths, ties, zeros, tiny ones, and so large ones that the scale overflows f16. */
static float number(int which, int i)
{
	switch (which) {
	case 0:
		return (float)((i * 37 + 11) % 101 - 50) / 8;
	case 1:
		return i == 3 ? 127 : (float)i - 15.5F;
	case 2:
		return 0;
	case 3:
		return ldexpf((float)(i * 29 % 64 - 31), -20);
	default:
		return ldexpf((float)(i - 15), 20);
	}
}

static const uint8_t blocks[N_CASES][Q8_0_BYTES] = {
	{0x4d, 0x2a, 0x9d, 0xfb, 0x59, 0xb6, 0x14, 0x72, 0xd0, 0x2e, 0x8b, 0xe9, 0x47, 0xa5, 0x03, 0x61, 0xbe,
	 0x1c, 0x7a, 0xd7, 0x35, 0x93, 0xf1, 0x4f, 0xac, 0x0a, 0x68, 0xc6, 0x24, 0x81, 0xdf, 0x3d, 0x9a, 0xf8},
	{0x00, 0x3c, 0xf0, 0xf1, 0xf2, 0x7f, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe,
	 0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10},
	{0},
	{0x04, 0x00, 0x85, 0xf8, 0x6b, 0xe0, 0x53, 0xc8, 0x3c, 0xb1, 0x24, 0x99, 0x0c, 0x7f, 0xf4, 0x67, 0xdc,
	 0x4f, 0xc4, 0x38, 0xad, 0x20, 0x95, 0x08, 0x7b, 0xf0, 0x63, 0xd8, 0x4b, 0xc0, 0x34, 0xa9, 0x1c, 0x91},
	{0x00, 0x7c, 0x89, 0x91, 0x99, 0xa1, 0xa9, 0xb1, 0xb9, 0xc0, 0xc8, 0xd0, 0xd8, 0xe0, 0xe8, 0xf0, 0xf8,
	 0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x40, 0x47, 0x4f, 0x57, 0x5f, 0x67, 0x6f, 0x77, 0x7f},
};

TEST(codes_are_those_of_gguf_py)
{
	float x[N_CASES][Q8_0_ELEMENTS];
	uint8_t made[N_CASES][Q8_0_BYTES];

	for (int which = 0; which < N_CASES; which++)
		for (int i = 0; i < Q8_0_ELEMENTS; i++)
			x[which][i] = number(which, i);
	q8_0_encode(made[0], x[0], N_CASES);
	for (int which = 0; which < N_CASES; which++)
		for (int i = 0; i < Q8_0_BYTES; i++)
			ck_assert_msg(made[which][i] == blocks[which][i], "block %d, byte %d: %02x, not %02x", which, i,
			              made[which][i], blocks[which][i]);
	suite_compared(sizeof made);
}

TEST(numbers_are_scale_times_code)
{
	/* 0x2a4d is 0x64d * 2^-15, 0x0004 is 2^-22. */
	float x[4][Q8_0_ELEMENTS];

	q8_0_decode(x[0], blocks[0], 4);
	for (int i = 0; i < Q8_0_ELEMENTS; i++) {
		ck_assert(x[0][i] == ldexpf((float)(0x64d * (int8_t)blocks[0][2 + i]), -15));
		ck_assert(x[1][i] == (float)(int8_t)blocks[1][2 + i]);
		ck_assert(x[2][i] == 0);
		ck_assert(x[3][i] == ldexpf((float)(int8_t)blocks[3][2 + i], -22));
	}
	suite_compared(4 * Q8_0_ELEMENTS);
}

TEST(what_is_not_finite_has_a_code)
{
	float x[Q8_0_ELEMENTS] = {NAN, 1, -1};
	uint8_t block[Q8_0_BYTES];

	q8_0_encode(block, x, 1);
	ck_assert_uint_eq(block[2], 0);
	ck_assert_uint_eq(block[3], 127);
	ck_assert_uint_eq(block[4], 0x81);
	x[0] = INFINITY;
	q8_0_encode(block, x, 1);
	ck_assert_uint_eq(block[0] | block[1] << 8, 0x7c00);
	for (int i = 0; i < Q8_0_ELEMENTS; i++)
		ck_assert_uint_eq(block[2 + i], 0);
	x[0] = x[1] = ldexpf(1, -140); /* 1/d is Inf */
	x[2] = 0;
	q8_0_encode(block, x, 1);
	for (int i = 0; i < Q8_0_BYTES; i++)
		ck_assert_uint_eq(block[i], 0);
}
