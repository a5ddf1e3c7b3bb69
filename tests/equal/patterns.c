/* SPDX-License-Identifier: MIT */
#include "equal/patterns.h"

#include <math.h>
#include <string.h>

#include "minifloat.h"
#include "ref.h"

static double number(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return (double)x;
}

static uint32_t bits_of(double x)
{
	float f = (float)x;
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}

/* A code's value, or the middle between it and the next, times 2^top, up to one unit aside. Past the largest code the
   gaps stay as they are. */
static uint32_t boundary(struct random *r, const struct pattern_group *g)
{
	uint32_t code = random_below(r, g->format->max_code + 1);
	double low, high;

	if (random_below(r, 8) == 0)
		code = random_below(r, 3); /* where flushing and subnormals begin */
	else if (random_below(r, 8) == 0)
		code = g->format->max_code - random_below(r, 3);
	low = number(mxfp_minifloat_decode(g->format, code));
	if (code < g->format->max_code)
		high = number(mxfp_minifloat_decode(g->format, code + 1));
	else
		high = 2 * low - number(mxfp_minifloat_decode(g->format, code - 1));
	uint32_t x = bits_of(ldexp(random_below(r, 2) == 0 ? low : (low + high) / 2, g->top));
	if (x != 0 && x < MXFP_F32_MAX)
		x += random_below(r, 3) - 1;
	return x | ((uint32_t)random_u64(r) & MXFP_F32_SIGN);
}

/* A number with an exponent in [low, high], which is cut to what binary32 has; smaller ones become subnormal. */
static uint32_t between(struct random *r, int low, int high)
{
	double x = number(random_f32_between(r, 0, 0));
	int exponent = low + (int)random_below(r, (uint32_t)(high - low + 1));

	return bits_of(ldexp(x, exponent > 127 ? 127 : exponent));
}

static uint32_t random_sign(struct random *r)
{
	return (uint32_t)random_u64(r) & MXFP_F32_SIGN;
}

static uint32_t any_nan(struct random *r)
{
	uint32_t payload = (uint32_t)random_u64(r) & UINT32_C(0x7FFFFF);

	payload >>= random_below(r, 24);
	return random_sign(r) | MXFP_F32_INF | (payload != 0 ? payload : 1);
}

/* A number near a multiple of 1/32 in its significand. */
static uint32_t threshold(struct random *r, int top)
{
	uint32_t x = bits_of(ldexp(1 + random_below(r, 32) / 32.0, top));

	return (x != 0 ? x + random_below(r, 3) - 1 : x) | random_sign(r);
}

/* Lane i of a group of a pattern that has no single lane. */
static uint32_t lane(struct random *r, const struct pattern_group *g, size_t i)
{
	switch (g->pattern) {
	case PATTERN_ZERO:
		return random_sign(r);
	case PATTERN_MAX:
		return random_sign(r) | (MXFP_F32_MAX - random_below(r, 2));
	case PATTERN_ALTERNATING:
		return bits_of(ldexp(i % 2 == 0 ? 1.40625 : -1.40625, g->top));
	case PATTERN_SUBNORMAL:
		return random_sign(r) | ((uint32_t)random_u64(r) & UINT32_C(0x7FFFFF)) >> random_below(r, 23);
	case PATTERN_BOUNDARY:
		return boundary(r, g);
	case PATTERN_OUTLIER:
		return between(r, g->top - 24, g->top - 3);
	case PATTERN_SHORT:
		return between(r, g->top - 4, g->top) & UINT32_C(0xFFF00000);
	case PATTERN_BITS:
		return random_f32(r);
	default:
		return between(r, g->top - 12, g->top);
	}
}

void pattern_fill(struct random *r, const struct pattern_group *g, uint32_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = lane(r, g, i);
	if (g->at >= n)
		return;
	if (g->pattern == PATTERN_OUTLIER)
		x[g->at] = between(r, g->top, g->top);
	else if (g->pattern == PATTERN_NAN)
		x[g->at] = any_nan(r);
	else if (g->pattern == PATTERN_INF)
		x[g->at] = random_sign(r) | MXFP_F32_INF;
	else if (g->pattern == PATTERN_THRESHOLD)
		x[g->at] = threshold(r, g->top);
	else if (g->pattern == PATTERN_ZERO && random_below(r, 2) == 0)
		x[g->at] = 1; /* the smallest that is none */
}

struct pattern_group pattern_any(struct random *r, const struct mxfp_format_info *format, size_t lanes)
{
	struct pattern_group g = {
		.pattern = (enum pattern)random_below(r, N_PATTERNS),
		.format = format,
		.at = random_below(r, (uint32_t)lanes),
	};

	switch (random_below(r, 8)) {
	case 0:
		g.top = 127 - (int)random_below(r, 8);
		break;
	case 1:
		g.top = -140 + (int)random_below(r, 24);
		break;
	case 2:
		g.top = -116 + (int)random_below(r, 236);
		break;
	case 3:
		g.top = -4 + (int)random_below(r, 9);
		break;
	default:
		break;
	}
	return g;
}

void pattern_store(struct random *r, enum pattern pattern, const struct mxfp_format_info *to, void *array,
                   const uint32_t *x, size_t n)
{
	const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE, .overflow = MXFP_OVERFLOW_OVF};
	struct mxfp_counts counts;

	for (size_t i = 0; i < n; i++) {
		uint8_t *at = (uint8_t *)array + i * to->storage_bytes;
		uint64_t bits = random_u64(r);

		if (to->format == MXFP_FORMAT_F32)
			memcpy(at, &x[i], 4);
		else if (pattern == PATTERN_BITS)
			memcpy(at, &bits, to->storage_bytes);
		else
			mxfp_ref_store(to, array, i, mxfp_minifloat_encode(to, x[i], 0, &rne, 0, &counts));
	}
}
