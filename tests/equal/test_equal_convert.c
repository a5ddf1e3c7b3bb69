/* SPDX-License-Identifier: MIT */
/* Conversion kernels of every tier that the machine has equal the reference. One case a destination:
   CK_RUN_CASE=convert_to_e4m3 runs that one. */
#include "equal/equal_slots.h"
#include "format.h"
#include "suite.h"

static struct equal equal;

TEST_LOOP(kernels_equal_the_reference, MXFP_N_FORMATS)
{
	for (int from = 0; from < MXFP_N_FORMATS; from++)
		if (mxfp_format_get_info((enum mxfp_format)from)->kind != MXFP_KIND_BLOCK)
			ck_assert_msg(equal_convert(&equal, (enum mxfp_format)_i, (enum mxfp_format)from), "%s", equal.message);
}

int main(void)
{
	return equal_main_formats(&equal, "convert_to_", false);
}
