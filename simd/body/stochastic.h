/* SPDX-License-Identifier: MIT */
/*
 * Rounds magnitudes stochastically (doc/numerics.md, section 2), in the state of fp_enter_down(), by the addition of
 * nearest.h: rounded down, it has n, the magnitude divided by its quantum without the fraction f. That fraction times
 * 2^32 is exact, because it has the at most 24 bits of the magnitude that are below n. A random word r is below it if and
 * only if r rounded down to binary32 is: if f * 2^32 is at most r, it is one of the binary32 numbers that are at most r.
 */
#ifndef MXFP_BODY_STOCHASTIC_H
#define MXFP_BODY_STOCHASTIC_H

#include "body/nearest.h"

/* The number that the code after the largest would have if codes continued, as binary32. */
ALWAYS_INLINE uint32_t number_after_max(const struct nearest *e)
{
	return e->max + (F32_HIDDEN >> e->significand_bits);
}

/* Returns binary32 numbers with P's exponent and n, or n + 1, in their low bits. 2^(32 + M) / P must be a normal number. */
ALWAYS_INLINE vu32 round_stochastically(const struct nearest *e, vu32 magnitude, uint32_t normal_field, vu32 random)
{
	const uint32_t quanta = F32_BIAS + F32_SIGNIFICAND_BITS - e->significand_bits;
	const uint32_t words = 2 * F32_BIAS + 32 + e->significand_bits;
	const vu32 power = power_below(magnitude, normal_field), down = round_at(e, magnitude, power);
	const vf32 n = (vf32)down - (vf32)power;
	/* The magnitude less n quanta, exactly: no bit of it is below those of the magnitude. `n` has 2^(M-23) for a quantum. */
	const vf32 rest = fma_f32(n, (vf32)splat(F32_SIGN | quanta << F32_SIGNIFICAND_BITS), (vf32)magnitude);
	const vf32 threshold = rest * (vf32)(splat(words << F32_SIGNIFICAND_BITS) - power);

	return down - (vu32)(floor_f32(random) < threshold);
}

#endif
