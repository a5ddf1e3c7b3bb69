/* SPDX-License-Identifier: MIT */
/*
 * Products by every tier that the machine has equal the reference: formats, shapes, options, places in memory, packed
 * and not, threads, groups, at random. One case a pair: CK_RUN_CASE=gemm_mxfp8-e4m3_mxfp4 runs that one.
 */
#include <stdio.h>

#include "equal/equal_gemm.h"
#include "oracle/operands.h"
#include "suite.h"

enum { N_FORMATS = 11 };

static struct equal equal;

/* _i: the place of A's format times N_FORMATS + that of W's. */
TEST_LOOP(kernels_equal_the_reference, N_FORMATS * N_FORMATS)
{
	enum mxfp_format a_format, w_format;

	ck_assert(operand_format((size_t)_i / N_FORMATS, &a_format) && operand_format((size_t)_i % N_FORMATS, &w_format));
	ck_assert_msg(equal_gemm(&equal, a_format, w_format), "%s", equal.message);
}

static const char *case_name(int i)
{
	static char name[N_FORMATS * N_FORMATS][64];
	enum mxfp_format a_format = MXFP_FORMAT_F32, w_format = MXFP_FORMAT_F32;

	operand_format((size_t)i / N_FORMATS, &a_format);
	operand_format((size_t)i % N_FORMATS, &w_format);
	snprintf(name[i], sizeof name[i], "gemm_%s_%s", mxfp_format_get_info(a_format)->name,
	         mxfp_format_get_info(w_format)->name);
	return name[i];
}

int main(void)
{
	return equal_main(&equal, case_name);
}
