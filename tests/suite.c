/* SPDX-License-Identifier: MIT */
#include "suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t n_compared;

uint64_t suite_seed(void)
{
	const char *text = getenv("MXFP_TEST_SEED");

	return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : UINT64_C(20250101);
}

void suite_compared(uint64_t n)
{
	n_compared += n;
}

int suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);

	/* One process, so that the number of inputs is the sum over all tests. */
	srunner_set_fork_status(runner, CK_NOFORK);
	printf("seed: MXFP_TEST_SEED=%" PRIu64 "\n", suite_seed());
	srunner_run_all(runner, CK_ENV);
	int n_failed = srunner_ntests_failed(runner);
	printf("inputs compared: %" PRIu64 "\n", n_compared);
	srunner_free(runner);
	return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
