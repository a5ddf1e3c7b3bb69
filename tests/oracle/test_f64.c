/* SPDX-License-Identifier: MIT */
/* binary64 arithmetic of ref/f64.c against MPFR. */
#include "f64.h"

#include <inttypes.h>
#include <string.h>

#include "oracle/inputs.h"
#include "oracle/oracle.h"
#include "suite.h"

enum operation { ADD, SUB, MUL, DIV, FMA, N_OPERATIONS };

static const char *const name[] = {"add", "sub", "mul", "div", "fma"};

static const uint64_t edge[] = {
	0, 1, 2, 3, UINT64_C(0x0008000000000000), UINT64_C(0x000FFFFFFFFFFFFF), UINT64_C(0x0010000000000000),
	UINT64_C(0x0010000000000001), UINT64_C(0x1FF0000000000000), UINT64_C(0x20000000000000FF),
	UINT64_C(0x3CA0000000000000), UINT64_C(0x3E50000000000000), UINT64_C(0x3FE0000000000000),
	UINT64_C(0x3FEFFFFFFFFFFFFF), MXFP_F64_ONE, UINT64_C(0x3FF0000000000001), UINT64_C(0x3FF8000000000000),
	UINT64_C(0x4000000000000000), UINT64_C(0x4330000000000000), UINT64_C(0x4340000000000001),
	UINT64_C(0x5FEFFFFFFFFFFFFF), UINT64_C(0x7FE0000000000000), UINT64_C(0x7FEFFFFFFFFFFFFF), MXFP_F64_INF,
	UINT64_C(0x7FF0000000000001), MXFP_F64_NAN, UINT64_C(0x36A0000000000000), UINT64_C(0x3690000000000000),
	UINT64_C(0x47EFFFFFE0000000), UINT64_C(0x47EFFFFFF0000000), UINT64_C(0x47EFFFFFEFFFFFFF),
	UINT64_C(0x380FFFFFC0000000), UINT64_C(0x380FFFFFE0000000), UINT64_C(0x3FF0000010000000),
	UINT64_C(0x3FF0000030000000),
};
enum { N_EDGE = 2 * sizeof edge / sizeof edge[0] };

static uint64_t edge_number(size_t i)
{
	return edge[i / 2] | (i % 2 != 0 ? MXFP_F64_SIGN : 0);
}

/* MPFR's own conversions carry a binary64 in and out. */
static double number(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static uint64_t bits_of(mpfr_srcptr y)
{
	double x = mpfr_get_d(y, MPFR_RNDN);
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	return mpfr_nan_p(y) ? MXFP_F64_NAN : bits;
}

/* The exponents of binary64, as those of oracle_f32_begin() for binary32: results have 53 bits, and fewer below 2^-1022. */
static uint64_t rounded(mpfr_ptr y, int ternary)
{
	mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();

	mpfr_set_emin(-1073);
	mpfr_set_emax(1024);
	ternary = mpfr_check_range(y, ternary, MPFR_RNDN);
	mpfr_subnormalize(y, ternary, MPFR_RNDN);
	uint64_t bits = bits_of(y);
	mpfr_set_emin(emin);
	mpfr_set_emax(emax);
	return bits;
}

static uint64_t by_mpfr(enum operation op, uint64_t a, uint64_t b, uint64_t c)
{
	MPFR_DECL_INIT(x, 53);
	MPFR_DECL_INIT(y, 53);
	MPFR_DECL_INIT(z, 53);
	MPFR_DECL_INIT(result, 53);
	int ternary;

	mpfr_set_d(x, number(a), MPFR_RNDN);
	mpfr_set_d(y, number(b), MPFR_RNDN);
	mpfr_set_d(z, number(c), MPFR_RNDN);
	if (op == ADD)
		ternary = mpfr_add(result, x, y, MPFR_RNDN);
	else if (op == SUB)
		ternary = mpfr_sub(result, x, y, MPFR_RNDN);
	else if (op == MUL)
		ternary = mpfr_mul(result, x, y, MPFR_RNDN);
	else if (op == DIV)
		ternary = mpfr_div(result, x, y, MPFR_RNDN);
	else
		ternary = mpfr_fma(result, x, y, z, MPFR_RNDN);
	return rounded(result, ternary);
}

static uint64_t by_ref(enum operation op, uint64_t a, uint64_t b, uint64_t c)
{
	switch (op) {
	case ADD:
		return mxfp_f64_add(a, b);
	case SUB:
		return mxfp_f64_sub(a, b);
	case MUL:
		return mxfp_f64_mul(a, b);
	case DIV:
		return mxfp_f64_div(a, b);
	default:
		return mxfp_f64_fma(a, b, c);
	}
}

static void check(enum operation op, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t want = by_mpfr(op, a, b, c), result = by_ref(op, a, b, c);

	suite_compared(1);
	if (result != want)
		ck_abort_msg("%s(%016" PRIX64 ", %016" PRIX64 ", %016" PRIX64 "): %016" PRIX64 " instead of %016" PRIX64,
		             name[op], a, b, c, result, want);
}

/* Any bits, or an exponent in a range, with a short significand at times. */
static uint64_t random_f64(struct random *r, int low, int high)
{
	uint64_t bits = random_u64(r);

	if (random_below(r, 8) == 0)
		return edge_number(random_below(r, N_EDGE));
	bits = (bits & ~MXFP_F64_INF) | (uint64_t)(low + 1023 + (int)random_below(r, (uint32_t)(high - low + 1))) << 52;
	if (random_below(r, 3) == 0)
		bits &= ~UINT64_C(0) << random_below(r, 53);
	return bits;
}

TEST_LOOP(edges_with_edges, N_OPERATIONS)
{
	for (size_t i = 0; i < N_EDGE; i++)
		for (size_t j = 0; j < N_EDGE; j++)
			for (size_t k = 0; k < (_i == FMA ? N_EDGE : 1); k++)
				check((enum operation)_i, edge_number(i), edge_number(j), edge_number(k));
}

TEST_LOOP(random_patterns, N_OPERATIONS)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(200000); i++)
		check((enum operation)_i, random_u64(&r), random_u64(&r), random_u64(&r));
}

/* Exponents that nearly agree: cancellation, carries, ties; products near what is added to them. */
TEST_LOOP(near_exponents, N_OPERATIONS)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(200000); i++) {
		uint64_t a = random_f64(&r, -40, 40), b = random_f64(&r, -40, 40), c = random_f64(&r, -90, 90);
		if (i % 3 == 0) /* few bits differ */
			b = (a ^ UINT64_C(1) << random_below(&r, 53)) ^ (random_u64(&r) & MXFP_F64_SIGN);
		if (i % 4 == 0)
			c = (by_mpfr(MUL, a, b, 0) ^ MXFP_F64_SIGN) + random_below(&r, 3) - 1;
		check((enum operation)_i, a, b, c);
	}
}

/* Results about the least normal and subnormal numbers, and about the largest. */
TEST_LOOP(results_at_the_ends, N_OPERATIONS)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(200000); i++) {
		const bool low = i % 2 != 0, product = _i == MUL || _i == FMA;
		const int top = low ? -1022 + (int)random_below(&r, 8) - 56 * (int)random_below(&r, 2) : 1021;
		uint64_t a = random_f64(&r, low ? -1022 : 400, low ? -400 : 1023), b = random_f64(&r, low ? -1022 : 1000, low ? -960 : 1023);
		int exponent = (int)(a >> 52 & 0x7FF) - 1023, other = product ? top - exponent : exponent - top;
		if ((product || _i == DIV) && other > -1023 && other < 1023)
			b = random_f64(&r, other, other + 1);
		check((enum operation)_i, a, b, random_f64(&r, low ? -1022 : 960, low ? -960 : 1023));
	}
}

static uint32_t f32_of(mpfr_ptr y, int ternary)
{
	oracle_f32_begin();
	uint32_t bits = oracle_f32_bits(y, mpfr_check_range(y, ternary, MPFR_RNDN));
	oracle_f32_end();
	return bits;
}

/* To binary32: itself, its reciprocal, and 1 / sqrt. MPFR's 1 / sqrt has no signed zero to divide by. */
static void check_narrow(uint64_t a)
{
	MPFR_DECL_INIT(x, 53);
	MPFR_DECL_INIT(one, 53);
	MPFR_DECL_INIT(y, 24);

	mpfr_set_d(x, number(a), MPFR_RNDN);
	mpfr_set_ui(one, 1, MPFR_RNDN);
	uint32_t want[] = {
		f32_of(y, mpfr_set(y, x, MPFR_RNDN)), f32_of(y, mpfr_div(y, one, x, MPFR_RNDN)),
		f32_of(y, mpfr_rec_sqrt(y, x, MPFR_RNDN)),
	};
	if (a == MXFP_F64_SIGN)
		want[2] = F32_SIGN | F32_INF;
	uint32_t result[] = {mxfp_f64_to_f32(a), mxfp_f64_reciprocal_f32(a), mxfp_f64_rsqrt_f32(a)};
	for (int i = 0; i < 3; i++)
		if (result[i] != want[i])
			ck_abort_msg("result %d of %016" PRIX64 ": %08" PRIX32 " instead of %08" PRIX32, i, a, result[i], want[i]);
	suite_compared(3);
}

TEST(narrowing)
{
	struct random r = {suite_seed()};

	for (size_t i = 0; i < N_EDGE; i++)
		check_narrow(edge_number(i));
	for (int i = 0; i < (int)suite_share(200000); i++) {
		check_narrow(random_u64(&r));
		check_narrow(random_f64(&r, -154, 130));
		check_narrow(random_f64(&r, -300, 300) & ~MXFP_F64_SIGN);
		/* On, and beside, a binary32 number and the midpoint of two: also of their inverse squares. */
		uint64_t y = mxfp_f64_from_f32(random_f32_between(&r, -126, 126)) | (random_u64(&r) & 1) << 28;
		check_narrow(y + random_below(&r, 3) - 1);
		check_narrow(by_mpfr(DIV, MXFP_F64_ONE, y, 0) + random_below(&r, 3) - 1);
		check_narrow((by_mpfr(DIV, MXFP_F64_ONE, by_mpfr(MUL, y, y, 0), 0) + random_below(&r, 3) - 1) & ~MXFP_F64_SIGN);
	}
}

/* 1 / sqrt of powers of four, which is exact, and where a binary32 has 12 significant bits. */
TEST(exact_reciprocals)
{
	for (int e = -1074; e < 1024; e++) {
		MPFR_DECL_INIT(x, 53);

		mpfr_set_ui_2exp(x, 1, e, MPFR_RNDN);
		check_narrow(bits_of(x));
	}
}

TEST(widening)
{
	struct random r = {suite_seed()};
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 53);

	for (size_t i = 0; i < inputs_n_edge + suite_share(400000); i++) {
		uint32_t a = i < inputs_n_edge ? inputs_edge[i] : random_f32(&r);
		uint64_t n = random_u64(&r) >> random_below(&r, 64);

		oracle_set_f32(x, a);
		if (mxfp_f64_from_f32(a) != bits_of(x))
			ck_abort_msg("%08" PRIX32 ": %016" PRIX64, a, mxfp_f64_from_f32(a));
		mpfr_set_uj(y, n, MPFR_RNDN);
		if (mxfp_f64_from_u64(n) != bits_of(y))
			ck_abort_msg("%" PRIu64 ": %016" PRIX64, n, mxfp_f64_from_u64(n));
	}
	ck_assert(mxfp_f64_from_u64(0) == 0);
	suite_compared(2 * (inputs_n_edge + suite_share(400000)));
}

TEST(order_is_that_of_numbers)
{
	struct random r = {suite_seed()};

	for (int i = 0; i < (int)suite_share(400000); i++) {
		uint64_t a = i < 8 * N_EDGE ? edge_number((size_t)i % N_EDGE) : random_f64(&r, -3, 3);
		uint64_t b = i % 3 == 0 ? a ^ UINT64_C(1) << random_below(&r, 64) : random_f64(&r, -3, 3);
		MPFR_DECL_INIT(x, 53);
		MPFR_DECL_INIT(y, 53);

		mpfr_set_d(x, number(a), MPFR_RNDN);
		mpfr_set_d(y, number(b), MPFR_RNDN);
		if (mpfr_nan_p(x) || mpfr_nan_p(y))
			continue;
		int want = mpfr_cmp(x, y);
		if (mxfp_f64_compare(a, b) != (want > 0) - (want < 0))
			ck_abort_msg("compare(%016" PRIX64 ", %016" PRIX64 ")", a, b);
	}
	suite_compared(suite_share(400000));
}
