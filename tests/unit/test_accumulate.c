/* SPDX-License-Identifier: MIT */
/* mxfp_accumulate() and mxfp_sum_arrays(): sums calculated by hand, rows and gaps, in place, the last index, nothing. */
#include <string.h>

#include "bits.h"
#include "mxfp/accumulate.h"
#include "mxfp/philox.h"
#include "suite.h"

static uint32_t bits_of(float x)
{
	return mxfp_f32_bits(x);
}

static enum mxfp_status add(void *dst, enum mxfp_format format, size_t stride, const struct mxfp_matrix *src,
                            const struct mxfp_accumulate_options *o)
{
	struct mxfp_result sum = mxfp_to_numbers(format, dst);

	sum.stride = stride;
	return mxfp_accumulate(&sum, src, o, NULL);
}

/* Scales 2^1 and 2^-2; e4m3 38 is 1, C0 is -2, 01 is 2^-9. */
TEST(mxfp8_to_f32)
{
	uint8_t codes[2][64] = {{0x38, 0xC0, 0x01}, {0x38}}, scales[2][2] = {{128, 127}, {125, 127}};
	float dst[2][40];
	const struct mxfp_matrix src = {
		.size = sizeof src, .format = MXFP_FORMAT_MXFP8_E4M3, .rows = 2, .cols = 33, .data = codes, .scales = scales,
	};

	codes[0][32] = 0x38;
	for (int i = 0; i < 80; i++)
		dst[i / 40][i % 40] = 0.5F;
	assert_status(add(dst, MXFP_FORMAT_F32, 40, &src, NULL), MXFP_OK);
	ck_assert(dst[0][0] == 2.5F && dst[0][1] == -3.5F && dst[0][2] == 0.50390625F && dst[0][3] == 0.5F);
	ck_assert(dst[0][32] == 1.5F && dst[0][33] == 0.5F && dst[1][0] == 0.75F && dst[1][39] == 0.5F);
	assert_status(add(dst, MXFP_FORMAT_F32, 40, &src, NULL), MXFP_OK);
	ck_assert(dst[0][0] == 4.5F && dst[1][0] == 1);
	suite_compared(8);
}

/* e2m1 codes 7 and 1 are 6 and 0.5, times scale 38 = 1, times or divided by 4. */
TEST(nvfp4_has_a_tensor_scale)
{
	const uint8_t codes[8] = {0x17}, scales[1] = {0x38};
	struct mxfp_matrix src = {
		.size = sizeof src,
		.format = MXFP_FORMAT_NVFP4,
		.rows = 1,
		.cols = 16,
		.data = codes,
		.scales = scales,
		.tensor_scale = 4,
	};
	float dst[16] = {1, 1};

	assert_status(add(dst, MXFP_FORMAT_F32, 0, &src, NULL), MXFP_OK);
	ck_assert(dst[0] == 25 && dst[1] == 3);
	src.tensor_scale_divides = true;
	assert_status(add(dst, MXFP_FORMAT_F32, 0, &src, NULL), MXFP_OK);
	ck_assert(dst[0] == 26.5F && dst[1] == 3.125F);
}

/* bf16 has steps of 2 from 256 on: 257 is a tie and goes to 256, 259 to 260. By sr either goes up iff r < 2^31. */
TEST(bf16_by_rne_and_sr)
{
	const float more[3] = {1, 3, 2};
	uint16_t dst[3] = {0x4380, 0x4380, 0x4380};
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, 1, 3, more);

	assert_status(add(dst, MXFP_FORMAT_BF16, 0, &src, NULL), MXFP_OK);
	ck_assert(dst[0] == 0x4380 && dst[1] == 0x4382 && dst[2] == 0x4381);
	for (uint64_t index = 0; index < 64; index += 2) {
		const struct mxfp_accumulate_options o = {
			.size = sizeof o, .round = MXFP_ROUND_SR, .seed = 7, .stream = 9, .first_index = index,
		};
		const struct mxfp_matrix rows = mxfp_numbers(MXFP_FORMAT_F32, 2, 1, more);
		uint16_t sum[3] = {0x4380, 0, 0x4380};

		assert_status(add(sum, MXFP_FORMAT_BF16, 2, &rows, &o), MXFP_OK);
		ck_assert_int_eq(sum[0], mxfp_philox_word(7, 9, index) < UINT32_C(1) << 31 ? 0x4381 : 0x4380);
		ck_assert_int_eq(sum[2], mxfp_philox_word(7, 9, index + 1) < UINT32_C(1) << 31 ? 0x4382 : 0x4381);
		const void *const both[2] = {more, more + 3 - 1};
		const float base[1] = {256};
		const void *const pair[2] = {base, both[0]};
		assert_status(mxfp_sum_arrays(sum, MXFP_FORMAT_BF16, pair, 2, MXFP_FORMAT_F32, 1, &o, NULL), MXFP_OK);
		ck_assert_int_eq(sum[0], mxfp_philox_word(7, 9, index) < UINT32_C(1) << 31 ? 0x4381 : 0x4380);
	}
	suite_compared(3 + 3 * 32);
}

TEST(special_values)
{
	static const uint32_t a[6] = {0x80000000, 0x80000000, 0x7F800000, 0x7F800000, 0xFFC12345, 0x7F7FFFFF};
	static const uint32_t b[6] = {0x80000000, 0x00000000, 0xFF800000, 0x7F800000, 0x3F800000, 0x7F7FFFFF};
	static const uint32_t want[6] = {0x80000000, 0x00000000, 0x7FC00000, 0x7F800000, 0x7FC00000, 0x7F800000};
	const struct mxfp_matrix src = mxfp_numbers(MXFP_FORMAT_F32, 1, 6, b);
	const void *const both[2] = {a, b}, *const one[1] = {a};
	uint32_t dst[6];

	memcpy(dst, a, sizeof dst);
	assert_status(add(dst, MXFP_FORMAT_F32, 0, &src, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, want, sizeof want);
	assert_status(mxfp_sum_arrays(dst, MXFP_FORMAT_F32, both, 2, MXFP_FORMAT_F32, 6, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, want, sizeof want);
	assert_status(mxfp_sum_arrays(dst, MXFP_FORMAT_F32, one, 1, MXFP_FORMAT_F32, 6, NULL, NULL), MXFP_OK);
	ck_assert(dst[0] == 0x80000000 && dst[4] == 0x7FC00000 && dst[5] == 0x7F7FFFFF);
}

/* In binary32, 2^24 + 1 - 2^24 would be 0; in binary64 2^54 + 1 - 2^54 is, and 2^54 - 2^54 + 1 is not. The sum of three
   halves of FLT_MAX passes it on the way and comes back. */
TEST(sum_is_a_chain_in_binary64)
{
	const float big[4] = {0x1p24F, 0x1p54F, 0x1p54F, 0x1.fffffep127F}, one[4] = {1, 1, -0x1p54F, 0x1p127F};
	const float less[4] = {-0x1p24F, -0x1p54F, 1, -0x1p127F};
	const float want[4] = {1, 0, 1, 0x1.fffffep127F};
	const void *const src[3] = {big, one, less};
	float dst[4];

	assert_status(mxfp_sum_arrays(dst, MXFP_FORMAT_F32, src, 3, MXFP_FORMAT_F32, 4, NULL, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, want, sizeof want);
	suite_compared(4);
}

enum { N = 2500 };

/* Whichever buffer is the destination, the result is the same; 2500 numbers are more than one strip. */
TEST_LOOP(sum_in_place, 4)
{
	static float f[4][N + 1];
	static uint16_t h[4][N + 1];
	const bool bf16 = _i >= 2;
	const enum mxfp_format format = bf16 ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32;
	const size_t width = bf16 ? 2 : 4, shift = _i % 2; /* also misaligned */
	unsigned char *buffer[4];
	const void *src[3];

	for (int b = 0; b < 4; b++) {
		for (int i = 0; i < N; i++) {
			const float x = (float)((i * 37 + b * 1001) % 251 - 125);
			const uint16_t half = (uint16_t)(bits_of(x) >> 16); /* at most 7 bits: exact */

			memcpy((unsigned char *)f[b] + shift + 4 * (size_t)i, &x, sizeof x);
			memcpy((unsigned char *)h[b] + shift + 2 * (size_t)i, &half, sizeof half);
		}
		buffer[b] = (bf16 ? (unsigned char *)h[b] : (unsigned char *)f[b]) + shift;
	}
	for (int b = 0; b < 3; b++)
		src[b] = buffer[b];
	assert_status(mxfp_sum_arrays(buffer[3], format, src, 3, format, N, NULL, NULL), MXFP_OK);
	for (int i = 0; i < N; i++) {
		int sum = 0;

		for (int b = 0; b < 3; b++)
			sum += (i * 37 + b * 1001) % 251 - 125;
		float got = 0;
		if (bf16) {
			uint16_t half;

			memcpy(&half, buffer[3] + 2 * (size_t)i, 2);
			got = mxfp_f32_from_bits((uint32_t)half << 16);
			ck_assert(sum > 256 || sum < -256 || got == (float)sum); /* up to 2^8 every integer is a bf16 */
		} else {
			memcpy(&got, buffer[3] + 4 * (size_t)i, 4);
			ck_assert(got == (float)sum);
		}
	}
	unsigned char kept[4 * N];
	for (int b = 0; b < 3; b++) {
		memcpy(kept, buffer[b], width * N);
		assert_status(mxfp_sum_arrays(buffer[b], format, src, 3, format, N, NULL, NULL), MXFP_OK);
		ck_assert_mem_eq(buffer[b], buffer[3], width * N);
		memcpy(buffer[b], kept, width * N);
	}
	suite_compared(4 * N);
}

TEST(nothing_to_add)
{
	const struct mxfp_matrix no_rows = mxfp_numbers(MXFP_FORMAT_MXFP4, 0, 32, NULL);
	const struct mxfp_matrix no_cols = mxfp_numbers(MXFP_FORMAT_E4M3, 3, 0, NULL);

	assert_status(add(NULL, MXFP_FORMAT_F32, 0, &no_rows, NULL), MXFP_OK);
	assert_status(add(NULL, MXFP_FORMAT_BF16, 0, &no_cols, NULL), MXFP_OK);
	assert_status(mxfp_sum_arrays(NULL, MXFP_FORMAT_F32, NULL, 1, MXFP_FORMAT_F32, 0, NULL, NULL), MXFP_OK);
	suite_compared(3);
}

/* The last index is 2^64 - 2, and the array of pointers is not to be written. */
TEST(indices_and_pointers)
{
	float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
	union {
		const void *pointers[4];
		float numbers[8];
	} u = {.pointers = {x, x}};
	const enum mxfp_format f32 = MXFP_FORMAT_F32;
	const struct mxfp_matrix m = mxfp_numbers(f32, 2, 4, x);
	const struct mxfp_accumulate_options o = {.size = sizeof o, .first_index = UINT64_MAX - 8};
	char *const behind = (char *)u.numbers + 2 * sizeof(void *);

	assert_status(add(y, f32, 0, &m, &o), MXFP_OK);
	assert_status(mxfp_sum_arrays(y, f32, u.pointers, 2, f32, 8, &o, NULL), MXFP_OK);
	assert_status(mxfp_sum_arrays(behind - 4, f32, u.pointers, 2, f32, 2, NULL, NULL), MXFP_ERR_OVERLAP);
	ck_assert(u.pointers[0] == x && u.pointers[1] == x);
	assert_status(mxfp_sum_arrays(behind, f32, u.pointers, 2, f32, 2, NULL, NULL), MXFP_OK);
	ck_assert(u.numbers[2 * sizeof(void *) / 4] == 2 && u.numbers[2 * sizeof(void *) / 4 + 1] == 4);
	suite_compared(4);
}
