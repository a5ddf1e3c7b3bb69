/* SPDX-License-Identifier: MIT */
/*
 * Section 3 of doc/numerics.md: each rule's inequality, for the largest magnitude of any block and all element formats. -DRULE=FLOOR
 * names the rule. A rule's s is the only integer with lower <= amax < upper, or lower < amax <= upper, with lower proportional to 2^s
 * and upper = 2 lower; of a clamped s one side remains.
 */
#include "minifloat.h"
#include "scale.h"
#include "spec.h"

#define JOINED(a, b) a##b
#define NUMBER(id) JOINED(MXFP_RULE_, id)

/* Section 1: the largest value in 64ths, and the exponent of it. */
static const struct {
	enum mxfp_format format;
	uint32_t largest64;
	int emax;
} elements[] = {
	{MXFP_FORMAT_E5M2, 57344 * 64, 15}, {MXFP_FORMAT_E4M3, 448 * 64, 8}, {MXFP_FORMAT_E3M2, 28 * 64, 4},
	{MXFP_FORMAT_E2M3, 480, 2},         {MXFP_FORMAT_E2M1, 6 * 64, 2},   {MXFP_FORMAT_INT8, 127, 0},
};

/* significand * 2^exponent, with bit 40 set once normalized: the limits are not those of a number of 24 bits. */
struct limit {
	uint64_t significand;
	int exponent;
};

static struct limit normalized(struct limit v)
{
	for (; v.significand >> 40 == 0; v.significand <<= 1)
		v.exponent--;
	return v;
}

/* -1, 0 or 1: a is below, equal to or above b, both normalized. */
static int compare(struct limit a, struct limit b)
{
	if (a.exponent != b.exponent)
		return a.exponent > b.exponent ? 1 : -1;
	return (a.significand > b.significand) - (a.significand < b.significand);
}

/*
 * The largest value / sqrt 2 rounded down to 25 bits or more: root^2 < (n 2^24)^2 / 2 < (root + 1)^2. A magnitude of 24 bits is above
 * the quotient, which is irrational, iff it is above this.
 */
static struct limit over_root_of_two(struct limit largest)
{
	uint64_t n = largest.significand, root = 0;

	for (; n % 2 == 0; n /= 2)
		largest.exponent++;
	const uint64_t half_of_square = n * n << 47;

	for (uint64_t bit = UINT64_C(1) << 31; bit != 0; bit /= 2)
		if ((root + bit) * (root + bit) < half_of_square)
			root += bit;
	return (struct limit){root, largest.exponent - 24};
}

/* Whether v * 2^-s overflows by rne. */
static bool overflows(const struct spec *f, struct value v, int s)
{
	const struct value largest = value_of(f, f->largest), next = value_of(f, f->largest + 1);

	v.exponent -= s;
	return at_least(v, largest) &&
	       (at_least(v, next) || rounds_up(MXFP_ROUND_RNE, false, ties_up(f, f->largest), 0, v, largest));
}

/* In the place of mxfp_f32_unpack(): any number that keeps the promise that f32_unpack() of format.c proves. */
static struct mxfp_exact unpacked;

struct mxfp_exact any_unpacked(uint32_t x)
{
	uint32_t fraction = nondet_word();
	int exponent = nondet_int();

	INPUT(fraction);
	INPUT(exponent);
	ASSUME(fraction < 0x800000 && exponent >= -172 && exponent <= 104);
	return unpacked = (struct mxfp_exact){x >> 31, exponent, 0x800000 | fraction};
}

void rule(void)
{
	const enum mxfp_rule rule = NUMBER(RULE);

	for (unsigned i = 0; i < sizeof elements / sizeof elements[0]; i++) {
		const enum mxfp_format format = elements[i].format;
		const struct spec *f = spec_of(format);
		const struct limit largest = {elements[i].largest64, -6};
		const int emax = elements[i].emax, s = mxfp_ref_scale(rule, mxfp_format_get_info(format), nondet_word());
		const unsigned bits = rule == MXFP_RULE_EVEN_M1 ? 1 : f->significand_bits;
		INPUT(format); /* in a counterexample the last of these is the one */
		struct limit a = {unpacked.significand << 17, unpacked.exponent - 17}, lower = {1, emax};
		bool reaches_lower = true;

		PROVE(s >= -127 && s <= 127, "the scale has a byte");
		switch (rule) {
		case MXFP_RULE_MSE: /* the first of two candidates */
		case MXFP_RULE_FLOOR:
		case MXFP_RULE_FIT:
			break;
		case MXFP_RULE_CEIL:
			lower.exponent--;
			reaches_lower = false;
			break;
		case MXFP_RULE_EVEN:
		case MXFP_RULE_EVEN_M1: /* half of 2 - 2^-(B + 1) */
			lower = (struct limit){(UINT32_C(2) << (bits + 1)) - 1, emax - 1 - (int)(bits + 1)};
			break;
		case MXFP_RULE_RCEIL:
			lower = (struct limit){largest.significand, largest.exponent - 1};
			reaches_lower = false;
			break;
		case MXFP_RULE_TRN3:
			lower.exponent--;
			break;
		case MXFP_RULE_RNE: /* nearest to amax / largest: from 3/4 of 2^s on */
			lower = (struct limit){3 * largest.significand, largest.exponent - 2};
			break;
		case MXFP_RULE_LOG_NEAREST:
			lower = over_root_of_two(largest);
			reaches_lower = false;
			break;
		}
		lower = normalized(lower);
		lower.exponent += s;
		const int with_lower = compare(a, lower);

		a.exponent--; /* the upper limit is twice the lower one */
		const int with_upper = compare(a, lower);
		bool above_lower = reaches_lower ? with_lower >= 0 : with_lower > 0;
		bool below_upper = reaches_lower ? with_upper < 0 : with_upper <= 0;

		if (rule == MXFP_RULE_FIT) { /* overflows at s - 1 and not at s */
			const struct value v = {(uint32_t)unpacked.significand, unpacked.exponent};

			above_lower = overflows(f, v, s - 1);
			below_upper = !overflows(f, v, s);
		}
		PROVE(below_upper || s == 127, "the scale is not smaller than the rule's");
		PROVE(above_lower || s == -127, "the scale is not larger than the rule's");
	}
	REACHED();
}
