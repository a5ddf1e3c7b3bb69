/* SPDX-License-Identifier: MIT */
#include "format.h"
#include "suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mxfp/format.h"

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

int suite_run_formats(const char *name, const char *case_prefix, bool blocks, const TTest *test)
{
	static char case_name[MXFP_N_FORMATS][64];
	Suite *suite = suite_create(name);

	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)f);

		if ((info->kind == MXFP_KIND_BLOCK) != blocks)
			continue;
		snprintf(case_name[f], sizeof case_name[f], "%s%s", case_prefix, info->name);
		TCase *one = tcase_create(case_name[f]);
		tcase_add_loop_test(one, test, f, f + 1);
		suite_add_tcase(suite, one);
	}
	return suite_run(suite);
}
