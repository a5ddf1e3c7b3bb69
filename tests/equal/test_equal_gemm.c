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
START_TEST(kernels_equal_the_reference)
{
	enum mxfp_format a_format, w_format;

	ck_assert(operand_format((size_t)_i / N_FORMATS, &a_format) && operand_format((size_t)_i % N_FORMATS, &w_format));
	ck_assert_msg(equal_gemm(&equal, a_format, w_format), "%s", equal.message);
}
END_TEST

int main(void)
{
	static char name[N_FORMATS * N_FORMATS][64];
	Suite *suite = suite_create("equal_gemm");

	equal_init(&equal);
	equal_gemm_report_faults();
	for (size_t i = 0; i < N_FORMATS * N_FORMATS; i++) {
		enum mxfp_format a_format = MXFP_FORMAT_F32, w_format = MXFP_FORMAT_F32;

		operand_format(i / N_FORMATS, &a_format);
		operand_format(i % N_FORMATS, &w_format);
		snprintf(name[i], sizeof name[i], "gemm_%s_%s", mxfp_format_get_info(a_format)->name,
		         mxfp_format_get_info(w_format)->name);
		TCase *pair = tcase_create(name[i]);
		tcase_set_timeout(pair, 0);
		tcase_add_loop_test(pair, kernels_equal_the_reference, (int)i, (int)i + 1);
		suite_add_tcase(suite, pair);
	}
	int status = suite_run(suite);
	equal_clear(&equal);
	return status;
}
