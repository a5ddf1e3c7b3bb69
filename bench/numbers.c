/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "numbers.h"

#include <math.h>
#include <stdint.h>

static const double two_pi = 6.283185307179586;

/* SplitMix64 (Steele, Lea, Flood 2014): uniform in (0, 1]. */
static double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
	z = (z ^ z >> 27) * 0x94D049BB133111EB;
	z ^= z >> 31;
	return ((double)(z >> 11) + 1) / 0x1p53;
}

/* The Box-Muller transform. */
void bench_normals(float *numbers, size_t n)
{
	uint64_t state = 1;

	for (size_t i = 0; i < n; i += 2) {
		const double radius = sqrt(-2 * log(uniform(&state))), angle = two_pi * uniform(&state);
		numbers[i] = (float)(radius * cos(angle));
		numbers[i + 1] = (float)(radius * sin(angle));
	}
}

/* Bailey's polar method (1994), which for four degrees of freedom has r^2 = 4 (1 / sqrt(u) - 1). */
void bench_student_t4(float *numbers, size_t n)
{
	uint64_t state = 2;

	for (size_t i = 0; i < n; i += 2) {
		const double radius = 2 * sqrt(1 / sqrt(uniform(&state)) - 1), angle = two_pi * uniform(&state);
		numbers[i] = (float)(radius * cos(angle));
		/* The sine makes a number that depends on the other one, which is all the same to a kernel. */
		numbers[i + 1] = (float)(radius * sin(angle));
	}
}
