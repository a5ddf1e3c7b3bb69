/* SPDX-License-Identifier: MIT */
/*
 * Every closed-form rule is "the exponent of amax, less the element's emax, plus one if amax's significand lies beyond
 * a threshold". Significands are integers with 23 bits after the point: 1.0 is 2^23.
 */
#include "scale.h"

#include "minifloat.h"

#define ONE (UINT32_C(1) << 23)
#define TWO (UINT32_C(1) << 24)

/* The largest value's significand, in [ONE, TWO). */
static uint32_t max_significand(const struct mxfp_format_info *e)
{
	uint32_t hidden = UINT32_C(1) << e->significand_bits;
	uint32_t significand = e->kind == MXFP_KIND_FIXED ? e->max_code : hidden | (e->max_code & (hidden - 1));

	return significand << (23 - e->significand_bits);
}

/* Whether m, rounded half up to `bits` bits after the point, reaches 2. */
static bool rounds_to_two(uint32_t m, unsigned bits)
{
	return m >= TWO - (ONE >> (bits + 1));
}

/* Whether m * 2^emax overflows under rne: it lies past the middle between max and the next value, or on it and max is
   odd. */
static bool overflows_rne(uint32_t m, const struct mxfp_format_info *e)
{
	uint32_t middle = max_significand(e) + (ONE >> (e->significand_bits + 1));

	return m > middle || (m == middle && (e->max_code & 1));
}

int mxfp_ref_scale(enum mxfp_rule rule, const struct mxfp_format_info *e, uint32_t amax)
{
	struct mxfp_exact v = mxfp_f32_unpack(amax);
	uint32_t m = (uint32_t)v.significand;
	int s = v.exponent + 23 - e->emax;

	switch (rule) {
	case MXFP_RULE_MSE: /* its first candidate */
	case MXFP_RULE_FLOOR:
		break;
	case MXFP_RULE_CEIL:
		s += m > ONE;
		break;
	case MXFP_RULE_EVEN:
		s += rounds_to_two(m, e->significand_bits);
		break;
	case MXFP_RULE_EVEN_M1:
		s += rounds_to_two(m, 1);
		break;
	case MXFP_RULE_RCEIL:
		s += m > max_significand(e);
		break;
	case MXFP_RULE_FIT:
		s += overflows_rne(m, e);
		break;
	case MXFP_RULE_TRN3:
		s += 1;
		break;
	}
	return s < MXFP_SCALE_MIN ? MXFP_SCALE_MIN : s > MXFP_SCALE_MAX ? MXFP_SCALE_MAX : s;
}
