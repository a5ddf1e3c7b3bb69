/* SPDX-License-Identifier: MIT */
/* Random numbers, and the binary32 inputs on which conversions and arithmetic are tried. */
#ifndef TESTS_INPUTS_H
#define TESTS_INPUTS_H

#include <stddef.h>
#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014): any state is a good one. */
struct random {
	uint64_t state;
};

uint64_t random_u64(struct random *r);

/* 0 .. n - 1; n is small, so the bias is far below what a test can see. */
uint32_t random_below(struct random *r, uint32_t n);

/* Bits of a binary32 of any class: uniform patterns mixed with round significands, subnormals and special values. */
uint32_t random_f32(struct random *r);

/* A finite binary32 with exponent (of the value, unbiased) in [low, high], which lie in [-126, 127]. */
uint32_t random_f32_between(struct random *r, int low, int high);

/* Zeros, limits of normals and subnormals, powers of two, Inf, quiet and signalling NaNs with payloads; both signs. */
extern const uint32_t inputs_edge[];
extern const size_t inputs_n_edge;

#endif
