/* SPDX-License-Identifier: MIT */
/* binary32 arithmetic of ref/f32.c against MPFR, and against the machine's where that is IEEE 754. */
#include "f32.h"

#include <inttypes.h>
#include <math.h>

#include "bits.h"
#include "oracle/inputs.h"
#include "oracle/oracle.h"
#include "suite.h"

enum operation { ADD, SUB, MUL, DIV, FMA, N_OPERATIONS };

static const char *const name[] = {"add", "sub", "mul", "div", "fma"};

static uint32_t by_ref(enum operation op, uint32_t a, uint32_t b, uint32_t c)
{
	switch (op) {
	case ADD:
		return mxfp_f32_add(a, b);
	case SUB:
		return mxfp_f32_sub(a, b);
	case MUL:
		return mxfp_f32_mul(a, b);
	case DIV:
		return mxfp_f32_div(a, b);
	default:
		return mxfp_f32_fma(a, b, c);
	}
}

static uint32_t by_mpfr(enum operation op, uint32_t a, uint32_t b, uint32_t c)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);
	MPFR_DECL_INIT(z, 24);
	MPFR_DECL_INIT(result, 24);
	int ternary = 0;

	oracle_set_f32(x, a);
	oracle_set_f32(y, b);
	oracle_set_f32(z, c);
	oracle_f32_begin();
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
	uint32_t bits = oracle_f32_bits(result, ternary);
	oracle_f32_end();
	return bits;
}

static uint32_t by_machine(enum operation op, uint32_t a, uint32_t b, uint32_t c)
{
	float x = mxfp_f32_from_bits(a), y = mxfp_f32_from_bits(b), z = mxfp_f32_from_bits(c), result;

	if (op == ADD)
		result = x + y;
	else if (op == SUB)
		result = x - y;
	else if (op == MUL)
		result = x * y;
	else if (op == DIV)
		result = x / y;
	else
		result = fmaf(x, y, z);
	return isnan(result) ? UINT32_C(0x7FC00000) : mxfp_f32_bits(result);
}

static void compare(enum operation op, uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t want = by_mpfr(op, a, b, c), machine = by_machine(op, a, b, c), result = by_ref(op, a, b, c);

	suite_compared(1);
	if (result != want || machine != want)
		ck_abort_msg("%s(%08" PRIX32 ", %08" PRIX32 ", %08" PRIX32 "): %08" PRIX32 " instead of %08" PRIX32
		             " (machine %08" PRIX32 ")", name[op], a, b, c, result, want, machine);
}

TEST_LOOP(edges_with_edges, N_OPERATIONS)
{
	for (size_t i = 0; i < inputs_n_edge; i++)
		for (size_t j = 0; j < inputs_n_edge; j++)
			for (size_t k = 0; k < (_i == FMA ? inputs_n_edge : 1); k++)
				compare((enum operation)_i, inputs_edge[i], inputs_edge[j], inputs_edge[k]);
}

TEST_LOOP(random_patterns, N_OPERATIONS)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(400000); i++) {
		uint32_t a = random_f32(&r), b = random_f32(&r), c = random_f32(&r);
		compare((enum operation)_i, a, b, c);
	}
}

/* A number with an exponent `distance` from that of x, in range. */
static uint32_t at_distance(struct random *r, uint32_t x, int distance)
{
	int exponent = (int)(x >> 23 & 0xFF) - 127 + distance;

	exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
	return random_f32_between(r, exponent, exponent);
}

/* Operands whose exponents nearly agree: cancellation, carries, ties. */
TEST_LOOP(near_exponents, FMA)
{
	struct random r = {suite_seed() + (uint64_t)_i};

	for (int i = 0; i < (int)suite_share(400000); i++) {
		uint32_t a = random_f32_between(&r, -126, 127), b = at_distance(&r, a, (int)random_below(&r, 57) - 28);
		if (i % 4 == 0) /* few bits differ */
			b = (a ^ UINT32_C(1) << random_below(&r, 24)) ^ (uint32_t)(i & 8) << 28;
		compare((enum operation)_i, a, b, 0);
	}
}

/* a * b + c with c near -a * b, or far below or above it: exact cancellation and sticky bits. */
TEST(fma_of_near_products)
{
	struct random r = {suite_seed()};

	for (int i = 0; i < (int)suite_share(600000); i++) {
		uint32_t a = random_f32_between(&r, -80, 63), b = random_f32_between(&r, -70, 63);
		uint32_t product = by_machine(MUL, a, b, 0), c = at_distance(&r, product, (int)random_below(&r, 110) - 55);
		if (i % 3 == 0)
			c = (product ^ UINT32_C(0x80000000)) + random_below(&r, 3) - 1;
		if (i % 3 == 1)
			a &= UINT32_C(0xFFFFFFFF) << random_below(&r, 24);
		compare(FMA, a, b, c);
	}
}

/* Products and quotients about the least normal and subnormal numbers, and about the largest. */
TEST_LOOP(results_at_the_ends, N_OPERATIONS - MUL)
{
	const enum operation operation = (enum operation)(MUL + _i);
	struct random r = {suite_seed() + operation};

	for (int i = 0; i < (int)suite_share(400000); i++) {
		bool low = i % 2 != 0, quotient = operation == DIV;
		uint32_t a = random_f32_between(&r, low ? -126 : 40, low ? -20 : 127);
		int exponent = (int)(a >> 23 & 0xFF) - 127, want = low ? -152 + (int)random_below(&r, 28) : 126 + (i & 2);
		int other = quotient ? exponent - want : want - exponent;
		uint32_t b = other < -126 || other > 127 ? random_f32(&r) : random_f32_between(&r, other, other);
		uint32_t c = low ? random_f32_between(&r, -126, -100) >> random_below(&r, 20) :
		             random_f32_between(&r, 100, 127);
		if (i % 8 == 1)
			c &= UINT32_C(0x8000000F); /* the least subnormals */
		compare(operation, a, b, c);
	}
}

TEST(scaling_rounds_once)
{
	struct random r = {suite_seed()};
	MPFR_DECL_INIT(y, 24);
	MPFR_DECL_INIT(x, 24);

	for (int i = 0; i < (int)suite_share(400000); i++) {
		uint32_t a = random_f32(&r);
		int exponent = (int)random_below(&r, 561) - 280;
		if (i % 2 != 0) /* to the subnormals' range */
			exponent = -150 + (int)random_below(&r, 26) - ((int)(a >> 23 & 0xFF) - 127);
		oracle_set_f32(x, a);
		oracle_f32_begin();
		int ternary = mpfr_mul_2si(y, x, exponent, MPFR_RNDN);
		uint32_t want = oracle_f32_bits(y, ternary), result = mxfp_f32_scale(a, exponent);
		oracle_f32_end();
		if (result != want)
			ck_abort_msg("%08" PRIX32 " * 2^%d: %08" PRIX32 " instead of %08" PRIX32, a, exponent, result, want);
	}
	suite_compared(suite_share(400000));
}

TEST(order_is_that_of_numbers)
{
	struct random r = {suite_seed()};

	for (int i = 0; i < (int)suite_share(400000); i++) {
		uint32_t a = random_f32(&r), b = i % 3 == 0 ? a ^ UINT32_C(1) << random_below(&r, 32) : random_f32(&r);
		float x = mxfp_f32_from_bits(a), y = mxfp_f32_from_bits(b);
		if (isnan(x) || isnan(y))
			continue;
		if (mxfp_f32_compare(a, b) != (x > y) - (x < y))
			ck_abort_msg("compare(%08" PRIX32 ", %08" PRIX32 ")", a, b);
		if (mxfp_f32_from_bits(mxfp_f32_min(a, b)) != (x < y ? x : y)) /* either zero is the least of both */
			ck_abort_msg("min(%08" PRIX32 ", %08" PRIX32 ")", a, b);
	}
	for (size_t i = 0; i < inputs_n_edge; i++)
		for (size_t j = 0; j < inputs_n_edge; j++) {
			float x = mxfp_f32_from_bits(inputs_edge[i]), y = mxfp_f32_from_bits(inputs_edge[j]);
			if (!isnan(x) && !isnan(y))
				ck_assert_int_eq(mxfp_f32_compare(inputs_edge[i], inputs_edge[j]), (x > y) - (x < y));
		}
	suite_compared(suite_share(400000) + inputs_n_edge * inputs_n_edge);
}
