/* SPDX-License-Identifier: MIT */
/* Products against sums worked by hand and against the stated order of additions. */
#include "product.h"

#include <check.h>
#include <stdlib.h>

#include "suite.h"

/* x of token t is (t, 1, -2); W = ((1, 2, 3), (0.5, 0, -1)): y = (t - 4, t/2 + 2). Three tokens: less than a group;
   11: a group and a part of one. */
START_TEST(values_are_those_worked_by_hand)
{
	const float weights[] = {1, 2, 3, 0.5f, 0, -1};
	size_t tokens = _i == 0 ? 3 : 11;
	float x[11 * 3], held[16 * 3];
	double y[2 * 11 + 1];
	struct product_operand operand = {.x = held};

	for (size_t t = 0; t < tokens; t++) {
		x[3 * t] = (float)t;
		x[3 * t + 1] = 1;
		x[3 * t + 2] = -2;
	}
	ck_assert_uint_eq(product_operand_size(tokens, 3), (tokens == 3 ? 8 : 16) * 3);
	product_operand_set(&operand, x, tokens, 3);
	y[2 * tokens] = 77;
	product(y, weights, 2, &operand, 1);
	for (size_t t = 0; t < tokens; t++) {
		ck_assert_double_eq(y[t], (double)t - 4);
		ck_assert_double_eq(y[tokens + t], (double)t / 2 + 2);
	}
	ck_assert_double_eq(y[2 * tokens], 77);
}
END_TEST

/* In ascending order the first 1 is lost in 2^60 and the last one stays; the descending order gives 0 and pairs of
   neighbours, or of every second term, 0 or 2. */
START_TEST(sums_are_in_ascending_order)
{
	const float weights[] = {0x1p60f, 1, -0x1p60f, 1}, x[] = {1, 1, 1, 1};
	float held[8 * 4];
	double y;
	struct product_operand operand = {.x = held};

	product_operand_set(&operand, x, 1, 4);
	product(&y, weights, 1, &operand, 0);
	ck_assert_double_eq(y, 1);
}
END_TEST

/* Rows that are shared out differently; w[r][k] = r + k, x = 1: the sum is 3 r + 3. */
START_TEST(every_row_is_made_by_any_number_of_threads)
{
	enum { ROWS = 23 };
	float weights[ROWS * 3], held[8 * 3];
	const float x[] = {1, 1, 1};
	struct product_operand operand = {.x = held};
	double y[ROWS] = {0};

	for (int r = 0; r < ROWS; r++)
		for (int k = 0; k < 3; k++)
			weights[3 * r + k] = (float)(r + k);
	product_operand_set(&operand, x, 1, 3);
	product(y, weights, ROWS, &operand, (unsigned)_i);
	for (int r = 0; r < ROWS; r++)
		ck_assert_double_eq(y[r], 3.0 * r + 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("product");
	TCase *tcase = tcase_create("product_oracle");

	tcase_add_loop_test(tcase, values_are_those_worked_by_hand, 0, 2);
	tcase_add_loop_test(tcase, every_row_is_made_by_any_number_of_threads, 0, 4);
	tcase_add_test(tcase, sums_are_in_ascending_order);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
