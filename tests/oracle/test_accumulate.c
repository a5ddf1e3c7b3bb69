/* SPDX-License-Identifier: MIT */
/* Sums in memory against MPFR: doc/numerics.md, section 10. Chains are done with 53 bits, and with as many as are exact
   for the bound on the error. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "mxfp/accumulate.h"
#include "mxfp/philox.h"
#include "mxfp/quantize.h"
#include "oracle/inputs.h"
#include "oracle/oracle.h"
#include "ref.h"
#include "suite.h"

/* Two binary32 numbers and all between them have 278 bits; sums of BUFFERS_MAX need four more. */
enum { BUFFERS_MAX = 12, LENGTH = 64, EXACT_BITS = 300 };

static uint32_t word[BUFFERS_MAX][LENGTH];
static uint16_t half[BUFFERS_MAX][LENGTH];

/* Numbers that cancel, lie far apart, or are anything. */
static uint32_t draw(struct random *r, int shape, const uint32_t *before)
{
	/* 2^53, 2^54, 1, 2, 3, 1/2: ties in binary64, which show when the large ones cancel. */
	static const uint32_t ties[] = {0x5A000000, 0x5A800000, 0x3F800000, 0x40000000, 0x40400000, 0x3F000000};

	if (shape == 6)
		return ties[random_below(r, 6)] | (random_below(r, 2) != 0 ? F32_SIGN : 0);
	if (shape == 0)
		return random_f32(r);
	if (shape == 1)
		return random_f32_between(r, -30, 30);
	if (shape == 2)
		return random_f32_between(r, -126, 126);
	if (shape == 3 && before != NULL && random_below(r, 2) == 0)
		return *before ^ F32_SIGN ^ random_below(r, 4);
	if (shape == 4) /* subnormal */
		return (random_f32(r) & UINT32_C(0x80FFFFFF)) >> random_below(r, 2);
	return random_f32_between(r, 100, 127); /* overflow */
}

static uint32_t round_to_f32(mpfr_srcptr x)
{
	MPFR_DECL_INIT(y, 24);

	int ternary = mpfr_set(y, x, MPFR_RNDN);
	oracle_f32_begin();
	ternary = mpfr_check_range(y, ternary, MPFR_RNDN); /* an overflow, which mpfr_set() did not see */
	uint32_t bits = oracle_f32_bits(y, ternary);
	oracle_f32_end();
	return bits;
}

/* The chain, and whether the bound of mxfp/accumulate.h holds for it. */
static uint32_t expected(const uint32_t *x, size_t n)
{
	MPFR_DECL_INIT(sum, 53);
	MPFR_DECL_INIT(exact, EXACT_BITS);
	MPFR_DECL_INIT(magnitudes, EXACT_BITS);
	MPFR_DECL_INIT(bound, EXACT_BITS);
	MPFR_DECL_INIT(result, EXACT_BITS);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(y, x[0]);
	mpfr_set(sum, y, MPFR_RNDN);
	mpfr_set(exact, y, MPFR_RNDN);
	mpfr_abs(magnitudes, y, MPFR_RNDN);
	for (size_t i = 1; i < n; i++) {
		oracle_set_f32(y, x[i]);
		mpfr_add(sum, sum, y, MPFR_RNDN);
		mpfr_add(exact, exact, y, MPFR_RNDN);
		mpfr_abs(y, y, MPFR_RNDN);
		mpfr_add(magnitudes, magnitudes, y, MPFR_RNDN);
	}
	const uint32_t bits = round_to_f32(sum);
	if ((bits & ~F32_SIGN) >= F32_INF)
		return bits;
	/* 2^-24 |S| + (n - 1) 2^-52.99 T + 2^-150, 2^-52.99 taken as 1.0069 * 2^-53, which is less. */
	mpfr_mul_d(magnitudes, magnitudes, 1.0069 * (double)(n - 1), MPFR_RNDD);
	mpfr_mul_2si(magnitudes, magnitudes, -53, MPFR_RNDD);
	mpfr_abs(bound, exact, MPFR_RNDD);
	mpfr_mul_2si(bound, bound, -24, MPFR_RNDD);
	mpfr_add(bound, bound, magnitudes, MPFR_RNDD);
	mpfr_set_ui_2exp(magnitudes, 1, -150, MPFR_RNDD);
	mpfr_add(bound, bound, magnitudes, MPFR_RNDD);
	oracle_set_f32(y, bits);
	mpfr_sub(result, y, exact, MPFR_RNDU);
	ck_assert_msg(mpfr_cmpabs(result, bound) <= 0, "the error of a sum of %zu passes the bound", n);
	return bits;
}

TEST_LOOP(reduce, 7)
{
	struct random r = {suite_seed() + (uint64_t)_i};
	const void *words[BUFFERS_MAX], *halves[BUFFERS_MAX];
	struct oracle bf16;

	oracle_init(&bf16, MXFP_FORMAT_BF16);
	for (int b = 0; b < BUFFERS_MAX; b++) {
		words[b] = word[b];
		halves[b] = half[b];
	}
	for (int round = 0; round < (int)suite_share(300); round++) {
		const size_t n_src = 1 + random_below(&r, BUFFERS_MAX), n = 1 + random_below(&r, LENGTH);
		const bool narrow = random_below(&r, 3) == 0;
		uint32_t got[LENGTH], by_ref[LENGTH];
		uint16_t got_half[LENGTH];
		const struct mxfp_reduce_job job = {
			.src_format = narrow ? MXFP_FORMAT_BF16 : MXFP_FORMAT_F32, .n_src = n_src, .src = narrow ? halves : words,
			.n = n, .dst = (float *)(void *)by_ref,
		};
		const struct mxfp_accumulate_options o = {
			.size = sizeof o,
			.round = random_below(&r, 2) == 0 ? MXFP_ROUND_RNE : MXFP_ROUND_SR,
			.seed = random_u64(&r),
			.stream = random_u64(&r), .first_index = random_u64(&r) >> 2,
		};

		for (size_t b = 0; b < n_src; b++)
			for (size_t i = 0; i < n; i++) {
				word[b][i] = draw(&r, _i, b == 0 ? NULL : &word[b - 1][i]);
				half[b][i] = (uint16_t)(word[b][i] >> 16);
				if (narrow)
					word[b][i] = (uint32_t)half[b][i] << 16;
			}
		assert_status(mxfp_sum_arrays(got, MXFP_FORMAT_F32, job.src, n_src, job.src_format, n, NULL, NULL), MXFP_OK);
		assert_status(mxfp_sum_arrays(got_half, MXFP_FORMAT_BF16, job.src, n_src, job.src_format, n, &o, NULL), MXFP_OK);
		mxfp_reduce_ref(&job);
		for (size_t i = 0; i < n; i++) {
			const struct mxfp_rounding rounding = {.mode = o.round, .overflow = MXFP_OVERFLOW_OVF};
			struct mxfp_counts counts = {.size = sizeof counts};
			uint32_t x[BUFFERS_MAX];

			for (size_t b = 0; b < n_src; b++)
				x[b] = word[b][i];
			const uint32_t want = expected(x, n_src);
			ck_assert_msg(got[i] == want && by_ref[i] == want,
			              "%zu buffers from %08" PRIX32 ": %08" PRIX32 ", by ref %08" PRIX32 " instead of %08" PRIX32,
			              n_src, x[0], got[i], by_ref[i], want);
			ck_assert_int_eq(got_half[i],
			                 oracle_encode(&bf16, want, 0, &rounding,
			                               mxfp_philox_word(o.seed, o.stream, o.first_index + i), &counts));
		}
		suite_compared(3 * n);
	}
	oracle_clear(&bf16);
}

/* Every sum is exact where the magnitudes add up to less than 2^53 of the least bit, so the order does not matter. */
TEST(reduce_in_any_order_where_it_is_exact)
{
	struct random r = {suite_seed()};

	for (int round = 0; round < (int)suite_share(2000); round++) {
		const size_t n_src = 2 + random_below(&r, BUFFERS_MAX - 1);
		const void *src[BUFFERS_MAX], *turned[BUFFERS_MAX];
		uint32_t first, second;

		/* Exponents within 25, 24 bits each, 12 numbers: 25 + 24 + 4 bits. */
		for (size_t b = 0; b < n_src; b++) {
			word[b][0] = random_f32_between(&r, -10, 14);
			src[b] = word[b];
		}
		for (size_t b = 0; b < n_src; b++)
			turned[b] = src[(b * 5 + 3) % n_src];
		for (size_t b = 0; n_src % 5 == 0 && b < n_src; b++)
			turned[b] = src[n_src - 1 - b];
		assert_status(mxfp_sum_arrays(&first, MXFP_FORMAT_F32, src, n_src, MXFP_FORMAT_F32, 1, NULL, NULL), MXFP_OK);
		assert_status(mxfp_sum_arrays(&second, MXFP_FORMAT_F32, turned, n_src, MXFP_FORMAT_F32, 1, NULL, NULL), MXFP_OK);
		ck_assert_msg(first == second, "%08" PRIX32 " and %08" PRIX32, first, second);
	}
	suite_compared(suite_share(2000));
}

static uint32_t add(uint32_t a, uint32_t b)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);
	MPFR_DECL_INIT(sum, 24);

	oracle_set_f32(x, a);
	oracle_set_f32(y, b);
	oracle_f32_begin();
	int ternary = mpfr_add(sum, x, y, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(sum, ternary);
	oracle_f32_end();
	return bits;
}

/* Codes and scales of any bytes: what they stand for is asked of mxfp_dequantize() and of the oracle of element
   formats. */
TEST_LOOP(accumulate, MXFP_N_FORMATS)
{
	enum { COLS = 70, ROWS = 3 };
	static uint8_t codes[ROWS * COLS * 4], scales[ROWS * COLS];
	static uint32_t decoded[ROWS * COLS], dst[ROWS * COLS], before[ROWS * COLS];
	static uint16_t dst_half[ROWS * COLS], before_half[ROWS * COLS];
	const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)_i);
	struct random r = {suite_seed() + (uint64_t)_i};
	struct oracle bf16;

	oracle_init(&bf16, MXFP_FORMAT_BF16);
	for (int round = 0; round < 40; round++) {
		const size_t cols = 1 + random_below(&r, COLS), n = ROWS * cols;
		const struct mxfp_matrix src = {
			.size = sizeof src, .format = info->format, .rows = ROWS, .cols = cols, .data = codes, .scales = scales,
			.tensor_scale = 0.375F, .tensor_scale_divides = round % 2 != 0,
		};
		const struct mxfp_accumulate_options o = {
			.size = sizeof o,
			.round = round % 3 == 0 ? MXFP_ROUND_SR : MXFP_ROUND_RNE,
			.seed = random_u64(&r),
			.stream = random_u64(&r),
			.first_index = random_u64(&r) >> 1,
		};

		for (size_t i = 0; i < sizeof codes; i++)
			codes[i] = (uint8_t)random_u64(&r);
		for (size_t i = 0; i < sizeof scales; i++)
			scales[i] = (uint8_t)random_u64(&r);
		const struct mxfp_result numbers = mxfp_to_numbers(MXFP_FORMAT_F32, decoded);
		if (info->kind == MXFP_KIND_BLOCK)
			assert_status(mxfp_dequantize(&numbers, &src, NULL), MXFP_OK);
		else
			for (size_t i = 0; i < n; i++)
				decoded[i] = mxfp_ref_load(info, codes, i);
		for (size_t i = 0; i < n; i++) {
			before[i] = i % 3 == 0 ? decoded[i] ^ F32_SIGN ^ random_below(&r, 3) : random_f32(&r);
			before_half[i] = (uint16_t)(before[i] >> 16);
		}
		memcpy(dst, before, sizeof dst);
		memcpy(dst_half, before_half, sizeof dst_half);
		const struct mxfp_result sum = mxfp_to_numbers(MXFP_FORMAT_F32, dst);
		const struct mxfp_result sum_half = mxfp_to_numbers(MXFP_FORMAT_BF16, dst_half);
		assert_status(mxfp_accumulate(&sum, &src, NULL, NULL), MXFP_OK);
		assert_status(mxfp_accumulate(&sum_half, &src, &o, NULL), MXFP_OK);
		for (size_t i = 0; i < n; i++) {
			const struct mxfp_rounding rounding = {.mode = o.round, .overflow = MXFP_OVERFLOW_OVF};
			struct mxfp_counts counts = {.size = sizeof counts};
			const uint32_t want = add(before[i], decoded[i]);
			const uint32_t want_half =
				oracle_encode(&bf16, add((uint32_t)before_half[i] << 16, decoded[i]), 0, &rounding,
			                  mxfp_philox_word(o.seed, o.stream, o.first_index + i), &counts);

			ck_assert_msg(dst[i] == want && dst_half[i] == want_half,
			              "%s %08" PRIX32 " + %08" PRIX32 ": %08" PRIX32 " instead of %08" PRIX32 ", bf16 %04" PRIX16
			              " instead of %04" PRIX32, info->name, before[i], decoded[i], dst[i], want, dst_half[i],
			              want_half);
		}
		suite_compared(2 * n);
	}
	oracle_clear(&bf16);
}
