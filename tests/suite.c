/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include <inttypes.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

static struct suite_test *tests;
static uint64_t n_compared;

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

void suite_compared(uint64_t n)
{
	n_compared += n;
}

static void add_case(Suite *suite, const struct suite_options *o, const char *name, const TTest *test, int from, int to)
{
	TCase *one = tcase_create(name);

	tcase_add_checked_fixture(one, o->before, o->after);
	tcase_add_loop_test(one, test, from, to);
	suite_add_tcase(suite, one);
}

int suite_run(const struct suite_options *options)
{
	const struct suite_options o = options != NULL ? *options : (struct suite_options){0};
	Suite *suite = suite_create("tests");

	for (struct suite_test *t = tests; t != NULL; t = t->next) {
		if (o.case_name == NULL)
			add_case(suite, &o, t->test.name, &t->test, 0, t->n);
		for (int i = 0; o.case_name != NULL && i < t->n; i++)
			if (o.case_name(i) != NULL)
				add_case(suite, &o, o.case_name(i), &t->test, i, i + 1);
	}
	SRunner *runner = srunner_create(suite);
	/* One process, so that the number of inputs is the sum over all tests. */
	srunner_set_fork_status(runner, CK_NOFORK);
	printf("seed: MXFP_TEST_SEED=%" PRIu64 "\n", suite_seed());
	srunner_run_all(runner, CK_ENV);
	int n_failed = srunner_ntests_failed(runner);
	printf("inputs compared: %" PRIu64 "\n", n_compared);
	srunner_free(runner);
	mpfr_free_cache();
	return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
