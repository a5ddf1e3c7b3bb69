/* SPDX-License-Identifier: MIT */
/* Quantizing kernels of every tier that the machine has equal the reference. One case a format:
   CK_RUN_CASE=quantize_mxfp4 runs that one. */
#include "equal/equal_slots.h"
#include "suite.h"

static struct equal equal;

TEST_LOOP(kernels_equal_the_reference, MXFP_N_FORMATS)
{
	static const enum mxfp_format numbers[] = {MXFP_FORMAT_F32, MXFP_FORMAT_BF16, MXFP_FORMAT_F16};

	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		for (int squares = 0; squares < (mxfp_format_get_info((enum mxfp_format)_i)->tensor_scale ? 1 : 2); squares++)
			ck_assert_msg(equal_quantize(&equal, (enum mxfp_format)_i, numbers[i], squares), "%s", equal.message);
}

int main(void)
{
	return equal_main_formats(&equal, "quantize_", true);
}
