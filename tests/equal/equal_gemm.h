/* SPDX-License-Identifier: MIT */
/* Products by the kernels of every tier, and by the reference's own loops, beside what the reference says. */
#ifndef TESTS_EQUAL_GEMM_H
#define TESTS_EQUAL_GEMM_H

#include "equal/equal.h"

/* Random calls whose product is of these formats. False and e->message on the first difference. */
bool equal_gemm(struct equal *e, enum mxfp_format a_format, enum mxfp_format w_format);

/* Has a fault of a kernel print the call that led to it, on any thread; after equal_init(). */
void equal_gemm_report_faults(void);

#endif
