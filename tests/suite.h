/* SPDX-License-Identifier: MIT */
/* What every test program shares: its seed, its count of compared inputs, its main(). */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/* The seed of random inputs: MXFP_TEST_SEED, or a fixed number. */
uint64_t suite_seed(void);

/* Adds to the number of inputs that were compared with an expectation. */
void suite_compared(uint64_t n);

/* Runs the suite in this process, prints seed and number of inputs, frees the suite; the value for main() to return. */
int suite_run(Suite *suite);

/* Runs a test as a suite of one case for each block format, or for each element format, named case_prefix and then the
   format; the test's _i is the format. As suite_run(). */
int suite_run_formats(const char *name, const char *case_prefix, bool blocks, const TTest *test);

#endif
