/* SPDX-License-Identifier: MIT */
/*
 * Squared errors, by which the scales of rule mse and of NVFP4's 4over6 are chosen: doc/numerics.md, section 3. None is
 * NaN, and so the bits of two have the order of the numbers.
 */
#ifndef MXFP_BODY_SQUARES_H
#define MXFP_BODY_SQUARES_H

#include "kernels.h"

/* The bits of the sum of squares of n differences, 16 or 32, in the order of mxfp_ref_squared_error(): half as many
   lanes, then halves of these. d is overwritten, and has room for n / 2 + LANES. */
ALWAYS_INLINE uint32_t sum_of_squares(float *d, int n)
{
	for (int i = 0; i < n / 2; i += LANES) {
		vf32 low = (vf32)load(d + i), high = (vf32)load(d + n / 2 + i);

		store(d + i, (vu32)fma_f32(high, high, low * low));
	}
	for (int width = n / 4; width >= LANES; width /= 2)
		for (int i = 0; i < width; i += LANES)
			store(d + i, (vu32)((vf32)load(d + i) + (vf32)load(d + width + i)));
	vu32 lanes = load(d);
	if (n / 2 < LANES) /* the others are 0, which changes no sum of squares */
		lanes &= (vu32)(lane_numbers() < (uint32_t)n / 2);
	return halving_sum((vf32)lanes);
}

#endif
