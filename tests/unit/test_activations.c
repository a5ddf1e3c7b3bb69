/* SPDX-License-Identifier: MIT */
/* Seeded activations against the formula of activations.h in MPFR, and against the moments of the
   normal distribution. */
#include "analyse/activations.h"

#include <check.h>
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "mxfp/philox.h"
#include "suite.h"

enum { PRECISION = 200, TOKENS = 24, COLS = 1000, MOMENTS_N = 1 << 20 };

static const uint64_t seed = UINT64_C(0x123456789ABCDEF0), stream = UINT64_C(0xFEDCBA9876543210);

/* Element i times `factor`, rounded once to binary32. */
static float oracle(uint64_t i, unsigned factor)
{
	mpfr_t u, angle, z;
	uint64_t p = i / 2;

	mpfr_inits2(PRECISION, u, angle, z, (mpfr_ptr)NULL);
	mpfr_set_ui(u, mxfp_philox_word(seed, stream, 2 * p), MPFR_RNDN);
	mpfr_add_d(u, u, 0.5, MPFR_RNDN);
	mpfr_div_2ui(u, u, 32, MPFR_RNDN);
	mpfr_log(u, u, MPFR_RNDN);
	mpfr_mul_si(u, u, -2, MPFR_RNDN);
	mpfr_sqrt(u, u, MPFR_RNDN);
	mpfr_const_pi(angle, MPFR_RNDN);
	mpfr_mul_ui(angle, angle, mxfp_philox_word(seed, stream, 2 * p + 1), MPFR_RNDN);
	mpfr_div_2ui(angle, angle, 31, MPFR_RNDN);
	if (i % 2 == 0)
		mpfr_cos(z, angle, MPFR_RNDN);
	else
		mpfr_sin(z, angle, MPFR_RNDN);
	mpfr_mul(z, z, u, MPFR_RNDN);
	mpfr_mul_ui(z, z, factor, MPFR_RNDN);
	float x = mpfr_get_flt(z, MPFR_RNDN);
	mpfr_clears(u, angle, z, (mpfr_ptr)NULL);
	return x;
}

/* The statement is "within 1 ulp and nearly always equal"; with this seed all are equal. */
TEST(normal_numbers_are_the_formula)
{
	static float x[TOKENS * COLS];

	activations_fill(x, TOKENS, COLS, ACTIVATIONS_NORMAL, seed, stream);
	for (size_t i = 0; i < TOKENS * COLS; i++)
		ck_assert_msg(x[i] == oracle(i, 1), "element %zu: %a, MPFR %a", i, (double)x[i], (double)oracle(i, 1));
	suite_compared(TOKENS * COLS);
	mpfr_free_cache();
}

TEST(every_64th_channel_is_30_times_larger)
{
	static float x[TOKENS * COLS];

	activations_fill(x, TOKENS, COLS, ACTIVATIONS_OUTLIERS, seed, stream);
	for (size_t t = 0; t < TOKENS; t++)
		for (size_t k = 0; k < COLS; k++)
			ck_assert(x[t * COLS + k] == oracle(t * COLS + k, k % 64 == 0 ? 30 : 1));
	suite_compared(TOKENS * COLS);
	mpfr_free_cache();
}

TEST(seed_and_stream_matter)
{
	float x[8], y[8], z[8];

	activations_fill(x, 2, 4, ACTIVATIONS_NORMAL, 1, 1);
	activations_fill(y, 2, 4, ACTIVATIONS_NORMAL, 2, 1);
	activations_fill(z, 2, 4, ACTIVATIONS_NORMAL, 1, 2);
	ck_assert_mem_ne(x, y, sizeof x);
	ck_assert_mem_ne(x, z, sizeof x);
}

/* Mean 0, variance 1, third moment 0, fourth 3, within five standard errors: sqrt(1, 2, 15, 96 over n). */
TEST(moments_are_those_of_the_normal_distribution)
{
	float *x = malloc(MOMENTS_N * sizeof *x);
	double m[4] = {0};

	ck_assert_ptr_nonnull(x);
	activations_fill(x, 1, MOMENTS_N, ACTIVATIONS_NORMAL, seed, stream);
	for (size_t i = 0; i < MOMENTS_N; i++) {
		double power = 1;

		for (int j = 0; j < 4; j++)
			m[j] += power *= (double)x[i];
	}
	ck_assert_double_eq_tol(m[0] / MOMENTS_N, 0, 5 * sqrt(1.0 / MOMENTS_N));
	ck_assert_double_eq_tol(m[1] / MOMENTS_N, 1, 5 * sqrt(2.0 / MOMENTS_N));
	ck_assert_double_eq_tol(m[2] / MOMENTS_N, 0, 5 * sqrt(15.0 / MOMENTS_N));
	ck_assert_double_eq_tol(m[3] / MOMENTS_N, 3, 5 * sqrt(96.0 / MOMENTS_N));
	free(x);
}
