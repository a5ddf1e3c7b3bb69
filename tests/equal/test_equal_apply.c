/* SPDX-License-Identifier: MIT */
/* Functions of one number in every tier that the machine has equal the reference. One case a function:
   CK_RUN_CASE=apply_gelu-tanh runs that one. */
#include "equal/equal_slots.h"

#include <stdio.h>

#include "mxfp/options.h"
#include "suite.h"

static struct equal equal;

TEST_LOOP(kernels_equal_the_reference, MXFP_N_FUNCTIONS)
{
	ck_assert_msg(equal_apply(&equal, (enum mxfp_function)_i), "%s", equal.message);
}

static const char *case_name(int i)
{
	static char name[MXFP_N_FUNCTIONS][64];

	snprintf(name[i], sizeof name[i], "apply_%s", mxfp_option_name(MXFP_OPTION_FUNCTION, i));
	return name[i];
}

int main(void)
{
	return equal_main(&equal, case_name);
}
