/* SPDX-License-Identifier: MIT */
/* Scanning kernels of every tier that the machine has equal the reference. One case a source: CK_RUN_CASE=scan_bf16
   runs that one. */
#include "equal/equal_slots.h"
#include "suite.h"

static struct equal equal;

TEST_LOOP(kernels_equal_the_reference, MXFP_N_FORMATS)
{
	ck_assert_msg(equal_scan(&equal, (enum mxfp_format)_i), "%s", equal.message);
}

int main(void)
{
	return equal_main_formats(&equal, "scan_", false);
}
