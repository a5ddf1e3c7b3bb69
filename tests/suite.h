/* SPDX-License-Identifier: MIT */
/*
 * What every test program shares. A program is its TEST()s: each runs, in the order of the file, as a case of its own name, so
 * that CK_RUN_CASE=name runs that one alone. No list repeats them, and main() is the library's, unless there is something to set
 * up.
 *
 * Each test, and each turn of a loop, is a process of its own, so that one that crashes or waits for ever is one that fails; what it
 * changes in memory no other test sees. CK_FORK=no keeps all in one process, for a debugger. With MXFP_TEST_SHARE, leaks are looked
 * for in an eighth of the turns of a loop of more than 64: that takes longer than most turns.
 */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdint.h>

#define assert_status(call, want) ck_assert_int_eq((int)(call), (int)(want))

/* A test, whose body follows. */
#define TEST(name) TEST_LOOP(name, 1)

/* A test that runs for each _i from 0 to n - 1. */
#define TEST_LOOP(name, n)                                                                              \
	static void name(int _i);                                                                           \
	static void name##_turn(int _i)                                                                     \
	{                                                                                                   \
		suite_turn(#name, _i, (int)(n));                                                                \
		name(_i);                                                                                       \
	}                                                                                                   \
	__attribute__((constructor)) static void name##_add(void)                                           \
	{                                                                                                   \
		static struct suite_test test = {{#name, name##_turn, __FILE__, __LINE__}, (int)(n), NULL};     \
		suite_add(&test);                                                                               \
	}                                                                                                   \
	static void name(int _i CK_ATTRIBUTE_UNUSED)

struct suite_test {
	TTest test;
	int n;
	struct suite_test *next;
};

void suite_add(struct suite_test *test);
void suite_turn(const char *name, int i, int n);

/* NULL or zero: nothing of the kind. */
struct suite_options {
	void (*before)(void), (*after)(void); /* each test, and each turn of a loop */
	/* The name of the case that a loop's turn _i belongs to, instead of the test's; NULL: there is no such case. */
	const char *(*case_name)(int i);
};

/* Runs the tests, prints seed and number of inputs; the value for main() to return. */
int suite_run(const struct suite_options *options);

/* The seed of random inputs: MXFP_TEST_SEED, or a fixed number. */
uint64_t suite_seed(void);

/* The same, another one for each test and turn. */
uint64_t suite_seed_of_turn(void);

/* Of n random inputs those to try: n / MXFP_TEST_SHARE, rounded up; all of them without it. What is enumerated, such as formats
   and edges of them, is no random input. */
uint64_t suite_share(uint64_t n);
uint32_t suite_shares(void); /* MXFP_TEST_SHARE, or 1 */

/* Adds to the number of inputs that were compared with an expectation. */
void suite_compared(uint64_t n);

#endif
