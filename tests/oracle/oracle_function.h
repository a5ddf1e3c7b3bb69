/* SPDX-License-Identifier: MIT */
/*
 * The expected value of functions of one number, doc/numerics.md, section 8: special values by its text, the others by
 * MPFR, correctly rounded.
 */
#ifndef TESTS_ORACLE_FUNCTION_H
#define TESTS_ORACLE_FUNCTION_H

#include <stdbool.h>

#include "oracle/oracle.h"

/* f(x), bits of binary32; the parameter is finite. */
uint32_t oracle_function(enum mxfp_function function, uint32_t x, uint32_t parameter);

/*
 * The same without MPFR where binary64 decides: if everything within the error bound of a value computed with the machine's
 * libm rounds to one binary32. False: it does not decide. Needs the default rounding mode.
 */
bool oracle_function_filter(enum mxfp_function function, uint32_t x, uint32_t parameter, uint32_t *result);

/* By the filter where that decides, else by MPFR. *undecided counts the latter, if it is not NULL. */
uint32_t oracle_function_fast(enum mxfp_function function, uint32_t x, uint32_t parameter, uint64_t *undecided);

/* What a parameter is if none is given. */
uint32_t oracle_function_parameter(enum mxfp_function function);

/* x^y for finite x > 0 and finite y. */
uint32_t oracle_pow(uint32_t x, uint32_t y);

#endif
