/* SPDX-License-Identifier: MIT */
/*
 * Functions of one number against MPFR: the definition, ref/function.c, and the kernels of the highest tier in use.
 *
 * make check-exhaustive compares all 2^32 arguments. Here it is a sample of each function, sign and exponent: 64 arguments each
 * for the reference, which takes up to microseconds, and 2^24 in all for the kernels, or 16 times as many where most results
 * are neither 0, 1 nor the argument; on the tier `ref` those of the reference alone.
 */
#include <inttypes.h>
#include <string.h>

#include "bits.h"
#include "oracle/inputs.h"
#include "oracle/oracle_function.h"
#include "ref.h"
#include "suite.h"

enum {
	N_STRATA = 512, /* signs and exponents */
	N_REF = 64,     /* arguments in each, for the reference */
	N_KERNEL = (1 << 24) / (N_STRATA * MXFP_N_FUNCTIONS) + 1,
	N_TIMES = 16
};

/* How often a stratum is drawn: exponents from 2^-8 to 2^6 more often. */
static int times(uint32_t stratum)
{
	return (stratum & 0xFF) - 119 <= 14 ? N_TIMES : 1;
}

static const char *name_of(int function)
{
	return mxfp_option_name(MXFP_OPTION_FUNCTION, function);
}

static void compare(int function, const char *what, uint32_t x, uint32_t parameter, uint32_t got, uint32_t want)
{
	if (got != want)
		ck_abort_msg("%s, %s(%08" PRIX32 "), parameter %08" PRIX32 ": %08" PRIX32 " instead of %08" PRIX32
		             "; MXFP_TEST_SEED=%" PRIu64, what, name_of(function), x, parameter, got, want, suite_seed());
}

static uint32_t in_stratum(struct random *r, uint32_t stratum)
{
	return stratum << 23 | (uint32_t)random_u64(r) >> 9;
}

TEST_LOOP(reference_is_correctly_rounded, MXFP_N_FUNCTIONS)
{
	enum mxfp_function function = (enum mxfp_function)_i;
	uint32_t parameter = oracle_function_parameter(function);
	struct random r = {suite_seed() + (uint64_t)_i};
	const uint32_t n = (uint32_t)suite_share(N_REF);

	for (uint32_t i = 0; i < N_STRATA * n; i++) {
		uint32_t x = in_stratum(&r, i / n);

		compare(_i, "ref", x, parameter, mxfp_function_ref(function, x, parameter),
		        oracle_function_fast(function, x, parameter, NULL));
	}
	suite_compared(N_STRATA * n);
}

TEST_LOOP(kernels_are_correctly_rounded, MXFP_N_FUNCTIONS)
{
	enum mxfp_function function = (enum mxfp_function)_i;
	const struct mxfp_kernels *kernels = mxfp_kernels_get();
	uint32_t parameter = oracle_function_parameter(function), x[N_KERNEL], y[N_KERNEL];
	struct random r = {suite_seed() + 100 + (uint64_t)_i};
	const int n = (int)suite_share(N_KERNEL);
	const struct mxfp_apply_job job = {function, parameter, (const float *)x, (float *)y, (size_t)n};

	if (kernels->apply[function] == mxfp_apply_ref)
		return;
	for (uint32_t stratum = 0; stratum < N_STRATA; stratum++)
		for (int time = 0; time < times(stratum); time++) {
			for (int i = 0; i < n; i++)
				x[i] = in_stratum(&r, stratum);
			kernels->apply[function](&job);
			for (int i = 0; i < n; i++)
				compare(_i, "kernel", x[i], parameter, y[i],
				        oracle_function_fast(function, x[i], parameter, NULL));
			suite_compared((uint64_t)n);
		}
}

/*
 * The arguments whose values lie nearest to the middle of two binary32, found by binary64 over all arguments (sin and cos up to 32,
 * log from 1/2 to 2): there 24 to 32 further bits are a one and zeros, or a zero and ones.
 */
TEST(values_beside_the_middle)
{
	static const struct {
		enum mxfp_function function;
		uint32_t x[8];
	} rows[] = {
		{MXFP_FUNCTION_EXP, {0x377EFF81, 0x38E69CC1, 0x39C6BE5B, 0x383A3EF1, 0xC16912CD, 0xBBF0EDF1, 0xB3000000, 0xBAE0E25C}},
		{MXFP_FUNCTION_EXP2, {0x3B429D37, 0x3A07857C, 0x3C02A9AD, 0x36879CF7, 0xB52D1F9A, 0xBCF3A937, 0xB8D3D026, 0xBAEC2B40}},
		{MXFP_FUNCTION_LOG, {0x3FD364D7, 0x3FC55379, 0x3FDC4750, 0x3F7FFFFE, 0x3F800001, 0x3F7FFFFF}},
		{MXFP_FUNCTION_TANH, {0x3AC37DE2, 0x3EEE0566, 0x3CD41B91, 0x40ACB4D0, 0xBAC37DE2, 0xBEEE0566, 0xBCD41B91, 0xC0ACB4D0}},
		{MXFP_FUNCTION_SIGMOID, {0x34000000, 0x34C00000, 0x35200000, 0x35600000, 0xB3800000, 0xB4400000, 0xB4A00000, 0xB4E00000}},
		{MXFP_FUNCTION_SILU, {0x34000000, 0x35400000, 0x36200000, 0x36600000, 0xB3800000, 0xB5400000, 0xB6200000, 0xB6600000}},
		{MXFP_FUNCTION_SOFTPLUS, {0x39EA41D0, 0x3AD68BA7, 0x40A3F888, 0x398B9622, 0xBE6064B3, 0xB8DC1F6F, 0xBEE22485, 0xB6ADDF56}},
		{MXFP_FUNCTION_ELU, {0xB675CBFC, 0xBB7B3B6C, 0xB3800000, 0xC169EE19}},
		{MXFP_FUNCTION_SELU, {0xBEEDECE2, 0xBEBF7704, 0xB862A8A6, 0xBA4DD2C1}},
		{MXFP_FUNCTION_GELU, {0x37B0A46F, 0x38CA1BE2, 0x38028E89, 0x3EADA244, 0xB7B0A46F, 0xB8CA1BE2, 0xC1092947, 0xB8028E89}},
		{MXFP_FUNCTION_GELU_TANH, {0xB7B0A46F, 0xB8028E89, 0xBB9377A9, 0xC0773385}},
		{MXFP_FUNCTION_SIN, {0x3EF3830F, 0x3DCF5597, 0x3D0650EA, 0x3A1285FF}},
		{MXFP_FUNCTION_COS, {0x39800000, 0x3C107FE6, 0x3A544395, 0x3A0F1BBD}},
	};
	const struct mxfp_kernels *kernels = mxfp_kernels_get();

	for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
		enum mxfp_function function = rows[row].function;
		uint32_t parameter = oracle_function_parameter(function), y[8];
		const struct mxfp_apply_job job = {function, parameter, (const float *)rows[row].x, (float *)y, 8};

		kernels->apply[function](&job);
		for (int i = 0; i < 8; i++) {
			uint32_t x = rows[row].x[i], want = oracle_function(function, x, parameter);

			compare((int)function, "ref", x, parameter, mxfp_function_ref(function, x, parameter), want);
			compare((int)function, "kernel", x, parameter, y[i], want);
		}
		suite_compared(16);
	}
}

/* Edges and random numbers of all classes by MPFR alone; where the filter decides, it decides the same. */
TEST_LOOP(filter_agrees_with_mpfr, MXFP_N_FUNCTIONS)
{
	enum mxfp_function function = (enum mxfp_function)_i;
	uint32_t parameter = oracle_function_parameter(function);
	struct random r = {suite_seed() + 200 + (uint64_t)_i};

	for (size_t i = 0; i < inputs_n_edge + 1500; i++) {
		uint32_t x = i < inputs_n_edge ? inputs_edge[i] :
		             i % 2 != 0 ? random_f32(&r) : random_f32_between(&r, -30, 7);
		uint32_t want = oracle_function(function, x, parameter);

		compare(_i, "ref", x, parameter, mxfp_function_ref(function, x, parameter), want);
		compare(_i, "filter", x, parameter, oracle_function_fast(function, x, parameter, NULL), want);
	}
	suite_compared(inputs_n_edge + 1500);
}

/* Parameters of all sizes, -0 and 0 among them, with arguments that make products of all sizes. */
TEST(parameters_are_exact)
{
	static const enum mxfp_function functions[] = {MXFP_FUNCTION_LEAKY_RELU, MXFP_FUNCTION_SILU, MXFP_FUNCTION_ELU};
	static const float parameters[] = {0, 1, 1.702f, 0.25f, 0x1p-149f, 0x1.fffffep+127f, 0x1.8p-100f, 3e-5f, 1000, 0x1.000002p-1f};
	enum { N_PARAMETERS = 2 * sizeof parameters / sizeof parameters[0], N = 2000 };
	const struct mxfp_kernels *kernels = mxfp_kernels_get();
	struct random r = {suite_seed() + 300};

	for (size_t f = 0; f < 3; f++)
		for (uint32_t p = 0; p < N_PARAMETERS; p++) {
			uint32_t parameter = mxfp_f32_bits(parameters[p / 2]) | p % 2 << 31, x[N], y[N];
			const struct mxfp_apply_job job = {functions[f], parameter, (const float *)x, (float *)y, N};

			for (size_t i = 0; i < N; i++)
				x[i] = i < inputs_n_edge ? inputs_edge[i] :
				       i % 2 != 0 ? random_f32(&r) : random_f32_between(&r, -40, 20);
			kernels->apply[functions[f]](&job);
			for (size_t i = 0; i < N; i++) {
				uint32_t want = oracle_function_fast(functions[f], x[i], parameter, NULL);

				compare((int)functions[f], "ref", x[i], parameter,
				        mxfp_function_ref(functions[f], x[i], parameter), want);
				compare((int)functions[f], "kernel", x[i], parameter, y[i], want);
			}
			suite_compared(2 * N);
		}
}

/* Values worked by hand, or decimal expansions as tables have them. */
TEST(values_are_those_of_tables)
{
	static const struct {
		enum mxfp_function function;
		float x, want;
	} rows[] = {
		{MXFP_FUNCTION_IDENTITY, -3.5f, -3.5f},
		{MXFP_FUNCTION_RELU, -3.5f, 0},
		{MXFP_FUNCTION_RELU, -0.0f, 0},
		{MXFP_FUNCTION_LEAKY_RELU, -100, -1.0f}, /* 100 * 0.00999999977648258209228515625 */
		{MXFP_FUNCTION_LEAKY_RELU, 100, 100},
		{MXFP_FUNCTION_EXP, 1, 2.71828182845904523536f},
		{MXFP_FUNCTION_EXP, -1, 0.36787944117144232160f},
		{MXFP_FUNCTION_EXP, -0.0f, 1},
		{MXFP_FUNCTION_EXP2, 0.5f, 1.41421356237309504880f},
		{MXFP_FUNCTION_EXP2, -149, 0x1p-149f},
		{MXFP_FUNCTION_EXP2, -150, 0},                    /* a tie, to even */
		{MXFP_FUNCTION_EXP2, -0x1.2bfffep+7f, 0x1p-149f}, /* just above that */
		{MXFP_FUNCTION_EXP2, 0x1.fffffep+6f, 0x1.ffff4ep+127f}, /* 2^128 (1 - 2^-17 log 2): 2^24 - 2^7 log 2 = 2^24 - 88.7 */
		{MXFP_FUNCTION_LOG, 2, 0.69314718055994530942f},
		{MXFP_FUNCTION_LOG, 10, 2.30258509299404568402f},
		{MXFP_FUNCTION_LOG, 1, 0},
		{MXFP_FUNCTION_LOG, 0x1p-149f, -103.278929903431851103f}, /* -149 log 2 */
		{MXFP_FUNCTION_TANH, 1, 0.76159415595576488812f},
		{MXFP_FUNCTION_TANH, 0x1p-149f, 0x1p-149f},
		{MXFP_FUNCTION_SIGMOID, 1, 0.73105857863000487926f},
		{MXFP_FUNCTION_SIGMOID, -1, 0.26894142136999512075f},
		{MXFP_FUNCTION_SILU, 1, 0.73105857863000487926f},
		{MXFP_FUNCTION_SILU, 0x1p-149f, 0x1p-149f}, /* more than half of it */
		{MXFP_FUNCTION_SILU, -0x1p-149f, -0.0f},    /* less */
		{MXFP_FUNCTION_SILU, 0x1.8p-148f, 0x1p-148f},
		{MXFP_FUNCTION_SILU, -0x1.8p-148f, -0x1p-149f},
		{MXFP_FUNCTION_SOFTPLUS, 0, 0.69314718055994530942f},
		{MXFP_FUNCTION_SOFTPLUS, 1, 1.31326168751822283405f},
		{MXFP_FUNCTION_ELU, -1, -0.63212055882855767840f},
		{MXFP_FUNCTION_ELU, 5, 5},
		{MXFP_FUNCTION_SELU, 1, 1.0507009873554804934f},
		{MXFP_FUNCTION_SELU, -1e30f, -1.7580993408473768600f},
		{MXFP_FUNCTION_GELU, 1, 0.84134474606854294859f}, /* Phi(1) */
		{MXFP_FUNCTION_GELU, -1, -0.15865525393145705142f},
		{MXFP_FUNCTION_GELU, 0x1p-149f, 0x1p-149f},
		{MXFP_FUNCTION_GELU, -0x1p-149f, -0.0f},
		{MXFP_FUNCTION_GELU_TANH, -0x1p-149f, -0.0f},
		{MXFP_FUNCTION_RSQRT, 2, 0.70710678118654752440f},
		{MXFP_FUNCTION_RSQRT, 0x1p-148f, 0x1p+74f},
		{MXFP_FUNCTION_RECIPROCAL, 3, 0.33333333333333333333f},
		{MXFP_FUNCTION_RECIPROCAL, 0x1p+127f, 0x1p-127f},
		{MXFP_FUNCTION_SIN, 1, 0.84147098480789650665f},
		{MXFP_FUNCTION_COS, 1, 0.54030230586813971740f},
		{MXFP_FUNCTION_SIN, 355, -0.0000301443533594884492f}, /* 113 pi is 355 + 3.01e-5 */
		{MXFP_FUNCTION_COS, 0x1p-30f, 1},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		uint32_t x = mxfp_f32_bits(rows[i].x), parameter = oracle_function_parameter(rows[i].function);

		compare((int)rows[i].function, "ref", x, parameter, mxfp_function_ref(rows[i].function, x, parameter),
		        mxfp_f32_bits(rows[i].want));
	}
	suite_compared(sizeof rows / sizeof rows[0]);
}

TEST(default_parameters)
{
	for (int f = 0; f < MXFP_N_FUNCTIONS; f++)
		ck_assert_uint_eq(mxfp_function_default((enum mxfp_function)f), oracle_function_parameter((enum mxfp_function)f));
}

/* Random powers, and those that are exact or ties. */
TEST(powers_are_correctly_rounded)
{
	static const float exact[][2] = {{10000, 0.5f}, {1e4f, 0}, {1, 3e30f}, {2, -149}, {2, -150}, {2, 128}, {2, 127}, {0.5f, 149},
	                                 {3, 15}, {3, 16}, {5, 10}, {5, 11}, {4097, 2}, {8193, 2}, {16777216, 0.125f}, {81, 0.25f}, {259, 3}, {263, 3},
	                                 {0x1p-149f, 1}, {0x1p-149f, 1.0067114f}, {6561, 0.375f}, {0x1.000002p0f, 0x1p-149f},
	                                 {0x1.fffffep-1f, 3e38f}, {0x1.000002p0f, 3e38f}, {1e4f, -0x1p-60f}};
	struct random r = {suite_seed() + 400};

	for (size_t i = 0; i < suite_share(20000) + sizeof exact / sizeof exact[0]; i++) {
		uint32_t x = (uint32_t)random_u64(&r) % UINT32_C(0x7F7FFFFF) + 1, y = random_f32_between(&r, -30, 6);

		if (i < sizeof exact / sizeof exact[0]) {
			x = mxfp_f32_bits(exact[i][0]);
			y = mxfp_f32_bits(exact[i][1]);
		} else if (i % 4 == 0) { /* as rotary frequencies have it */
			x = mxfp_f32_bits((float)(1000 + random_below(&r, 1000000)));
			y = mxfp_f32_bits((float)random_below(&r, 129) / 128);
		} else if (i % 4 == 1) { /* halves of squares: exact */
			x = mxfp_f32_bits((float)(random_below(&r, 4096) * random_below(&r, 4096) + 1));
			y = mxfp_f32_bits((float)random_below(&r, 9) / 2 - 2);
		}
		uint32_t got = mxfp_pow_ref(x, y), want = oracle_pow(x, y);
		if (got != want)
			ck_abort_msg("%08" PRIX32 "^%08" PRIX32 ": %08" PRIX32 " instead of %08" PRIX32, x, y, got, want);
	}
	suite_compared(suite_share(20000));
}
