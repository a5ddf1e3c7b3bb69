/* SPDX-License-Identifier: MIT */
/*
 * Squared errors, by which rule mse and NVFP4's recipe 4over6 choose scales: doc/numerics.md, section 3. None is NaN,
 * so their bits compare like the numbers.
 */
#ifndef MXFP_BODY_SQUARES_H
#define MXFP_BODY_SQUARES_H

#include "kernels.h"

/* The bits of the sum of squares of n differences (16 or 32), in the order of mxfp_ref_squared_error(): n / 2 lanes,
   then a halving tree. d is overwritten; it has room for n / 2 + LANES numbers. */
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
	if (n / 2 < LANES) /* a vector is wider: adding zeros changes no sum of squares */
		lanes &= (vu32)(lane_numbers() < (uint32_t)n / 2);
	return halving_sum((vf32)lanes);
}

#endif
