/* SPDX-License-Identifier: MIT */
/* mxfp_dequantize() of MX blocks: every code at every scale against MPFR, and quantizing what was decoded. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/matrix.h"
#include "oracle/oracle_mx.h"
#include "suite.h"

static const enum mxfp_format formats[] = {MXFP_FORMAT_MXFP8_E4M3, MXFP_FORMAT_MXFP8_E5M2, MXFP_FORMAT_MXFP6_E3M2,
                                           MXFP_FORMAT_MXFP6_E2M3, MXFP_FORMAT_MXFP4,      MXFP_FORMAT_MXINT8};

enum { N_FORMATS = sizeof formats / sizeof formats[0] };

static struct oracle oracles[N_FORMATS], bf16, f16;

static void report_dequantized(const struct oracle *o, enum mxfp_format to, uint32_t code, int scale, uint32_t x,
                               uint32_t want)
{
	ck_abort_msg("%s %02" PRIX32 " at scale %02X to %s: %08" PRIX32 " instead of %08" PRIX32, o->format->name, code,
	             (unsigned)scale, mxfp_format_get_info(to)->name, x, want);
}

/* fl32(code * 2^s), or the exact product rounded to a 16-bit format. */
static uint32_t dequantized(const struct oracle *o, uint32_t code, int scale, enum mxfp_format to)
{
	const struct mxfp_rounding rne = {0};
	struct mxfp_counts counts = {.size = sizeof counts};
	uint32_t value = oracle_decode(o->format, code);
	MPFR_DECL_INIT(x, 24);

	if (scale == 0xFF)
		value = UINT32_C(0x7FC00000);
	if (to != MXFP_FORMAT_F32)
		return oracle_encode(to == MXFP_FORMAT_BF16 ? &bf16 : &f16, value, 127 - scale, &rne, 0, &counts);
	if ((value & ~F32_SIGN) > UINT32_C(0x7F800000))
		return value;
	oracle_set_f32(x, value);
	oracle_f32_begin();
	int ternary = mpfr_mul_2si(x, x, scale - 127, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(x, ternary);
	oracle_f32_end();
	return bits;
}

/* Number i of an array of words of 2 or 4 bytes. */
static uint32_t stored(const uint8_t *array, size_t i, size_t bytes)
{
	uint16_t half;
	uint32_t word;

	memcpy(&half, array + i * bytes, sizeof half);
	if (bytes == sizeof half)
		return half;
	memcpy(&word, array + i * bytes, sizeof word);
	return word;
}

/* All codes at all scales: 256 rows, one a scale, of as many elements as there are codes. */
TEST_LOOP(every_code_at_every_scale_dequantizes, N_FORMATS)
{
	const struct oracle *o = &oracles[_i];
	static const enum mxfp_format to[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};
	unsigned bits = o->format->bits;
	size_t cols = (size_t)1 << bits; /* the last block of mxfp4 is a tail of 16 */
	struct matrix m = matrix_of(formats[_i], 256, cols, 3);
	uint8_t *codes = m.blocks.codes, *scales = m.blocks.scales;
	uint8_t *dst = matrix_allocate(256 * (cols + 3) * 4);

	memset(codes, 0, m.codes_bytes);
	for (size_t row = 0; row < 256; row++) {
		memset(scales + row * m.blocks.scales_stride, (int)row, (cols + 31) / 32);
		for (size_t i = 0; i < cols * bits; i++)
			codes[row * m.blocks.codes_stride + i / 8] |= (uint8_t)((i / bits >> i % bits & 1) << i % 8);
	}
	for (int t = 0; t < 3; t++) {
		size_t bytes = mxfp_format_get_info(to[t])->storage_bytes;
		const struct mxfp_matrix matrix = mxfp_blocks_matrix(&m.blocks);
		const struct mxfp_exec exec = {.size = sizeof exec, .threads = (unsigned)t};
		struct mxfp_result result = mxfp_to_numbers(to[t], dst);
		result.stride = cols + 3;
		memset(dst, MATRIX_CANARY, 256 * (cols + 3) * 4);
		assert_status(mxfp_dequantize(&result, &matrix, &exec), MXFP_OK);
		for (size_t i = 0; i < 256 * (cols + 3); i++) {
			uint32_t x = stored(dst, i, bytes), row = (uint32_t)(i / (cols + 3)), code = (uint32_t)(i % (cols + 3));
			uint32_t want = code >= cols ? UINT32_C(0xA5A5A5A5) >> (32 - 8 * bytes) :
			                               dequantized(o, code, (int)row, to[t]);
			if (x != want)
				report_dequantized(o, to[t], code, (int)row, x, want);
		}
		suite_compared(256 * cols);
	}
	free(dst);
	matrix_free(&m);
}

/* Under floor, even and fit the amax of what was decoded has the same scale, so quantizing it again changes nothing. */
TEST_LOOP(quantizing_twice_changes_nothing, N_FORMATS)
{
	static const enum mxfp_rule rules[] = {MXFP_RULE_FLOOR, MXFP_RULE_EVEN, MXFP_RULE_FIT};
	struct random r = {suite_seed()};

	for (int rule = 0; rule < 3; rule++) {
		struct mxfp_quantize_options options = {.size = sizeof options, .rule = rules[rule]};
		struct matrix m = matrix_of(formats[_i], 200, 96, 0), again = matrix_of(formats[_i], 200, 96, 0);
		for (size_t i = 0; i < 200 * 96; i++)
			((uint32_t *)m.src)[i] =
				matrix_generated(&r, (int)(i / 32 % MATRIX_N_ORDINARY), (int)(i / 32 % 40) - 20, i % 32);
		const struct mxfp_matrix source = matrix_source(&m), decoded = matrix_source(&again);
		const struct mxfp_result first = mxfp_to_blocks(&m.blocks), second = mxfp_to_blocks(&again.blocks);
		const struct mxfp_result numbers = mxfp_to_numbers(MXFP_FORMAT_F32, again.src);
		mxfp_quantize(&first, &source, &options, NULL);
		const struct mxfp_matrix blocks = mxfp_blocks_matrix(&m.blocks);
		mxfp_dequantize(&numbers, &blocks, NULL);
		mxfp_quantize(&second, &decoded, &options, NULL);
		ck_assert_mem_eq(again.blocks.scales, m.blocks.scales, m.scales_bytes);
		ck_assert_mem_eq(again.blocks.codes, m.blocks.codes, m.codes_bytes);
		suite_compared(200 * 96);
		matrix_free(&m);
		matrix_free(&again);
	}
}

int main(void)
{
	oracle_init(&bf16, MXFP_FORMAT_BF16);
	oracle_init(&f16, MXFP_FORMAT_F16);
	for (int i = 0; i < N_FORMATS; i++)
		oracle_init(&oracles[i], mxfp_format_get_info(formats[i])->element);
	int status = suite_run(NULL);
	for (int i = 0; i < N_FORMATS; i++)
		oracle_clear(&oracles[i]);
	oracle_clear(&bf16);
	oracle_clear(&f16);
	return status;
}
