/* SPDX-License-Identifier: MIT */
/* Products by the kernels of every tier, and by the reference's own loops, beside what the reference says. */
#ifndef TESTS_EQUAL_GEMM_H
#define TESTS_EQUAL_GEMM_H

#include "equal/equal.h"

/* Random calls whose product is of these formats. False and e->message on the first difference; a fault prints the call that led
   to it. */
bool equal_gemm(struct equal *e, enum mxfp_format a_format, enum mxfp_format w_format);

#endif
