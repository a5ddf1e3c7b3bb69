/* SPDX-License-Identifier: MIT */
/*
 * Rule mse for 16 blocks: the squared errors at floor and at floor + 1 in the order of additions that doc/numerics.md,
 * section 3, fixes. No code is made. With y in units of the floor scale and P the power of two below |y|, but at least
 * that of the smallest normal element, y + 1.5 * 2^(23-M) P has the element's quantum as its last place, and taking the
 * second term away again is exact. At floor + 1 nothing overflows, and the quantum is the same or, below the smallest
 * normal element there, a larger one that is fixed: of the errors with either quantum the larger is the right one, as
 * one grid contains the other.
 */
#include "avx512/mx_groups.h"
#include "scale.h"

/* Constants of the element, in units of the floor scale. */
struct candidates {
	__m512 smallest; /* normal number */
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
		.smallest = constant(plan->emin, 0),
		.max = constant(e->emax, max - F32_HIDDEN),
		.magic = constant(F32_SIGNIFICAND_BITS - (int)e->significand_bits, F32_QUIET),
	};
}

/* y less y rounded to a multiple of 2^-fraction_bits, for what the elements need; the immediate must be a literal. */
ALWAYS_INLINE __m512 fixed_difference(__m512 y, int fraction_bits)
{
	switch (fraction_bits) {
	case 0:
		return _mm512_reduce_ps(y, 0x08); /* e2m1 */
	case 2:
		return _mm512_reduce_ps(y, 0x28); /* e2m3 */
	case 3:
		return _mm512_reduce_ps(y, 0x38); /* e3m2 */
	case 5:
		return _mm512_reduce_ps(y, 0x58); /* int8 */
	case 8:
		return _mm512_reduce_ps(y, 0x88); /* e4m3 */
	default:
		return _mm512_reduce_ps(y, 0xF8); /* e5m2: 15 */
	}
}

/* What |d| is made of at floor (0) and floor + 1 (1); the sign does not matter. `fraction_bits`: the fixed quantum at
   floor + 1 is 2^-fraction_bits. */
ALWAYS_INLINE void differences(const struct candidates *c, __m512 y, const int fraction_bits, __m512 d[2])
{
	const __m512 power = _mm512_castsi512_ps(_mm512_set1_epi32((int)F32_INF));
	__m512 p = _mm512_and_ps(_mm512_range_ps(y, c->smallest, 0x3), power);
	__m512 q = _mm512_fnmadd_ps(p, c->magic, _mm512_fmadd_ps(p, c->magic, y));

	/* vrangeps: the smaller magnitude with the sign of the first; the larger one. */
	d[0] = _mm512_sub_ps(y, _mm512_range_ps(q, c->max, 0x2));
	d[1] = _mm512_range_ps(_mm512_sub_ps(y, q), fixed_difference(y, fraction_bits), 0x3);
}

ALWAYS_INLINE __mmask16 raises(const struct mx_plan *plan, const struct mx_group *g, const int fraction_bits)
{
	const struct candidates c = candidates(plan);
	const uint8_t *ahead = g->ahead;
	const size_t number_bytes = plan->number_bytes;
	alignas(64) float exponent[GROUP_BLOCKS];
	__m512i error[2][GROUP_BLOCKS];

	if (g->n_blocks < GROUP_BLOCKS)
		memset(error, 0, sizeof error);
	_mm512_store_ps(exponent, _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(MXFP_SCALE_BIAS), g->scale)));
#pragma GCC unroll 2
	for (size_t block = 0; block < g->n_blocks; block++) {
		__m512 d[2][2];

		prefetch(ahead, number_bytes, block, 1);
#pragma GCC unroll 2
		for (size_t half = 0; half < 2; half++) {
			__m512 x = _mm512_loadu_ps(g->x + block * BLOCK + half * LANES);

			differences(&c, _mm512_scalef_ps(x, _mm512_set1_ps(exponent[block])), fraction_bits, d[half]);
		}
#pragma GCC unroll 2
		for (int i = 0; i < 2; i++)
			error[i][block] = _mm512_castps_si512(
				_mm512_fmadd_ps(d[1][i], d[1][i], _mm512_mul_ps(d[0][i], d[0][i])));
	}
	return _mm512_cmp_ps_mask(_mm512_castsi512_ps(reduce_each(error[1], MX_SUM)),
	                          _mm512_castsi512_ps(reduce_each(error[0], MX_SUM)), _CMP_LE_OQ);
}

__mmask16 mxfp_mx_mse_raises(const struct mx_plan *plan, const struct mx_group *g)
{
	switch ((int)plan->element->significand_bits - plan->emin - 1) {
	case 0:
		return raises(plan, g, 0);
	case 2:
		return raises(plan, g, 2);
	case 3:
		return raises(plan, g, 3);
	case 5:
		return raises(plan, g, 5);
	case 8:
		return raises(plan, g, 8);
	default:
		return raises(plan, g, 15);
	}
}
