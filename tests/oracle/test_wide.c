/* SPDX-License-Identifier: MIT */
/* The fixed-point numbers of ref/wide.c against MPFR: exact where they say so, within their bounds elsewhere. */
#undef __SIZEOF_INT128__ /* the product of limbs that machines of 32 bits have */
#include "wide.h"

#include <inttypes.h>
#include <mpfr.h>

#include "oracle/inputs.h"
#include "suite.h"

enum { PRECISION = 64 * 2 * (WIDE_MAX + 2), N = 20000 };

/* Limbs of all kinds: random, all ones, zero; the integer part below `limit`. */
static void random_wide(struct random *r, struct wide *a, uint64_t limit, int n)
{
	for (int i = 0; i <= n; i++) {
		uint32_t kind = random_below(r, 5);
		a->limb[i] = kind == 0 ? 0 : kind == 1 ? UINT64_MAX : random_u64(r) >> (kind == 2 ? random_below(r, 64) : 0);
	}
	a->limb[0] %= limit;
}

static void set(mpfr_ptr x, const struct wide *a, int n)
{
	mpfr_set_ui(x, 0, MPFR_RNDN);
	for (int i = 0; i <= n; i++) {
		mpfr_mul_2ui(x, x, 32, MPFR_RNDN);
		mpfr_add_ui(x, x, (unsigned long)(a->limb[i] >> 32), MPFR_RNDN);
		mpfr_mul_2ui(x, x, 32, MPFR_RNDN);
		mpfr_add_ui(x, x, (unsigned long)(uint32_t)a->limb[i], MPFR_RNDN);
	}
	mpfr_div_2ui(x, x, 64 * (unsigned long)n, MPFR_RNDN);
}

/* Whether want - got is in [low, high] units. */
static void within(mpfr_ptr want, const struct wide *got, long low, long high, int n, const char *what)
{
	mpfr_t x;

	mpfr_init2(x, PRECISION);
	set(x, got, n);
	mpfr_sub(x, want, x, MPFR_RNDN);
	mpfr_mul_2ui(x, x, 64 * (unsigned long)n, MPFR_RNDN);
	if (mpfr_cmp_si(x, low) < 0 || mpfr_cmp_si(x, high) > 0)
		ck_abort_msg("%s with %d limbs is off by %g units; MXFP_TEST_SEED=%" PRIu64, what, n, mpfr_get_d(x, MPFR_RNDN),
		             suite_seed());
	mpfr_clear(x);
}

TEST(products_of_limbs_are_exact)
{
	struct random r = {suite_seed()};
	struct wide a, b;
	mpfr_t x, y;

	mpfr_inits2(PRECISION, x, y, (mpfr_ptr)0);
	for (int i = 0; i < (int)suite_share(N); i++) {
		random_wide(&r, &a, UINT64_MAX, 1);
		b.limb[0] = mxfp_wide_mul_limbs(a.limb[0], a.limb[1], &b.limb[1]);
		set(x, &a, 0);
		a.limb[0] = a.limb[1];
		set(y, &a, 0);
		mpfr_mul(x, x, y, MPFR_RNDN);
		mpfr_div_2ui(x, x, 64, MPFR_RNDN);
		within(x, &b, 0, 0, 1, "a product of limbs");
	}
	mpfr_clears(x, y, (mpfr_ptr)0);
	suite_compared(suite_share(N));
}

TEST_LOOP(operations_keep_their_bounds, WIDE_MAX)
{
	int n = _i + 1;
	struct random r = {suite_seed() + (uint64_t)n};
	struct wide a, b, c;
	mpfr_t x, y, z;

	mpfr_inits2(PRECISION, x, y, z, (mpfr_ptr)0);
	for (int i = 0; i < (int)suite_share(N / WIDE_MAX); i++) {
		uint64_t m = random_u64(&r) >> random_below(&r, 64);
		int shift = (int)random_below(&r, 64 * WIDE_MAX + 100);

		random_wide(&r, &a, UINT64_C(1) << 32, n);
		random_wide(&r, &b, UINT64_C(1) << 31, n);
		set(x, &a, n);
		set(y, &b, n);
		mxfp_wide_mul(&c, &a, &b, n);
		mpfr_mul(z, x, y, MPFR_RNDN);
		within(z, &c, 0, 16, n, "a product");
		mxfp_wide_add(&c, &a, &b, n);
		mpfr_add(z, x, y, MPFR_RNDN);
		within(z, &c, 0, 0, n, "a sum");
		mxfp_wide_sub(&c, &c, &b, n);
		within(x, &c, 0, 0, n, "a difference");
		ck_assert_int_eq(mxfp_wide_less(&a, &b, n), mpfr_less_p(x, y));
		mxfp_wide_mul_small(&c, &a, m >> 33, n);
		mpfr_mul_ui(z, x, (unsigned long)(m >> 33), MPFR_RNDN);
		within(z, &c, 0, 0, n, "a product with an integer");
		mxfp_wide_div_small(&c, &a, (uint32_t)m | 1, n);
		mpfr_div_ui(z, x, (unsigned long)((uint32_t)m | 1), MPFR_RNDN);
		within(z, &c, 0, 1, n, "a quotient");
		mxfp_wide_shift_right(&c, &a, shift, n);
		mpfr_div_2ui(z, x, (unsigned long)shift, MPFR_RNDN);
		within(z, &c, 0, 1, n, "a shift");
		mxfp_wide_shift_left(&c, &a, shift % 32, n);
		mpfr_mul_2ui(z, x, (unsigned long)shift % 32, MPFR_RNDN);
		within(z, &c, 0, 0, n, "a shift to the left");
		mxfp_wide_set(&c, m, -shift, n);
		mpfr_set_ui(z, (unsigned long)(m >> 32), MPFR_RNDN);
		mpfr_mul_2ui(z, z, 32, MPFR_RNDN);
		mpfr_add_ui(z, z, (unsigned long)(uint32_t)m, MPFR_RNDN);
		mpfr_div_2ui(z, z, (unsigned long)shift, MPFR_RNDN);
		within(z, &c, 0, 1, n, "a number");
		a.limb[0] = 1 + a.limb[0] % 3;
		set(x, &a, n);
		mxfp_wide_reciprocal(&c, &a, n);
		mpfr_ui_div(z, 1, x, MPFR_RNDN);
		within(z, &c, -128, 128, n, "a reciprocal");
	}
	mpfr_clears(x, y, z, (mpfr_ptr)0);
	suite_compared(suite_share(N / WIDE_MAX) * 10);
}

/* The top bits, and the jammed one. */
TEST(top_bits_are_jammed)
{
	struct wide a = {{0, 0, UINT64_C(1) << 63, 0}}, b = {{0, 0, 5, 1}};
	int exponent;

	ck_assert_uint_eq(mxfp_wide_top(&a, 3, &exponent), UINT64_C(1) << 61);
	ck_assert_int_eq(exponent, 2 - 128);
	ck_assert_uint_eq(mxfp_wide_top(&b, 3, &exponent), (UINT64_C(5) << 59) + 1);
	ck_assert_int_eq(exponent, 2 - 61 - 128);
	ck_assert_uint_eq(mxfp_wide_top(&b, 2, &exponent), UINT64_C(5) << 59);
	ck_assert(!mxfp_wide_is_zero(&a, 2) && mxfp_wide_is_zero(&a, 1));
}
