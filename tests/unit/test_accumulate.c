/* SPDX-License-Identifier: MIT */
/* mxfp_accumulate() and mxfp_sum_arrays(): sums calculated by hand, rows and gaps, in place, and each status with the
   destination untouched. */
#include <string.h>

#include "bits.h"
#include "format.h"
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

/* Refused with the status, and dst stays. */
static float sums[64];

static void refused(const struct mxfp_matrix *src, void *dst, enum mxfp_format format, size_t stride,
                    const struct mxfp_accumulate_options *o, enum mxfp_status want)
{
	float before[64];

	memcpy(before, sums, sizeof sums);
	assert_status(add(dst, format, stride, src, o), want);
	ck_assert_mem_eq(sums, before, sizeof sums);
	suite_compared(1);
}

TEST(what_accumulate_refuses)
{
	static uint8_t codes[128], scales[4];
	const struct mxfp_matrix good = {
		.size = sizeof good, .format = MXFP_FORMAT_MXFP8_E4M3, .rows = 2, .cols = 32, .data = codes, .scales = scales,
	};
	struct mxfp_matrix m = good;
	struct mxfp_accumulate_options o = {.size = sizeof o};
	const struct mxfp_exec exec = {.size = sizeof exec, .isa = "none"}, no_size = {.threads = 1};
	struct mxfp_counts counts = {.size = sizeof counts};
	struct mxfp_blocks blocks = mxfp_blocks_at(MXFP_FORMAT_MXFP4, 2, 32, codes + 64, scales + 2);
	struct mxfp_result result = mxfp_to_numbers(MXFP_FORMAT_F32, sums);

	refused(NULL, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	refused(&m, NULL, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	refused(&m, sums, MXFP_FORMAT_F16, 0, NULL, MXFP_ERR_FORMAT);
	refused(&m, sums, MXFP_FORMAT_MXFP4, 0, NULL, MXFP_ERR_FORMAT);
	refused(&m, sums, MXFP_FORMAT_F32, 31, NULL, MXFP_ERR_STRIDE);
	refused(&m, sums, MXFP_FORMAT_F32, SIZE_MAX / 2, NULL, MXFP_ERR_SIZE);
	refused(&m, codes + 60, MXFP_FORMAT_BF16, 0, NULL, MXFP_ERR_OVERLAP);
	refused(&m, scales, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_OVERLAP);
	o.round = MXFP_ROUND_SR;
	refused(&m, sums, MXFP_FORMAT_F32, 0, &o, MXFP_ERR_OPTION);
	o.round = MXFP_ROUND_RTZ;
	refused(&m, sums, MXFP_FORMAT_BF16, 0, &o, MXFP_ERR_OPTION);
	o.round = (enum mxfp_round)99;
	refused(&m, sums, MXFP_FORMAT_BF16, 0, &o, MXFP_ERR_OPTION);
	o = (struct mxfp_accumulate_options){.size = 0};
	refused(&m, sums, MXFP_FORMAT_F32, 0, &o, MXFP_ERR_VERSION);
	o = (struct mxfp_accumulate_options){.size = sizeof o, .first_index = UINT64_MAX - 63};
	refused(&m, sums, MXFP_FORMAT_F32, 0, &o, MXFP_ERR_SIZE);
	assert_status(mxfp_accumulate(&result, &m, NULL, &exec), MXFP_ERR_ISA);
	assert_status(mxfp_accumulate(&result, &m, NULL, &no_size), MXFP_ERR_VERSION);
	assert_status(mxfp_accumulate(NULL, &m, NULL, NULL), MXFP_ERR_NULL);
	result.counts = &counts;
	assert_status(mxfp_accumulate(&result, &m, NULL, NULL), MXFP_ERR_OPTION);
	result = mxfp_to_blocks(&blocks);
	result.data = sums;
	assert_status(mxfp_accumulate(&result, &m, NULL, NULL), MXFP_ERR_OPTION);
	result = mxfp_to_numbers(MXFP_FORMAT_F32, sums);
	result.size = 0;
	assert_status(mxfp_accumulate(&result, &m, NULL, NULL), MXFP_ERR_VERSION);
	m.size = 0;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_VERSION);
	m = good;
	m.format = (enum mxfp_format)MXFP_N_FORMATS;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.transposed = true;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.sparsity = (struct mxfp_sparsity){2, 4};
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.data = NULL;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	m = good;
	m.scales = NULL;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	m = good;
	m.stride = 31;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_STRIDE);
	m = good;
	m.rows = SIZE_MAX / 8;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_SIZE);
	m = mxfp_numbers(MXFP_FORMAT_F32, 1, SIZE_MAX / 2, sums);
	refused(&m, codes, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_SIZE);
	m.cols = 64;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_OVERLAP);
	m = mxfp_numbers(MXFP_FORMAT_MXFP4, 0, 32, NULL);
	assert_status(add(NULL, MXFP_FORMAT_F32, 0, &m, NULL), MXFP_OK);
	m = mxfp_numbers(MXFP_FORMAT_E4M3, 3, 0, NULL);
	assert_status(add(NULL, MXFP_FORMAT_BF16, 0, &m, NULL), MXFP_OK);
}

TEST(what_sum_arrays_refuses)
{
	static float x[8], y[8], dst[8];
	const void *const src[2] = {x, y}, *const hole[2] = {x, NULL};
	const struct mxfp_accumulate_options sr = {.size = sizeof sr, .round = MXFP_ROUND_SR}, no_size = {.size = 0};
	const struct mxfp_accumulate_options late = {.size = sizeof late, .first_index = UINT64_MAX - 7};
	const struct mxfp_exec exec = {.size = sizeof exec, .isa = "none"};
	const enum mxfp_format f32 = MXFP_FORMAT_F32, bf16 = MXFP_FORMAT_BF16;

	assert_status(mxfp_sum_arrays(dst, MXFP_FORMAT_F16, src, 2, f32, 8, NULL, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, MXFP_FORMAT_MXFP4, 8, NULL, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, MXFP_FORMAT_F16, 8, NULL, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, f32, 8, &sr, NULL), MXFP_ERR_OPTION);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, f32, 8, &late, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, f32, 8, &no_size, NULL), MXFP_ERR_VERSION);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, f32, 8, NULL, &exec), MXFP_ERR_ISA);
	assert_status(mxfp_sum_arrays(dst, f32, src, 0, f32, 8, NULL, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sum_arrays(dst, f32, src, 2, f32, SIZE_MAX / 4, NULL, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sum_arrays(NULL, f32, src, 2, f32, 8, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sum_arrays(dst, f32, NULL, 2, f32, 8, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sum_arrays(dst, f32, hole, 2, f32, 8, NULL, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_sum_arrays(x + 1, f32, src, 2, f32, 7, NULL, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sum_arrays(y, bf16, src, 2, f32, 8, NULL, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sum_arrays(NULL, f32, NULL, 1, f32, 0, NULL, NULL), MXFP_OK);
	assert_status(mxfp_sum_arrays(y, f32, src, 2, f32, 8, NULL, NULL), MXFP_OK);
	suite_compared(16);
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
	struct mxfp_accumulate_options o = {.size = sizeof o, .first_index = UINT64_MAX - 8};
	char *const behind = (char *)u.numbers + 2 * sizeof(void *);

	assert_status(add(y, f32, 0, &m, &o), MXFP_OK);
	assert_status(mxfp_sum_arrays(y, f32, u.pointers, 2, f32, 8, &o, NULL), MXFP_OK);
	o.first_index++;
	assert_status(add(y, f32, 0, &m, &o), MXFP_ERR_SIZE);
	assert_status(mxfp_sum_arrays(y, f32, u.pointers, 2, f32, 8, &o, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_sum_arrays(u.numbers, f32, u.pointers, 2, f32, 1, NULL, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_sum_arrays(behind - 4, f32, u.pointers, 2, f32, 2, NULL, NULL), MXFP_ERR_OVERLAP);
	ck_assert(u.pointers[0] == x && u.pointers[1] == x);
	assert_status(mxfp_sum_arrays(behind, f32, u.pointers, 2, f32, 2, NULL, NULL), MXFP_OK);
	ck_assert(u.numbers[2 * sizeof(void *) / 4] == 2 && u.numbers[2 * sizeof(void *) / 4 + 1] == 4);
	suite_compared(7);
}
