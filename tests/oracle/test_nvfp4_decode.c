/* SPDX-License-Identifier: MIT */
/* mxfp_dequantize() from NVFP4: every code under every scale byte, against MPFR. */
#include "mxfp/quantize.h"

#include <inttypes.h>
#include <string.h>

#include "oracle/oracle_nvfp4.h"
#include "suite.h"

enum { N_BYTES = 256, N = N_BYTES * NVFP4_BLOCK };

/* 1, its successor, 1/3, 1/2688, subnormals, the ends of the normal range, 2688, and 0. */
static const uint32_t tensor_scales[] = {0x3F800000, 0x3F800001, 0x3EAAAAAB, 0x39C30C31, 0x00000001, 0x00000300,
                                         0x007FFFFF, 0x00800000, 0x7E000000, 0x7F7FFFFF, 0x45280000, 0x00000000};
static const enum mxfp_format targets[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};

enum {
	N_TENSOR_SCALES = sizeof tensor_scales / sizeof tensor_scales[0],
	N_TARGETS = sizeof targets / sizeof targets[0]
};

static struct oracle_nvfp4 oracle;

/* Number i of an array of f32 (bytes: 4), bf16 or f16 (2). */
static uint32_t word(const uint8_t *array, size_t i, size_t bytes)
{
	uint32_t w32;
	uint16_t w16;

	memcpy(&w32, array + 4 * (bytes == 4 ? i : 0), sizeof w32);
	memcpy(&w16, array + 2 * i, sizeof w16);
	return bytes == 4 ? w32 : w16;
}

/* Row s of the blocks has the scale byte s and every code once. */
static void compare(const struct mxfp_blocks *blocks, uint32_t tensor_scale, const struct oracle *target)
{
	static uint8_t values[4 * N];
	const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE};
	enum mxfp_format format = target->format->format;

	const struct mxfp_matrix matrix = mxfp_blocks_matrix(blocks);
	const struct mxfp_result result = mxfp_to_numbers(format, values);
	assert_status(mxfp_dequantize(&result, &matrix, NULL), MXFP_OK);
	for (size_t i = 0; i < N; i++) {
		struct mxfp_counts counts = {.size = sizeof counts};
		uint8_t code = i % NVFP4_BLOCK, scale = (uint8_t)(i / NVFP4_BLOCK);
		uint32_t x = oracle_nvfp4_decode(&oracle, code, scale, tensor_scale, blocks->tensor_scale_divides);
		uint32_t want = format == MXFP_FORMAT_F32 ? x : oracle_encode(target, x, 0, &rne, 0, &counts);
		uint32_t got = word(values, i, target->format->storage_bytes);

		if (got != want)
			ck_abort_msg("code %X scale %02X tensor scale %08" PRIX32 ": %08" PRIX32 " instead of %08" PRIX32,
			             code, scale, tensor_scale, got, want);
	}
	suite_compared(N);
}

TEST_LOOP(every_code_and_scale_decodes, 2 * N_TARGETS)
{
	static uint8_t codes[N / 2], scales[N_BYTES];
	struct mxfp_blocks blocks = {
		.size = sizeof blocks,
		.format = MXFP_FORMAT_NVFP4,
		.rows = N_BYTES,
		.cols = NVFP4_BLOCK,
		.codes = codes,
		.scales = scales,
		.tensor_scale_divides = _i % 2 != 0,
	};
	struct oracle target;

	for (size_t i = 0; i < N_BYTES; i++)
		scales[i] = (uint8_t)i;
	for (size_t i = 0; i < N / 2; i++)
		codes[i] = (uint8_t)(2 * i % NVFP4_BLOCK | (2 * i + 1) % NVFP4_BLOCK << 4);
	oracle_init(&target, targets[_i / 2]);
	for (size_t g = 0; g < N_TENSOR_SCALES; g++) {
		memcpy(&blocks.tensor_scale, &tensor_scales[g], sizeof tensor_scales[g]);
		compare(&blocks, tensor_scales[g], &target);
	}
	oracle_clear(&target);
}

int main(void)
{
	oracle_nvfp4_init(&oracle);
	int status = suite_run(NULL);
	oracle_nvfp4_clear(&oracle);
	return status;
}
