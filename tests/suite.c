/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "suite.h"

#include <inttypes.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A test that takes longer waits for ever; CK_DEFAULT_TIMEOUT is another limit, 0 none. */
enum { SECONDS_MAX = 300 };

static struct suite_test *tests;
static uint64_t *n_compared; /* in memory that the processes share */
static uint64_t turn;        /* which test and turn this is: a hash */
static struct suite_options options;
static bool ignores_leaks;

/* Constructors run in any order; the tests, in that of their lines. */
void suite_add(struct suite_test *test)
{
	struct suite_test **place = &tests;

	while (*place != NULL && (*place)->test.line < test->test.line)
		place = &(*place)->next;
	test->next = *place;
	*place = test;
}

uint64_t suite_seed(void)
{
	const char *text = getenv("MXFP_TEST_SEED");

	return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : UINT64_C(20250101);
}

/* LeakSanitizer, of gcc a shared library, asks this when a process exits. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return ignores_leaks;
}

/* FNV-1a of the name, then of the turn: the same whichever tests run. */
void suite_turn(const char *name, int i, int n)
{
	const uint64_t prime = UINT64_C(0x100000001B3);

	turn = UINT64_C(0xCBF29CE484222325);
	for (; *name != '\0'; name++)
		turn = (turn ^ (uint8_t)*name) * prime;
	turn = (turn ^ (uint64_t)i) * prime;
	ignores_leaks = n > 64 && suite_shares() > 1 && turn * UINT64_C(0x9E3779B97F4A7C15) >> 61 != 0;
	if (options.before != NULL)
		options.before();
}

uint64_t suite_seed_of_turn(void)
{
	return suite_seed() ^ turn;
}

uint32_t suite_shares(void)
{
	const char *text = getenv("MXFP_TEST_SHARE");
	unsigned long shares = text != NULL && *text != '\0' ? strtoul(text, NULL, 10) : 1;

	return shares > 1 && shares < UINT32_MAX ? (uint32_t)shares : 1;
}

uint64_t suite_share(uint64_t n)
{
	uint32_t shares = suite_shares();

	return n / shares + (n % shares != 0);
}

void suite_compared(uint64_t n)
{
	__atomic_fetch_add(n_compared, n, __ATOMIC_RELAXED);
}

/* Clears the stack that the test has used, and the registers that its structs were copied by: LeakSanitizer takes what is left of
   pointers there for pointers. */
static void after_turn(void)
{
	static char zeros[1 << 16];
	static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
	char used[sizeof zeros];

	if (options.after != NULL)
		options.after();
	for (size_t n = 1; n <= sizeof used; n += n < 512 ? 1 : n)
		copy(used, zeros, n);
}

static void add_case(Suite *suite, const char *name, const TTest *test, int from, int to)
{
	TCase *one = tcase_create(name);

	if (getenv("CK_DEFAULT_TIMEOUT") == NULL)
		tcase_set_timeout(one, SECONDS_MAX);
	tcase_add_checked_fixture(one, NULL, after_turn);
	tcase_add_loop_test(one, test, from, to);
	suite_add_tcase(suite, one);
}

int suite_run(const struct suite_options *given)
{
	Suite *suite = suite_create("tests");

	if (given != NULL)
		options = *given;
	n_compared = mmap(NULL, sizeof *n_compared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (n_compared == MAP_FAILED)
		abort();
	for (struct suite_test *t = tests; t != NULL; t = t->next) {
		if (options.case_name == NULL)
			add_case(suite, t->test.name, &t->test, 0, t->n);
		for (int i = 0; options.case_name != NULL && i < t->n; i++)
			if (options.case_name(i) != NULL)
				add_case(suite, options.case_name(i), &t->test, i, i + 1);
	}
	SRunner *runner = srunner_create(suite);
	printf("seed: MXFP_TEST_SEED=%" PRIu64 "\n", suite_seed());
	fflush(stdout); /* or each process prints it */
	srunner_run_all(runner, CK_ENV);
	int n_failed = srunner_ntests_failed(runner);
	printf("inputs compared: %" PRIu64 "\n", *n_compared);
	srunner_free(runner);
	mpfr_free_cache();
	return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
