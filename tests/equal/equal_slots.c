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

bool equal_shapes(struct equal *e, struct equal_case *c, equal_make *make, int n_long)
{
	enum { COLS = 3 * 64 + 1, LONG_COLS = 3000 };

	for (size_t cols = 0; cols <= COLS; cols++)
		for (int place = EQUAL_AT_END; place <= 0; place++) {
			make(e, c, random_below(&e->random, 5), cols);
			for (int array = 0; array < EQUAL_MAX_ARRAYS; array++)
				c->array[array].place = place;
			if (!equal_run(e, c))
				return false;
		}
	for (int i = 0; i < n_long; i++) {
		make(e, c, 1 + random_below(&e->random, 3), random_below(&e->random, LONG_COLS));
		if (!equal_run(e, c))
			return false;
	}
	for (int place = 0; place < 64; place++)
		for (int array = 0; array < EQUAL_MAX_ARRAYS; array++) {
			make(e, c, 1 + random_below(&e->random, 3), random_below(&e->random, COLS));
			c->array[array].place = place;
			if (!equal_run(e, c))
				return false;
		}
	return true;
}

size_t equal_gap(struct random *r)
{
	return random_below(r, 2) == 0 ? 0 : random_below(r, 70);
}

size_t equal_span(size_t rows, size_t row, size_t stride)
{
	return rows == 0 ? 0 : (rows - 1) * stride + row;
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

uint32_t equal_beside_word(struct random *r, const struct mxfp_format_info *f, uint32_t word)
{
	enum { LEAST = -90 }; /* such that the number is normal */
	const int bits = (int)f->significand_bits, emin = f->kind == MXFP_KIND_FIXED ? 0 : 1 - f->bias;
	const int first = emin < LEAST ? LEAST : emin, binade = (int)random_below(r, (uint32_t)(f->emax - first + 1));
	/* Below the smallest normal number too, where n, the number divided by its quantum, has fewer bits. */
	const bool subnormal = binade == 0 && first == emin && random_below(r, 2) == 0;
	const uint32_t n = random_below(r, UINT32_C(1) << bits) + (subnormal ? 0 : UINT32_C(1) << bits);
	uint64_t v = (uint64_t)n << 32 | word;
	int exponent = first + binade - bits - 32;

	for (; v >= UINT64_C(1) << 24; v >>= 1)
		exponent++;
	v += random_below(r, 2);
	if (v == 0)
		return 0;
	for (; v >= UINT64_C(1) << 24; v >>= 1)
		exponent++;
	for (; v < UINT64_C(1) << 23; v <<= 1)
		exponent--;
	return random_below(r, 2) << 31 | (uint32_t)(exponent + 23 + 127) << 23 | ((uint32_t)v & 0x7FFFFF);
}

struct mxfp_counts equal_any_counts(struct random *r)
{
	uint64_t start = random_below(r, 1000) + 1;

	return (struct mxfp_counts){sizeof(struct mxfp_counts), start, 2 * start, 3 * start, 5 * start, 7 * start};
}
