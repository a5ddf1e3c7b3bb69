/* SPDX-License-Identifier: MIT */
/* Products against sums worked by hand and against the stated order of additions. */
#include "analyse/product.h"

#include <check.h>
#include <stdlib.h>

#include "suite.h"

/* x of token t is (t, 1, -2); W = ((1, 2, 3), (0.5, 0, -1)): y = (t - 4, t/2 + 2). Three tokens: less than a group;
   11: groups and a part of one. */
TEST_LOOP(values_are_those_worked_by_hand, 2)
{
	const float weights[] = {1, 2, 3, 0.5f, 0, -1};
	size_t tokens = _i == 0 ? 3 : 11;
	float x[11 * 3];
	double y[2 * 11 + 1];

	for (size_t t = 0; t < tokens; t++) {
		x[3 * t] = (float)t;
		x[3 * t + 1] = 1;
		x[3 * t + 2] = -2;
	}
	y[2 * tokens] = 77;
	product(y, weights, 2, x, tokens, 3, 1);
	for (size_t t = 0; t < tokens; t++) {
		ck_assert_double_eq(y[t], (double)t - 4);
		ck_assert_double_eq(y[tokens + t], (double)t / 2 + 2);
	}
	ck_assert_double_eq(y[2 * tokens], 77);
}

/* In ascending order the first 1 is lost in 2^60 and the last one stays; the descending order gives 0 and pairs of
   neighbours, or of every second term, 0 or 2. The terms lie in different parts of K. */
TEST(sums_are_in_ascending_order)
{
	enum { COLS = 2000 };
	static const size_t places[] = {3, 600, 601, 1999};
	static const float terms[] = {0x1p60f, 1, -0x1p60f, 1};
	float weights[COLS] = {0}, x[COLS];
	double y;

	for (size_t k = 0; k < COLS; k++)
		x[k] = 1;
	for (size_t i = 0; i < 4; i++)
		weights[places[i]] = terms[i];
	product(&y, weights, 1, x, 1, COLS, 0);
	ck_assert_double_eq(y, 1);
}

/* Rows that are shared out differently; w[r][k] = r + k, x = 1: the sum is 3 r + 3. */
TEST_LOOP(every_row_is_made_by_any_number_of_threads, 4)
{
	enum { ROWS = 151 };
	float weights[ROWS * 3];
	const float x[] = {1, 1, 1};
	double y[ROWS] = {0};

	for (int r = 0; r < ROWS; r++)
		for (int k = 0; k < 3; k++)
			weights[3 * r + k] = (float)(r + k);
	product(y, weights, ROWS, x, 1, 3, (unsigned)_i);
	for (int r = 0; r < ROWS; r++)
		ck_assert_double_eq(y[r], 3.0 * r + 3);
}

/* 2^24 + 1 is no binary32 number: each product is rounded as its rule says, and results stand token by token. The
   second call needs more room than the first. */
TEST(products_of_programs_are_rounded)
{
	const float weights[] = {0x1p24f, 1, 1, 0, 2, 0}, x[] = {1, 1, 0, 1};
	struct mxfp_matrix w = mxfp_numbers(MXFP_FORMAT_F32, 2, 2, weights);
	const struct mxfp_matrix tokens = mxfp_numbers(MXFP_FORMAT_F32, 2, 2, x);
	struct product_memory memory = {0};
	struct error error;

	ck_assert_int_eq(product_gemm(&memory, &tokens, 1, &w, 1, &error), EXIT_OK);
	ck_assert_double_eq((double)memory.y[0][0], 0x1p24f);
	ck_assert_double_eq((double)memory.y[0][1], 1);
	ck_assert_double_eq((double)memory.y[0][2], 1);
	ck_assert_double_eq((double)memory.y[0][3], 0);
	w.rows = 3;
	ck_assert_int_eq(product_gemm(&memory, (struct mxfp_matrix[]){tokens, tokens}, 2, &w, 1, &error), EXIT_OK);
	ck_assert_double_eq((double)memory.y[1][2], 2);
	ck_assert_double_eq((double)memory.y[1][3], 1);
	product_memory_free(&memory);
}
