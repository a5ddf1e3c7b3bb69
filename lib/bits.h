/* SPDX-License-Identifier: MIT */
/* Converts between a float and its bit pattern. The library computes scalars on patterns, so that neither the caller's
   rounding mode nor flush-to-zero can change a result. */
#ifndef MXFP_BITS_H
#define MXFP_BITS_H

#include <stdint.h>
#include <string.h>

#include "minifloat.h"

static inline uint32_t mxfp_f32_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* The bits of a float in the caller's memory, which need not be aligned. */
static inline uint32_t mxfp_load_f32(const void *at)
{
	uint32_t bits;

	memcpy(&bits, at, sizeof bits);
	return bits;
}

static inline float mxfp_f32_from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

#endif
