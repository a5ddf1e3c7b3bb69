/* SPDX-License-Identifier: MIT */
/* Scanning kernels of every tier that the machine has equal the reference. One case a source: CK_RUN_CASE=scan_bf16
   runs that one. */
#include "equal/equal_slots.h"
#include "suite.h"

static struct equal equal;

START_TEST(kernels_equal_the_reference)
{
	ck_assert_msg(equal_scan(&equal, (enum mxfp_format)_i), "%s", equal.message);
}
END_TEST

int main(void)
{
	equal_init(&equal);
	int status = suite_run_formats("equal_scan", "scan_", false, kernels_equal_the_reference);
	equal_clear(&equal);
	return status;
}
