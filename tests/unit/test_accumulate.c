/* SPDX-License-Identifier: MIT */
/* mxfp_accumulate() and mxfp_reduce(): sums calculated by hand, rows and gaps, in place, and each status with the
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

/* Scales 2^1 and 2^-2; e4m3 38 is 1, C0 is -2, 01 is 2^-9. */
TEST(mxfp8_to_f32)
{
	uint8_t codes[2][64] = {{0x38, 0xC0, 0x01}, {0x38}}, scales[2][2] = {{128, 127}, {125, 127}};
	float dst[2][40];
	const struct mxfp_matrix src = {
		.format = MXFP_FORMAT_MXFP8_E4M3, .rows = 2, .cols = 33, .data = codes, .scales = scales,
	};

	codes[0][32] = 0x38;
	for (int i = 0; i < 80; i++)
		dst[i / 40][i % 40] = 0.5F;
	assert_status(mxfp_accumulate(&src, dst, MXFP_FORMAT_F32, 40, NULL), MXFP_OK);
	ck_assert(dst[0][0] == 2.5F && dst[0][1] == -3.5F && dst[0][2] == 0.50390625F && dst[0][3] == 0.5F);
	ck_assert(dst[0][32] == 1.5F && dst[0][33] == 0.5F && dst[1][0] == 0.75F && dst[1][39] == 0.5F);
	assert_status(mxfp_accumulate(&src, dst, MXFP_FORMAT_F32, 40, NULL), MXFP_OK);
	ck_assert(dst[0][0] == 4.5F && dst[1][0] == 1);
	suite_compared(8);
}

/* e2m1 codes 7 and 1 are 6 and 0.5, times scale 38 = 1, times or divided by 4. */
TEST(nvfp4_has_a_tensor_scale)
{
	const uint8_t codes[8] = {0x17}, scales[1] = {0x38};
	struct mxfp_matrix src = {
		.format = MXFP_FORMAT_NVFP4, .rows = 1, .cols = 16, .data = codes, .scales = scales, .tensor_scale = 4,
	};
	float dst[16] = {1, 1};

	assert_status(mxfp_accumulate(&src, dst, MXFP_FORMAT_F32, 0, NULL), MXFP_OK);
	ck_assert(dst[0] == 25 && dst[1] == 3);
	src.tensor_scale_divides = true;
	assert_status(mxfp_accumulate(&src, dst, MXFP_FORMAT_F32, 0, NULL), MXFP_OK);
	ck_assert(dst[0] == 26.5F && dst[1] == 3.125F);
}

/* bf16 has steps of 2 from 256 on: 257 is a tie and goes to 256, 259 to 260. By sr either goes up iff r < 2^31. */
TEST(bf16_by_rne_and_sr)
{
	const float add[3] = {1, 3, 2};
	uint16_t dst[3] = {0x4380, 0x4380, 0x4380};
	const struct mxfp_matrix src = {.format = MXFP_FORMAT_F32, .rows = 1, .cols = 3, .data = add};

	assert_status(mxfp_accumulate(&src, dst, MXFP_FORMAT_BF16, 0, NULL), MXFP_OK);
	ck_assert(dst[0] == 0x4380 && dst[1] == 0x4382 && dst[2] == 0x4381);
	for (uint64_t index = 0; index < 64; index += 2) {
		const struct mxfp_accumulate_options o = {
			.round = MXFP_ROUND_SR, .seed = 7, .stream = 9, .first_index = index,
		};
		const struct mxfp_matrix rows = {.format = MXFP_FORMAT_F32, .rows = 2, .cols = 1, .data = add};
		uint16_t sum[3] = {0x4380, 0, 0x4380};

		assert_status(mxfp_accumulate(&rows, sum, MXFP_FORMAT_BF16, 2, &o), MXFP_OK);
		ck_assert_int_eq(sum[0], mxfp_philox_word(7, 9, index) < UINT32_C(1) << 31 ? 0x4381 : 0x4380);
		ck_assert_int_eq(sum[2], mxfp_philox_word(7, 9, index + 1) < UINT32_C(1) << 31 ? 0x4382 : 0x4381);
		const void *const both[2] = {add, add + 3 - 1};
		const float base[1] = {256};
		const void *const pair[2] = {base, both[0]};
		assert_status(mxfp_reduce(sum, MXFP_FORMAT_BF16, pair, MXFP_FORMAT_F32, 2, 1, &o), MXFP_OK);
		ck_assert_int_eq(sum[0], mxfp_philox_word(7, 9, index) < UINT32_C(1) << 31 ? 0x4381 : 0x4380);
	}
	suite_compared(3 + 3 * 32);
}

TEST(special_values)
{
	static const uint32_t a[6] = {0x80000000, 0x80000000, 0x7F800000, 0x7F800000, 0xFFC12345, 0x7F7FFFFF};
	static const uint32_t b[6] = {0x80000000, 0x00000000, 0xFF800000, 0x7F800000, 0x3F800000, 0x7F7FFFFF};
	static const uint32_t want[6] = {0x80000000, 0x00000000, 0x7FC00000, 0x7F800000, 0x7FC00000, 0x7F800000};
	const struct mxfp_matrix src = {.format = MXFP_FORMAT_F32, .rows = 1, .cols = 6, .data = b};
	const void *const both[2] = {a, b}, *const one[1] = {a};
	uint32_t dst[6];

	memcpy(dst, a, sizeof dst);
	assert_status(mxfp_accumulate(&src, dst, MXFP_FORMAT_F32, 0, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, want, sizeof want);
	assert_status(mxfp_reduce(dst, MXFP_FORMAT_F32, both, MXFP_FORMAT_F32, 2, 6, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, want, sizeof want);
	assert_status(mxfp_reduce(dst, MXFP_FORMAT_F32, one, MXFP_FORMAT_F32, 1, 6, NULL), MXFP_OK);
	ck_assert(dst[0] == 0x80000000 && dst[4] == 0x7FC00000 && dst[5] == 0x7F7FFFFF);
}

/* In binary32, 2^24 + 1 - 2^24 would be 0; in binary64 2^54 + 1 - 2^54 is, and 2^54 - 2^54 + 1 is not. The sum of three
   halves of FLT_MAX passes it on the way and comes back. */
TEST(reduce_is_a_chain_in_binary64)
{
	const float big[4] = {0x1p24F, 0x1p54F, 0x1p54F, 0x1.fffffep127F}, one[4] = {1, 1, -0x1p54F, 0x1p127F};
	const float less[4] = {-0x1p24F, -0x1p54F, 1, -0x1p127F};
	const float want[4] = {1, 0, 1, 0x1.fffffep127F};
	const void *const src[3] = {big, one, less};
	float dst[4];

	assert_status(mxfp_reduce(dst, MXFP_FORMAT_F32, src, MXFP_FORMAT_F32, 3, 4, NULL), MXFP_OK);
	ck_assert_mem_eq(dst, want, sizeof want);
	suite_compared(4);
}

enum { N = 2500 };

/* Whichever buffer is the destination, the result is the same; 2500 numbers are more than one strip. */
TEST_LOOP(reduce_in_place, 4)
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
	assert_status(mxfp_reduce(buffer[3], format, src, format, 3, N, NULL), MXFP_OK);
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
		assert_status(mxfp_reduce(buffer[b], format, src, format, 3, N, NULL), MXFP_OK);
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
	assert_status(mxfp_accumulate(src, dst, format, stride, o), want);
	ck_assert_mem_eq(sums, before, sizeof sums);
	suite_compared(1);
}

TEST(what_accumulate_refuses)
{
	static uint8_t codes[128], scales[4];
	const struct mxfp_matrix good = {
		.format = MXFP_FORMAT_MXFP8_E4M3, .rows = 2, .cols = 32, .data = codes, .scales = scales,
	};
	struct mxfp_matrix m = good;
	struct mxfp_accumulate_options o = {0};
	struct mxfp_exec exec = {.isa = "none"};

	refused(NULL, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	refused(&m, NULL, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	refused(&m, sums, MXFP_FORMAT_F16, 0, NULL, MXFP_ERR_FORMAT);
	refused(&m, sums, MXFP_FORMAT_MXFP4, 0, NULL, MXFP_ERR_FORMAT);
	refused(&m, sums, MXFP_FORMAT_F32, 31, NULL, MXFP_ERR_SIZE);
	refused(&m, sums, MXFP_FORMAT_F32, SIZE_MAX / 2, NULL, MXFP_ERR_SIZE);
	refused(&m, codes + 60, MXFP_FORMAT_BF16, 0, NULL, MXFP_ERR_OVERLAP);
	refused(&m, scales, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_OVERLAP);
	o.round = MXFP_ROUND_SR;
	refused(&m, sums, MXFP_FORMAT_F32, 0, &o, MXFP_ERR_OPTION);
	o.round = MXFP_ROUND_RTZ;
	refused(&m, sums, MXFP_FORMAT_BF16, 0, &o, MXFP_ERR_OPTION);
	o.round = (enum mxfp_round)99;
	refused(&m, sums, MXFP_FORMAT_BF16, 0, &o, MXFP_ERR_OPTION);
	o = (struct mxfp_accumulate_options){.exec = &exec};
	refused(&m, sums, MXFP_FORMAT_F32, 0, &o, MXFP_ERR_OPTION);
	o = (struct mxfp_accumulate_options){.first_index = UINT64_MAX - 63};
	refused(&m, sums, MXFP_FORMAT_F32, 0, &o, MXFP_ERR_SIZE);
	m.format = (enum mxfp_format)MXFP_N_FORMATS;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.transposed = true;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_FORMAT);
	m = good;
	m.sparsity = (struct mxfp_sparsity){2, 4};
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_OPTION);
	m = good;
	m.data = NULL;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	m = good;
	m.scales = NULL;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_NULL);
	m = good;
	m.stride = 31;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_SIZE);
	m = good;
	m.rows = SIZE_MAX / 8;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_SIZE);
	m = (struct mxfp_matrix){.format = MXFP_FORMAT_F32, .rows = 1, .cols = SIZE_MAX / 2, .data = sums};
	refused(&m, codes, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_SIZE);
	m.cols = 64;
	refused(&m, sums, MXFP_FORMAT_F32, 0, NULL, MXFP_ERR_OVERLAP);
	m = (struct mxfp_matrix){.format = MXFP_FORMAT_MXFP4, .rows = 0, .cols = 32};
	assert_status(mxfp_accumulate(&m, NULL, MXFP_FORMAT_F32, 0, NULL), MXFP_OK);
	m = (struct mxfp_matrix){.format = MXFP_FORMAT_E4M3, .rows = 3, .cols = 0};
	assert_status(mxfp_accumulate(&m, NULL, MXFP_FORMAT_BF16, 0, NULL), MXFP_OK);
}

TEST(what_reduce_refuses)
{
	static float x[8], y[8], dst[8];
	const void *const src[2] = {x, y}, *const hole[2] = {x, NULL};
	const struct mxfp_accumulate_options sr = {.round = MXFP_ROUND_SR}, late = {.first_index = UINT64_MAX - 7};
	const enum mxfp_format f32 = MXFP_FORMAT_F32, bf16 = MXFP_FORMAT_BF16;

	assert_status(mxfp_reduce(dst, MXFP_FORMAT_F16, src, f32, 2, 8, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_reduce(dst, f32, src, MXFP_FORMAT_MXFP4, 2, 8, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_reduce(dst, f32, src, MXFP_FORMAT_F16, 2, 8, NULL), MXFP_ERR_FORMAT);
	assert_status(mxfp_reduce(dst, f32, src, f32, 2, 8, &sr), MXFP_ERR_OPTION);
	assert_status(mxfp_reduce(dst, f32, src, f32, 2, 8, &late), MXFP_ERR_SIZE);
	assert_status(mxfp_reduce(dst, f32, src, f32, 0, 8, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_reduce(dst, f32, src, f32, 2, SIZE_MAX / 4, NULL), MXFP_ERR_SIZE);
	assert_status(mxfp_reduce(NULL, f32, src, f32, 2, 8, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_reduce(dst, f32, NULL, f32, 2, 8, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_reduce(dst, f32, hole, f32, 2, 8, NULL), MXFP_ERR_NULL);
	assert_status(mxfp_reduce(x + 1, f32, src, f32, 2, 7, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_reduce(y, bf16, src, f32, 2, 8, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_reduce(NULL, f32, NULL, f32, 1, 0, NULL), MXFP_OK);
	assert_status(mxfp_reduce(y, f32, src, f32, 2, 8, NULL), MXFP_OK);
	suite_compared(14);
}

/* The last index is 2^64 - 2, and the array of pointers is not to be written. */
TEST(indices_and_pointers)
{
	float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
	union {
		const void *pointers[4];
		float numbers[8];
	} u = {.pointers = {x, x}};
	const struct mxfp_matrix m = {.rows = 2, .cols = 4, .data = x};
	struct mxfp_accumulate_options o = {.first_index = UINT64_MAX - 8};

	assert_status(mxfp_accumulate(&m, y, MXFP_FORMAT_F32, 0, &o), MXFP_OK);
	assert_status(mxfp_reduce(y, MXFP_FORMAT_F32, u.pointers, MXFP_FORMAT_F32, 2, 8, &o), MXFP_OK);
	o.first_index++;
	assert_status(mxfp_accumulate(&m, y, MXFP_FORMAT_F32, 0, &o), MXFP_ERR_SIZE);
	assert_status(mxfp_reduce(y, MXFP_FORMAT_F32, u.pointers, MXFP_FORMAT_F32, 2, 8, &o), MXFP_ERR_SIZE);
	assert_status(mxfp_reduce(u.numbers, MXFP_FORMAT_F32, u.pointers, MXFP_FORMAT_F32, 2, 1, NULL), MXFP_ERR_OVERLAP);
	assert_status(mxfp_reduce((char *)u.numbers + 2 * sizeof(void *) - 4, MXFP_FORMAT_F32, u.pointers, MXFP_FORMAT_F32, 2, 2, NULL),
	              MXFP_ERR_OVERLAP);
	ck_assert(u.pointers[0] == x && u.pointers[1] == x);
	assert_status(mxfp_reduce((char *)u.numbers + 2 * sizeof(void *), MXFP_FORMAT_F32, u.pointers, MXFP_FORMAT_F32, 2, 2, NULL), MXFP_OK);
	ck_assert(u.numbers[2 * sizeof(void *) / 4] == 2 && u.numbers[2 * sizeof(void *) / 4 + 1] == 4);
	suite_compared(7);
}
