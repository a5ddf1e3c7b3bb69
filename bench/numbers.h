/* SPDX-License-Identifier: MIT */
/* The numbers that kernels work on: the same on every machine and in every call. */
#ifndef BENCH_NUMBERS_H
#define BENCH_NUMBERS_H

#include <stddef.h>

/* Write n numbers, an even count: standard normals; Student's t distribution with four degrees of freedom. */
void bench_normals(float *numbers, size_t n);
void bench_student_t4(float *numbers, size_t n);

#endif
