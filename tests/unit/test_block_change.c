/* SPDX-License-Identifier: MIT */
/* Blocks made to blocks of another format, by hand. tests/cli/convert_blocks.py tries all scales instead. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "rewrite/block_change.h"
#include "suite.h"

static const struct block_factor one = {1, false};

/* A row of one unit: codes of 8 bits, or of 4 in pairs. */
struct made {
	uint8_t codes[32], scales[2], fits[2];
};

static struct made change(enum mxfp_format from, const struct block_factor *from_factor, const void *codes, const uint8_t *scales,
                          enum mxfp_format to, const struct block_factor *to_factor, size_t cols)
{
	struct block_change *change = malloc(sizeof *change);
	struct made made;

	memset(&made, 0xEE, sizeof made);
	ck_assert_ptr_nonnull(change);
	block_change_begin(change, from, from_factor, to, to_factor);
	block_change_row(change, cols, codes, scales, made.codes, made.scales, made.fits);
	free(change);
	return made;
}

/* 6 and -0.5 times 2^-2: in e4m3 6 is 4C, -0.5 is B0. */
TEST(mxfp4_keeps_its_scale_in_mxfp8)
{
	uint8_t codes[16], scale = 125;

	memset(codes, 0x97, sizeof codes);
	const struct made made = change(MXFP_FORMAT_MXFP4, &one, codes, &scale, MXFP_FORMAT_MXFP8_E4M3, &one, 32);
	for (int i = 0; i < 32; i++)
		ck_assert_uint_eq(made.codes[i], i % 2 == 0 ? 0x4C : 0xB0);
	ck_assert_uint_eq(made.scales[0], 125);
	ck_assert_int_eq(made.fits[0], BLOCK_SAME);
}

/* 2^-2 is 2^1 x 2^-3: byte 40 of ue4m3. Both halves have it. */
TEST(mxfp4_is_two_blocks_of_nvfp4)
{
	const struct block_factor eighth = {0.125F, false}, eight = {8, true};
	uint8_t codes[16], scale = 125;

	memset(codes, 0x97, sizeof codes);
	for (int divides = 0; divides < 2; divides++) {
		const struct made made =
			change(MXFP_FORMAT_MXFP4, &one, codes, &scale, MXFP_FORMAT_NVFP4, divides ? &eight : &eighth, 32);
		ck_assert_mem_eq(made.codes, codes, 16);
		ck_assert_uint_eq(made.scales[0], 0x40);
		ck_assert_uint_eq(made.scales[1], 0x40);
		ck_assert_int_eq(made.fits[1], BLOCK_SAME);
	}
}

/* 2^10 is no number of ue4m3, whose largest power of two is 2^8. Numbers 2^9, of codes 1 (0.5), are 4 x 2^7, code 6 and byte 70.
   Codes 7 (6) cannot be larger. */
TEST(codes_are_shifted_where_the_scale_is_none)
{
	uint8_t codes[16], scale = 127 + 10;

	memset(codes, 0x11, 8);
	memset(codes + 8, 0x77, 8);
	const struct made made = change(MXFP_FORMAT_MXFP4, &one, codes, &scale, MXFP_FORMAT_NVFP4, &one, 32);
	ck_assert_uint_eq(made.scales[0], 0x70);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(made.codes[i], 0x66);
	ck_assert_int_eq(made.fits[0], BLOCK_EXACT);
	ck_assert_int_eq(made.fits[1], BLOCK_ROUNDED);
}

/* 1.5 x 2 = 3 and 1 x 3: scales 2 (40) and 3 (44) differ, and all numbers are 3: code 5 with 2^0. With a 1 beside the 1.5, there are
   2, 3 and 3 of scale 1: codes 4, 5, 5. */
TEST(nvfp4_becomes_mxfp4_where_scales_meet)
{
	const uint8_t scales[2] = {0x40, 0x44};
	uint8_t codes[16];

	memset(codes, 0x33, 8);
	memset(codes + 8, 0x22, 8);
	codes[0] = 0x32;
	const struct made made = change(MXFP_FORMAT_NVFP4, &one, codes, scales, MXFP_FORMAT_MXFP4, &one, 32);
	ck_assert_int_eq(made.fits[0], BLOCK_EXACT);
	ck_assert_uint_eq(made.scales[0], 127 - 1);
	ck_assert_uint_eq(made.codes[0], 0x76);
	ck_assert_uint_eq(made.codes[1], 0x77);
	/* A third of 3 is none: numbers 1 (.5 x 2) and 3 (1 x 3) and 9 (3 x 3) have no scale in common with e2m1. */
	codes[8] = 0x25;
	ck_assert_int_eq(change(MXFP_FORMAT_NVFP4, &one, codes, scales, MXFP_FORMAT_MXFP4, &one, 32).fits[0], BLOCK_ROUNDED);
}

/* A tensor scale of 3 makes them multiples of 3 x 2^e, which is exact with codes 1 and 2; one of 1/3, as a divisor, needs numbers that
   3 divides. */
TEST(tensor_scales_need_not_be_powers_of_two)
{
	const struct block_factor three = {3, false}, third = {3, true};
	const uint8_t scales[2] = {0x38, 0x38};
	uint8_t codes[16];

	memset(codes, 0x42, sizeof codes); /* 1 and 2: 3 and 6 */
	struct made made = change(MXFP_FORMAT_NVFP4, &three, codes, scales, MXFP_FORMAT_MXFP4, &one, 32);
	ck_assert_int_eq(made.fits[0], BLOCK_EXACT);
	ck_assert_uint_eq(made.codes[0], 0x75);
	ck_assert_uint_eq(made.scales[0], 127);
	ck_assert_int_eq(change(MXFP_FORMAT_NVFP4, &third, codes, scales, MXFP_FORMAT_MXFP4, &one, 32).fits[0], BLOCK_ROUNDED);
	memset(codes, 0x75, sizeof codes); /* 3 and 6: 1 and 2 */
	made = change(MXFP_FORMAT_NVFP4, &third, codes, scales, MXFP_FORMAT_MXFP4, &one, 32);
	ck_assert_int_eq(made.fits[0], BLOCK_EXACT);
	/* 2 is 4 x 2^-1: with 2^-2 it would be 8. */
	ck_assert_uint_eq(made.codes[0], 0x64);
	ck_assert_uint_eq(made.scales[0], 127 - 1);
}

/* NaN by its scale is NaN by its scale. NaN of e4m3 is NaN of e5m2, and none of e2m1; -0 is no number of int8. */
TEST(special_numbers)
{
	uint8_t codes[32] = {0}, nan = 255, scale = 127;
	const uint8_t halves[2] = {0x7F, 0x38};

	struct made made = change(MXFP_FORMAT_MXFP8_E4M3, &one, codes, &nan, MXFP_FORMAT_NVFP4, &one, 32);
	ck_assert_uint_eq(made.scales[0], 0x7F);
	ck_assert_uint_eq(made.scales[1], 0x7F);
	ck_assert_int_eq(made.fits[0], BLOCK_SAME);
	codes[5] = 0xFF;
	made = change(MXFP_FORMAT_MXFP8_E4M3, &one, codes, &scale, MXFP_FORMAT_MXFP8_E5M2, &one, 32);
	ck_assert_uint_eq(made.codes[5], 0xFE);
	ck_assert_int_eq(made.fits[0], BLOCK_SAME);
	ck_assert_int_eq(change(MXFP_FORMAT_MXFP8_E4M3, &one, codes, &scale, MXFP_FORMAT_MXFP4, &one, 32).fits[0], BLOCK_SPECIAL);
	memset(codes, 0x7F, sizeof codes);
	made = change(MXFP_FORMAT_MXFP8_E4M3, &one, codes, &scale, MXFP_FORMAT_MXFP4, &one, 32);
	ck_assert_uint_eq(made.scales[0], 0xFF);
	ck_assert_int_eq(made.fits[0], BLOCK_SAME);
	memset(codes, 0, sizeof codes);
	codes[5] = 0x7C;
	ck_assert_int_eq(change(MXFP_FORMAT_MXFP8_E5M2, &one, codes, &scale, MXFP_FORMAT_MXFP8_E4M3, &one, 32).fits[0],
	                 BLOCK_SPECIAL);
	codes[5] = 0x80;
	ck_assert_int_eq(change(MXFP_FORMAT_MXFP8_E4M3, &one, codes, &scale, MXFP_FORMAT_MXINT8, &one, 32).fits[0], BLOCK_ROUNDED);
	made = change(MXFP_FORMAT_MXFP8_E4M3, &one, codes, &scale, MXFP_FORMAT_MXFP4, &one, 32);
	ck_assert_uint_eq(made.codes[2], 0x80);
	ck_assert_int_eq(made.fits[0], BLOCK_SAME);
	/* One half is NaN. */
	memset(codes, 0, sizeof codes);
	made = change(MXFP_FORMAT_NVFP4, &one, codes, halves, MXFP_FORMAT_MXFP8_E4M3, &one, 32);
	ck_assert_uint_eq(made.codes[0], 0x7F);
	ck_assert_uint_eq(made.codes[16], 0);
	ck_assert_int_eq(change(MXFP_FORMAT_NVFP4, &one, codes, halves, MXFP_FORMAT_MXFP4, &one, 32).fits[0], BLOCK_SPECIAL);
}

/* A block of zeros keeps a scale that there is, else it has 00; under the scale 0 every code is one. */
TEST(zeros)
{
	const struct block_factor tiny = {0x1p-100F, false};
	const uint8_t none[2] = {0, 0};
	uint8_t codes[32] = {0}, scale = 0;

	struct made made = change(MXFP_FORMAT_MXFP4, &one, codes, &scale, MXFP_FORMAT_NVFP4, &one, 32);
	ck_assert_uint_eq(made.scales[0], 0);
	scale = 27;
	made = change(MXFP_FORMAT_MXFP4, &one, codes, &scale, MXFP_FORMAT_NVFP4, &tiny, 32);
	ck_assert_uint_eq(made.scales[0], 0x38);
	memset(codes, 0xF1, sizeof codes);
	made = change(MXFP_FORMAT_NVFP4, &one, codes, none, MXFP_FORMAT_MXFP4, &one, 32);
	ck_assert_uint_eq(made.scales[0], 0);
	ck_assert_uint_eq(made.codes[0], 0x80);
}

/* Numbers: 1 and 1.875 x 2^8 are held by e4m3 with 2^1, as 480 is above 448; 1 + 2^-4 by none. Those that lie behind the
   row are not looked at. */
TEST(numbers_become_blocks)
{
	float x[32] = {1, 480, [31] = 1 + 0x1p-4F};

	struct made made = change(MXFP_FORMAT_F32, &one, x, NULL, MXFP_FORMAT_MXFP8_E4M3, &one, 31);
	ck_assert_int_eq(made.fits[0], BLOCK_EXACT);
	ck_assert_uint_eq(made.scales[0], 128);
	ck_assert_uint_eq(made.codes[0], 0x30);
	ck_assert_uint_eq(made.codes[1], 0x77);
	ck_assert_int_eq(change(MXFP_FORMAT_F32, &one, x, NULL, MXFP_FORMAT_MXFP8_E4M3, &one, 32).fits[0], BLOCK_ROUNDED);
}

/* Of two blocks of zeros behind each other NVFP4 may have one alone in a row. */
TEST(half_a_unit)
{
	const uint8_t scale = 0x38;
	uint8_t codes[8];

	memset(codes, 0x22, sizeof codes);
	struct made made = change(MXFP_FORMAT_NVFP4, &one, codes, &scale, MXFP_FORMAT_MXFP4, &one, 16);
	ck_assert_int_eq(made.fits[0], BLOCK_SAME);
	ck_assert_uint_eq(made.scales[0], 127);
	ck_assert_uint_eq(made.codes[7], 0x22);
	ck_assert_uint_eq(made.codes[8], 0);
	uint8_t whole[16] = {0x22, [8] = 0x77};
	const uint8_t e8m0 = 127;
	made = change(MXFP_FORMAT_MXFP4, &one, whole, &e8m0, MXFP_FORMAT_NVFP4, &one, 16);
	ck_assert_uint_eq(made.fits[1], 0xEE);
	ck_assert_uint_eq(made.codes[8], 0xEE);
}

TEST(a_factor_is_a_number_above_zero)
{
	const float bad[] = {0, -0.0F, -1, 0x1p-149F * -1, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const struct block_factor factor = {bad[i], false};

		ck_assert(!block_factor_is_valid(&factor));
	}
	const struct block_factor least = {0x1p-149F, true};
	ck_assert(block_factor_is_valid(&least));
}

/* Scales 2^-3 and 2^14 have 17 steps between them, which ue4m3 has just: 2^8 to 2^-9, with 2^6. With 2^15, of twice as many blocks,
   2^6 has 4 of 8 halves, and 2^7 has 6. */
TEST(the_tensor_scale_with_most_exact_blocks)
{
	struct block_spread *spread = calloc(1, sizeof *spread);
	struct block_change *change = malloc(sizeof *change);
	uint64_t exact, same;
	uint8_t codes[16];

	ck_assert(spread != NULL && change != NULL);
	memset(codes, 0x71, sizeof codes); /* 0.5 and 6: no other scale */
	block_change_begin(change, MXFP_FORMAT_MXFP4, &one, MXFP_FORMAT_NVFP4, &one);
	const uint8_t scales[] = {127 - 3, 127 + 14, 127 + 15};
	for (int i = 0; i < 2; i++)
		block_spread_row(spread, change, 32, codes, &scales[i]);
	ck_assert_int_eq(block_spread_best(spread, BLOCK_LEAST_T, BLOCK_MOST_T, &exact, &same), 6);
	ck_assert_uint_eq(exact, 4);
	ck_assert_uint_eq(same, 4);
	for (int i = 0; i < 2; i++)
		block_spread_row(spread, change, 32, codes, &scales[2]);
	ck_assert_int_eq(block_spread_best(spread, BLOCK_LEAST_T, BLOCK_MOST_T, &exact, &same), 7);
	ck_assert_uint_eq(exact, 6);
	/* Of nothing but zeros. */
	memset(spread, 0, sizeof *spread);
	memset(codes, 0, sizeof codes);
	block_spread_row(spread, change, 32, codes, &scales[0]);
	ck_assert_int_eq(block_spread_best(spread, BLOCK_LEAST_T, BLOCK_MOST_T, &exact, &same), 0);
	free(spread);
	free(change);
}
