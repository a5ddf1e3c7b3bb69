/* SPDX-License-Identifier: MIT */
/* What every test program shares: its seed, its count of compared inputs, its main(). */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdint.h>

/* The seed of random inputs: MXFP_TEST_SEED, or a fixed number. */
uint64_t suite_seed(void);

/* Adds to the number of inputs that were compared with an expectation. */
void suite_compared(uint64_t n);

/* Runs the suite in this process, prints seed and number of inputs, frees the suite; the value for main() to return. */
int suite_run(Suite *suite);

#endif
