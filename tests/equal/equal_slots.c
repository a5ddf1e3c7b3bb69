/* SPDX-License-Identifier: MIT */
/* What the trials of all slots draw at random. */
#include "equal/equal_slots.h"

#include <stdio.h>

#include "format.h"

static const char *case_prefix;
static bool case_blocks;

static const char *case_name(int i)
{
	static char name[MXFP_N_FORMATS][64];
	const struct mxfp_format_info *info = mxfp_format_get_info((enum mxfp_format)i);

	snprintf(name[i], sizeof name[i], "%s%s", case_prefix, info->name);
	return (info->kind == MXFP_KIND_BLOCK) == case_blocks ? name[i] : NULL;
}

int equal_main_formats(struct equal *e, const char *prefix, bool blocks)
{
	case_prefix = prefix;
	case_blocks = blocks;
	return equal_main(e, case_name);
}

int equal_n_values(enum mxfp_option option)
{
	int n = 0;

	while (mxfp_option_name(option, n) != NULL)
		n++;
	return n;
}

struct mxfp_rounding equal_any_rounding(struct random *r)
{
	return (struct mxfp_rounding){
		.mode = (enum mxfp_round)random_below(r, (uint32_t)equal_n_values(MXFP_OPTION_ROUND)),
		.overflow = (enum mxfp_overflow)random_below(r, (uint32_t)equal_n_values(MXFP_OPTION_OVERFLOW)),
		.no_negative_zero = random_below(r, 4) == 0,
		.seed = random_u64(r),
		.stream = random_u64(r),
	};
}

uint64_t equal_any_index(struct random *r, uint64_t n)
{
	switch (random_below(r, 6)) {
	case 0:
		return random_below(r, 8);
	case 1:
		return (UINT64_C(1) << 34) - random_u64(r) % (n + 8); /* the lowest counter word goes round */
	case 2:
		return (UINT64_C(1) << 34) + random_below(r, 1000);
	case 3:
		return UINT64_MAX - n - random_below(r, 4);
	default:
		return random_u64(r) >> (1 + random_below(r, 60));
	}
}

struct mxfp_counts equal_any_counts(struct random *r)
{
	uint64_t start = random_below(r, 1000) + 1;

	return (struct mxfp_counts){0, start, 2 * start, 3 * start, 5 * start, 7 * start};
}
