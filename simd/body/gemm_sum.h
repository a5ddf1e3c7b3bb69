/* SPDX-License-Identifier: MIT */
/* The sum of a block's products for elements whose exponents lie too far apart for one sum in binary64. */
#ifndef MXFP_BODY_GEMM_SUM_H
#define MXFP_BODY_GEMM_SUM_H

#include "body/gemm_blocks.h"

#define F64_ONE INT64_C(0x3FF0000000000000)
#define F64_INF INT64_C(0x7FF0000000000000)

/* Sorts elements into those of magnitude at least 1 and those below; Inf and NaN are in neither. */
ALWAYS_INLINE void split(vf64 x, vf64 *large, vf64 *small)
{
	vs64 magnitude = (vs64)x & INT64_MAX;
	vs64 below = magnitude < F64_ONE;

	*small = (vf64)((vs64)x & below);
	*large = (vf64)((vs64)x & ~below & (magnitude < F64_INF));
}

/*
 * A block's sum for one row and LANES / 2 columns, exact except for bits far below the 24 that count. Elements k of the
 * row and of the columns are a[k * a_step] and at w + k * w_step bytes. The three partial sums are exact: products of two
 * large elements need at most 49 bits, of a large and a small one 44, of two small 43.
 */
static inline vf64 exact_sum(const double *a, size_t a_step, const uint8_t *w, size_t w_step, size_t n)
{
	vf64 plain = {0}, high = {0}, cross = {0}, low = {0};

	for (size_t i = 0; i < n; i++) {
		vf64 x = widen_f32(w + i * w_step), y = splat_f64(a[i * a_step]);
		vf64 x_large, x_small, y_large, y_small;

		split(x, &x_large, &x_small);
		split(y, &y_large, &y_small);
		plain = fma_f64(x, y, plain);
		high = fma_f64(x_large, y_large, high);
		cross = fma_f64(x_small, y_large, fma_f64(x_large, y_small, cross));
		low = fma_f64(x_small, y_small, low);
	}
	/* `rest` is the exact error of `sum`; `low` is of its size, so their sum is exact too. */
	vf64 sum = high + cross, part = sum - high, rest = (high - (sum - part)) + (cross - part);
	vs64 finite = plain - plain == 0;
	return (vf64)((finite & (vs64)add_to_odd(sum, rest + low)) | (~finite & (vs64)plain));
}

#endif
