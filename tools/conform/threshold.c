/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/threshold.h"

#include "conform/number.h"

enum { ONE = 1 << 23 };

/* The least m above largest / sqrt 2. */
static uint32_t above_root(uint32_t largest)
{
	uint64_t below = ONE;

	for (uint64_t bit = ONE / 2; bit > 0; bit /= 2)
		below += 2 * (below + bit) * (below + bit) < (uint64_t)largest * largest ? bit : 0;
	return (uint32_t)below + 1;
}

bool threshold_of(struct threshold *t, const struct mxfp_format_info *element, enum mxfp_rule rule)
{
	const uint32_t largest = ONE | threshold_significand(code_decode(element, element->max_code));
	const uint32_t half_step = UINT32_C(1) << (22 - element->significand_bits);
	uint32_t m = ONE;

	*t = (struct threshold){.is_exact = true, .is_reached = true};
	switch (rule) {
	case MXFP_RULE_CEIL:
		t->is_reached = false;
		break;
	case MXFP_RULE_EVEN:
		m = 2 * ONE - half_step;
		break;
	case MXFP_RULE_EVEN_M1:
		m = 2 * ONE - ONE / 4;
		break;
	case MXFP_RULE_RCEIL:
		m = largest;
		t->is_reached = false;
		break;
	case MXFP_RULE_FIT: /* a tie goes to the even code */
		m = largest + half_step;
		t->is_reached = element->max_code % 2 == 1;
		break;
	case MXFP_RULE_RNE:
		m = largest / 4 * 3;
		break;
	case MXFP_RULE_LOG_NEAREST:
		m = above_root(largest);
		t->is_exact = false;
		break;
	default:
		return false;
	}
	t->significand = m - ONE;
	return true;
}

uint32_t threshold_significand(uint32_t amax)
{
	uint32_t significand = amax & (ONE - 1);

	if (amax >= ONE)
		return significand;
	while (significand < ONE)
		significand *= 2;
	return significand - ONE;
}
