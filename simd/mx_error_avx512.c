/* SPDX-License-Identifier: MIT */
/*
 * Rule mse for 16 blocks: the squared errors at floor and at floor + 1 in the order of additions that doc/numerics.md,
 * section 3, fixes. No code is made: with y in units of the floor scale and P the power of two below |y|, but at least
 * that of the smallest normal element, y + 1.5 * 2^(23-M) P has the element's quantum in its last place, and taking
 * the second term away again is exact. At floor + 1 an element differs only where the larger smallest normal number
 * takes over, and it cannot overflow.
 */
#include "mx_groups_avx512.h"
#include "scale.h"

/* Constants of the element, in units of the floor scale. */
struct candidates {
	__m512 smallest[2]; /* normal numbers */
	__m512 max;
	__m512 magic; /* 1.5 * 2^(23 - M) */
};

/* x * 2^exponent, and then bits of the significand. */
ALWAYS_INLINE __m512 constant(int exponent, uint32_t fraction)
{
	return _mm512_castsi512_ps(_mm512_set1_epi32((exponent + F32_BIAS) << F32_SIGNIFICAND_BITS | (int)fraction));
}

ALWAYS_INLINE struct candidates candidates(const struct mx_plan *plan)
{
	const struct mxfp_format_info *e = plan->element;
	uint32_t max = mxfp_ref_scale_threshold(MXFP_RULE_RCEIL, e) - 1; /* rceil raises s past the largest element */

	return (struct candidates){
		.smallest = {constant(plan->emin, 0), constant(plan->emin + 1, 0)},
		.max = constant(e->emax, max - F32_HIDDEN),
		.magic = constant(F32_SIGNIFICAND_BITS - (int)e->significand_bits, F32_QUIET),
	};
}

ALWAYS_INLINE __m512 rounded(__m512 y, __m512 p, __m512 magic)
{
	return _mm512_fnmadd_ps(p, magic, _mm512_fmadd_ps(p, magic, y));
}

__mmask16 mxfp_mx_mse_raises(const struct mx_plan *plan, const struct mx_group *g)
{
	const struct candidates c = candidates(plan);
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)F32_INF));
	alignas(64) float exponent[GROUP_BLOCKS];
	__m512i error[2][GROUP_BLOCKS];

	if (g->n_blocks < GROUP_BLOCKS)
		memset(error, 0, sizeof error);
	_mm512_store_ps(exponent, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(MXFP_SCALE_BIAS), g->scale)));
#pragma GCC unroll 2
	for (size_t block = 0; block < g->n_blocks; block++) {
		__m512 square[2];

#pragma GCC unroll 2
		for (size_t half = 0; half < 2; half++) {
			__m512 x = _mm512_loadu_ps(g->x + block * BLOCK + half * LANES);
			__m512 y = _mm512_scalef_ps(x, _mm512_set1_ps(exponent[block]));
			__m512 p = _mm512_and_ps(_mm512_range_ps(y, c.smallest[0], 0x3), power);
			/* The smaller magnitude with the sign of the first. */
			__m512 q = _mm512_range_ps(rounded(y, p, c.magic), c.max, 0x2);
			__m512 d[2] = {
				_mm512_sub_ps(y, q),
				_mm512_sub_ps(y, rounded(y, _mm512_max_ps(p, c.smallest[1]), c.magic)),
			};

#pragma GCC unroll 2
			for (int i = 0; i < 2; i++)
				square[i] = half == 0 ? _mm512_mul_ps(d[i], d[i]) : _mm512_fmadd_ps(d[i], d[i], square[i]);
		}
		error[0][block] = _mm512_castps_si512(square[0]);
		error[1][block] = _mm512_castps_si512(square[1]);
	}
	return _mm512_cmp_ps_mask(_mm512_castsi512_ps(reduce_each(error[1], MX_SUM)),
	                          _mm512_castsi512_ps(reduce_each(error[0], MX_SUM)), _CMP_LE_OQ);
}
