/* SPDX-License-Identifier: MIT */
/*
 * Every closed-form rule is the exponent of amax minus the element's emax, plus one if the significand of amax reaches a
 * threshold; two rules are the same minus one. Significands are integers with 23 fraction bits: 1.0 is 2^23.
 */
#include "scale.h"

#include "minifloat.h"

/* The constants in scale.h must agree with the table of formats. */
#define MXFP_BLOCK(id, value, name, element, block_length, scale, tensor_scale) \
	_Static_assert((block_length) == ((tensor_scale) ? MXFP_NVFP4_BLOCK : MXFP_MX_BLOCK), "length of blocks of " name);
#define MXFP_ELEMENT(id, value, name, kind, bits, exponent_bits, significand_bits, bias, special, max_code) \
	_Static_assert(MXFP_FORMAT_##id != MXFP_FORMAT_UE4M3 || \
	               ((significand_bits) == MXFP_UE4M3_SIGNIFICAND_BITS && (bias) == MXFP_UE4M3_BIAS && \
	                (max_code) == MXFP_UE4M3_NAN - 1), "MXFP_UE4M3_"); \
	_Static_assert(MXFP_FORMAT_##id != MXFP_FORMAT_E8M0 || ((bias) == MXFP_SCALE_BIAS && \
	                                                        (max_code) == MXFP_SCALE_NAN - 1), "MXFP_SCALE_");
#include "format.def"

#define ONE (UINT32_C(1) << 23)
#define TWO (UINT32_C(1) << 24)

/* The significand of the largest value, in [ONE, TWO). */
static uint32_t max_significand(const struct mxfp_format_info *e)
{
	uint32_t hidden = UINT32_C(1) << e->significand_bits;
	uint32_t significand = e->kind == MXFP_KIND_FIXED ? e->max_code : hidden | (e->max_code & (hidden - 1));

	return significand << (23 - e->significand_bits);
}

/* The smallest significand that rounds to 2 with `bits` fraction bits, half up. */
static uint32_t rounding_to_two(unsigned bits)
{
	return TWO - (ONE >> (bits + 1));
}

/* The smallest significand that overflows under rne at exponent emax: the midpoint between max and the next value, or
   its successor if max is even, because the tie then rounds to max. */
static uint32_t overflowing_rne(const struct mxfp_format_info *e)
{
	return max_significand(e) + (ONE >> (e->significand_bits + 1)) + !(e->max_code & 1);
}

/* The smallest significand that is at least max / sqrt 2, which is no integer. 2^40 / sqrt 2 is rounded down, so the
   product may be short of it by 2^-16; no max has an integer that near below. */
static uint32_t over_root_of_two(const struct mxfp_format_info *e)
{
	return (uint32_t)(max_significand(e) * UINT64_C(777472127993) >> 40) + 1;
}

/* The smallest significand for which the rule raises s; TWO means never. For rules below floor, ONE is added. */
static uint32_t threshold(enum mxfp_rule rule, const struct mxfp_format_info *e)
{
	switch (rule) {
	case MXFP_RULE_MSE: /* its first candidate */
	case MXFP_RULE_FLOOR:
		break;
	case MXFP_RULE_CEIL:
		return ONE + 1;
	case MXFP_RULE_EVEN:
		return rounding_to_two(e->significand_bits);
	case MXFP_RULE_EVEN_M1:
		return rounding_to_two(1);
	case MXFP_RULE_RCEIL:
		return max_significand(e) + 1;
	case MXFP_RULE_FIT:
		return overflowing_rne(e);
	case MXFP_RULE_TRN3:
		return ONE;
	case MXFP_RULE_RNE: /* amax / max >= 1.5 * 2^(s - 1); max is above 4/3 * 2^emax in every format */
		return ONE + max_significand(e) / 4 * 3;
	case MXFP_RULE_LOG_NEAREST: /* amax / max >= sqrt 2 * 2^(s - 1) */
		return ONE + over_root_of_two(e);
	}
	return TWO;
}

uint32_t mxfp_ref_scale_carry(enum mxfp_rule rule, const struct mxfp_format_info *e)
{
	return TWO - threshold(rule, e);
}

int mxfp_ref_scale(enum mxfp_rule rule, const struct mxfp_format_info *e, uint32_t amax)
{
	struct mxfp_exact v = mxfp_f32_unpack(amax);
	/* The sum is at least 0, and ONE in it is floor's s. */
	uint32_t carried = (uint32_t)v.significand + mxfp_ref_scale_carry(rule, e);
	int s = v.exponent + 23 - e->emax + (int)(carried >> 23) - 1;

	return s < MXFP_SCALE_MIN ? MXFP_SCALE_MIN : s > MXFP_SCALE_MAX ? MXFP_SCALE_MAX : s;
}
