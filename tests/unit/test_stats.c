/* SPDX-License-Identifier: MIT */
/* Error statistics against values worked by hand. Inputs are chosen so that every sum and quotient is exact. */
#include "base/stats.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "../bench/samples.h"
#include "suite.h"

/* a = 1 2 -4 2, b = 1 4 -4 0: signal 1+4+16+4, noise 4+4, measured 1+16+16, product 1+8+16. */
static const float source[] = {1, 2, -4, 2}, measured[] = {1, 4, -4, 0};

TEST(sums_are_those_worked_by_hand)
{
	struct stats s = {0};

	stats_add(&s, source, measured, 4);
	ck_assert_uint_eq(s.n, 4);
	ck_assert_uint_eq(s.excluded, 0);
	ck_assert_uint_eq(s.unequal, 2);
	ck_assert_uint_eq(s.first_unequal, 1);
	ck_assert_double_eq(s.signal, 25);
	ck_assert_double_eq(s.noise, 8);
	ck_assert_double_eq(s.measured, 33);
	ck_assert_double_eq(s.product, 25);
	ck_assert_double_eq(s.max_absolute, 2);
	ck_assert_double_eq(s.max_relative, 1);
	ck_assert_double_eq(stats_relative_error(&s), sqrt(8.0 / 25));
}

TEST(binary64_numbers_give_the_same)
{
	const double a[] = {1, 2, -4, 2}, b[] = {1, 4, -4, 0};
	struct stats s = {0}, t = {0};

	stats_add(&s, source, measured, 4);
	stats_add_double(&t, a, b, 4);
	ck_assert_mem_eq(&s, &t, sizeof s);
}

TEST(pieces_do_not_matter)
{
	struct stats whole = {0}, pieces = {0}, part = {0};

	stats_add(&whole, source, measured, 4);
	for (size_t i = 0; i < 4; i++)
		stats_add(&pieces, source + i, measured + i, 1);
	ck_assert_mem_eq(&whole, &pieces, sizeof whole);
	stats_add(&part, source + 1, measured + 1, 3);
	pieces = (struct stats){0};
	stats_add(&pieces, source, measured, 1);
	stats_merge(&pieces, &part);
	ck_assert_mem_eq(&whole, &pieces, sizeof whole);
}

/* Pairs that are not measured have a place, too. */
TEST(the_first_difference_is_counted_from_the_start)
{
	const float a[] = {NAN, INFINITY, 1, 1}, b[] = {NAN, INFINITY, 1, 2};
	struct stats whole = {0}, part = {0};

	stats_add(&whole, a, b, 3);
	stats_add(&part, a + 3, b + 3, 1);
	stats_merge(&whole, &part);
	ck_assert_uint_eq(whole.unequal, 1);
	ck_assert_uint_eq(whole.first_unequal, 3);
}

/* Noise a hundredth of the signal is 20 dB, and so on: the definition of the decibel. */
TEST(sqnr_is_in_decibels)
{
	const struct stats s = {.n = 1, .signal = 100, .noise = 1}, t = {.n = 1, .signal = 1, .noise = 1000},
	                   u = {.n = 1, .signal = 3, .noise = 3};

	ck_assert_double_eq(stats_sqnr(&s), 20);
	ck_assert_double_eq(stats_sqnr(&t), -30);
	ck_assert_double_eq(stats_sqnr(&u), 0);
}

/* (3, 4) against (4, 3): 24/25; against its opposite -1; against a right angle 0. */
TEST(cosine_is_that_of_known_angles)
{
	const float a[] = {3, 4}, b[] = {4, 3}, c[] = {-3, -4}, d[] = {-4, 3};
	struct stats s = {0}, t = {0}, u = {0}, v = {0};

	stats_add(&s, a, b, 2);
	stats_add(&t, a, c, 2);
	stats_add(&u, a, d, 2);
	stats_add(&v, a, a, 2);
	ck_assert_double_eq(stats_cosine(&s), 24.0 / 25);
	ck_assert_double_eq(stats_cosine(&t), -1);
	ck_assert_double_eq(stats_cosine(&u), 0);
	ck_assert_double_eq(stats_cosine(&v), 1);
}

TEST(nan_and_inf_are_excluded_and_counted)
{
	const float a[] = {NAN, 3, INFINITY, -INFINITY, 1, NAN}, b[] = {NAN, 3, INFINITY, INFINITY, NAN, 2};
	struct stats s = {0};

	stats_add(&s, a, b, 6);
	ck_assert_uint_eq(s.n, 1);
	ck_assert_uint_eq(s.excluded, 5);
	ck_assert_uint_eq(s.unequal, 3);
	ck_assert_uint_eq(s.first_unequal, 3);
	ck_assert_double_eq(s.signal, 9);
	ck_assert_double_eq(s.noise, 0);
}

TEST(zero_source_has_its_own_values)
{
	const float zero[] = {0, -0.0f}, other[] = {0, 2};
	struct stats same = {0}, wrong = {0}, lost = {0}, none = {0};

	stats_add(&same, zero, zero, 2);
	ck_assert_double_eq(stats_sqnr(&same), INFINITY);
	ck_assert_double_eq(stats_relative_error(&same), 0);
	ck_assert_double_eq(stats_cosine(&same), 1);
	stats_add(&wrong, zero, other, 2);
	ck_assert_double_eq(stats_sqnr(&wrong), -INFINITY);
	ck_assert_double_eq(stats_relative_error(&wrong), INFINITY);
	ck_assert_double_eq(stats_cosine(&wrong), 0);
	ck_assert_double_eq(wrong.max_absolute, 2);
	ck_assert_double_eq(wrong.max_relative, 0);
	stats_add(&lost, other, zero, 2);
	ck_assert_double_eq(stats_sqnr(&lost), 0);
	ck_assert_double_eq(stats_cosine(&lost), 0);
	ck_assert_double_nan(stats_sqnr(&none));
	ck_assert_double_nan(stats_relative_error(&none));
	ck_assert_double_nan(stats_cosine(&none));
}

TEST(zeros_of_both_signs_are_equal)
{
	const float plus[] = {0}, minus[] = {-0.0f};
	struct stats s = {0};

	stats_add(&s, plus, minus, 1);
	ck_assert_uint_eq(s.unequal, 0);
}

/* The squares of the extremes of binary32 neither overflow nor vanish in binary64: 2^127 and 2^-149. */
TEST(extremes_of_binary32_do_not_overflow)
{
	const float a[] = {0x1p127f, 0x1p-149f}, b[] = {-0x1p127f, 0};
	struct stats s = {0}, t = {0};

	stats_add(&s, a, b, 1);
	ck_assert_double_eq(s.noise, 0x1p256);
	ck_assert_double_eq(s.max_absolute, 0x1p128);
	ck_assert_double_eq(s.max_relative, 2);
	stats_add(&t, a + 1, b + 1, 1);
	ck_assert_double_eq(t.noise, 0x1p-298);
	ck_assert_double_eq(stats_relative_error(&t), 1);
}

/* The same numbers in other units have the same statistics, also where no square is a number of binary64. */
TEST(units_do_not_matter)
{
	static const int units[] = {-1000, -600, -449, -100, 0, 100, 481, 600, 1000};
	const double a[] = {0, 0x1p-10, 1, 2, -4, 2}, b[] = {0x1p-10, 0, 1, 4, -4, 0};

	for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
		struct stats s = {0}, halves[2] = {{0}, {0}};
		double x[6], y[6];

		for (size_t i = 0; i < 6; i++) {
			x[i] = ldexp(a[i], units[u]);
			y[i] = ldexp(b[i], units[u]);
		}
		stats_add_double(&s, x, y, 6);
		stats_add_double(&halves[0], x, y, 2);
		stats_add_double(&halves[1], x + 2, y + 2, 4);
		stats_merge(&halves[0], &halves[1]);
		for (size_t i = 0; i < 2; i++) {
			const struct stats *t = i == 0 ? &s : &halves[0];

			ck_assert_uint_eq(t->unequal, 4);
			ck_assert_double_eq(t->max_absolute, ldexp(2, units[u]));
			ck_assert_double_eq(t->max_relative, 1);
			/* signal 25 + 2^-20, noise 8 + 2^-19, measured 33 + 2^-20, product 25 */
			ck_assert_double_eq_tol(stats_sqnr(t), 10 * log10((25 + 0x1p-20) / (8 + 0x1p-19)), 1e-12);
			ck_assert_double_eq_tol(stats_relative_error(t), sqrt((8 + 0x1p-19) / (25 + 0x1p-20)), 1e-15);
			ck_assert_double_eq_tol(stats_cosine(t), 25 / (sqrt(25 + 0x1p-20) * sqrt(33 + 0x1p-20)), 1e-15);
		}
	}
}

/* Of numbers from both ends the small ones add nothing, in either order; an error that small is still one. */
TEST(ends_of_binary64_stand_together)
{
	const double a[] = {0x1p-1074, 0x1p1023, -0x1p1023}, b[] = {0x1p-1073, 0x1p1023, 0x1p1023};
	struct stats s = {0}, t = {0};

	stats_add_double(&s, a, b, 2);
	stats_add_double(&t, a + 1, b + 1, 1);
	stats_add_double(&t, a, b, 1);
	/* noise 2^-2148, signal 2^2046 */
	ck_assert_double_eq_tol(stats_sqnr(&s), 10 * log10(2) * 4194, 1e-8);
	ck_assert_double_eq_tol(stats_sqnr(&t), 10 * log10(2) * 4194, 1e-8);
	ck_assert_double_eq(stats_cosine(&s), 1);
	ck_assert_double_eq(s.max_absolute, 0x1p-1074);
	ck_assert_double_eq(s.max_relative, 1);
	/* A difference of 2^1024. */
	s = (struct stats){0};
	stats_add_double(&s, a + 2, b + 2, 1);
	ck_assert_double_eq(stats_relative_error(&s), 2);
	ck_assert_double_eq(stats_cosine(&s), -1);
	ck_assert_double_eq(s.max_relative, 2);
	ck_assert_double_eq(s.max_absolute, INFINITY);
	/* One side alone far away: the angle is none. */
	const double one[] = {3, 4}, far[] = {0x3p-1000, 0x1p-998};
	s = (struct stats){0};
	stats_add_double(&s, one, far, 2);
	ck_assert_double_eq(stats_cosine(&s), 1);
	ck_assert_double_eq(stats_sqnr(&s), 0);
}

TEST(scaled_statistics_are_those_of_scaled_numbers)
{
	const float a[] = {0x1p100f, 0x2p100f, -0x4p100f, 0x2p100f}, b[] = {0x1p100f, 0x4p100f, -0x4p100f, 0};
	struct stats s = {0}, t = {0};

	stats_add(&s, source, measured, 4);
	stats_scale(&s, 100);
	stats_add(&t, a, b, 4);
	ck_assert_mem_eq(&s, &t, sizeof s);
}

/* Samples of times: the middle one, and the third least from the third largest, of nine. */
TEST(times_have_a_median_and_quartiles)
{
	double five[] = {5, 1, 4, 2, 3}, nine[] = {9, 2, 7, 4, 40, 6, 3, 8, 1};
	struct bench_time time = bench_summary(five, 5);

	ck_assert_double_eq(time.median, 3);
	ck_assert_double_eq(time.spread, (4.0 - 2) / 3);
	time = bench_summary(nine, 9);
	ck_assert_double_eq(time.median, 6);
	ck_assert_double_eq(time.spread, (8.0 - 3) / 6);
}
