/* SPDX-License-Identifier: MIT */
/* Scanning kernels of every tier that the machine has equal the reference. One case a source: CK_RUN_CASE=scan_bf16
   runs that one. */
#include <stdio.h>

#include "equal_slots.h"
#include "suite.h"

static struct equal equal;

START_TEST(kernels_equal_the_reference)
{
	ck_assert_msg(equal_scan(&equal, (enum mxfp_format)_i), "%s", equal.message);
}
END_TEST

int main(void)
{
	static char name[MXFP_N_FORMATS][64];
	Suite *suite = suite_create("equal_scan");

	equal_init(&equal);
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK)
			continue;
		snprintf(name[f], sizeof name[f], "scan_%s", info->name);
		TCase *one = tcase_create(name[f]);
		tcase_add_loop_test(one, kernels_equal_the_reference, f, f + 1);
		suite_add_tcase(suite, one);
	}
	int status = suite_run(suite);
	equal_clear(&equal);
	return status;
}
