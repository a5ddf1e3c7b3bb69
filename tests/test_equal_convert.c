/* SPDX-License-Identifier: MIT */
/* Conversion kernels of every tier that the machine has equal the reference. One case a destination:
   CK_RUN_CASE=convert_to_e4m3 runs that one. */
#include <stdio.h>

#include "equal_slots.h"
#include "suite.h"

static struct equal equal;

START_TEST(kernels_equal_the_reference)
{
	for (int from = 0; from < MXFP_N_FORMATS; from++)
		if (mxfp_format_info((enum mxfp_format)from)->kind != MXFP_KIND_BLOCK)
			ck_assert_msg(equal_convert(&equal, (enum mxfp_format)_i, (enum mxfp_format)from), "%s", equal.message);
}
END_TEST

int main(void)
{
	static char name[MXFP_N_FORMATS][64];
	Suite *suite = suite_create("equal_convert");

	equal_init(&equal);
	for (int f = 0; f < MXFP_N_FORMATS; f++) {
		const struct mxfp_format_info *info = mxfp_format_info((enum mxfp_format)f);

		if (info->kind == MXFP_KIND_BLOCK)
			continue;
		snprintf(name[f], sizeof name[f], "convert_to_%s", info->name);
		TCase *one = tcase_create(name[f]);
		tcase_add_loop_test(one, kernels_equal_the_reference, f, f + 1);
		suite_add_tcase(suite, one);
	}
	int status = suite_run(suite);
	equal_clear(&equal);
	return status;
}
