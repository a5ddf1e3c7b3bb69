/* SPDX-License-Identifier: MIT */
/*
 * What doc/numerics.md says of formats and rounding, written anew and with nothing of ref/: a value is significand * 2^exponent,
 * and values are compared exactly. The rows of formats are those of the page, the rest follows from them.
 */
#ifndef MXFP_PROVE_SPEC_H
#define MXFP_PROVE_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "mxfp/convert.h"

/* CBMC's: any value of a type, what to assume of it, what to show of it in a counterexample. */
uint8_t nondet_byte(void);
uint32_t nondet_word(void);
int nondet_int(void);
bool nondet_bool(void);

#define ASSUME(condition) __CPROVER_assume(condition)
#define INPUT(name) __CPROVER_input(#name, name)
#define PROVE(condition, text) __CPROVER_assert(condition, text)

/* At the end of each harness, and the only thing that must fail: what was assumed did not leave nothing to prove. */
#define REACHED() __CPROVER_assert(false, "reached")

/* A row of section 1. */
enum sign { SIGN_BIT, UNSIGNED, TWOS_COMPLEMENT };

struct spec {
	enum mxfp_format format;
	enum sign sign;
	unsigned bits, exponent_bits, significand_bits;
	int bias;
	uint32_t largest;    /* code of the largest value */
	uint32_t inf;        /* code of Inf, 0: none */
	uint32_t nan;        /* the NaN that encoding makes, without its sign; 0: none; of FNUZ the sign bit, which is no sign then */
	bool wide;           /* more than 8 bits: a NaN's payload is kept */
};

static const struct spec specs[] = {
	{MXFP_FORMAT_E5M2, SIGN_BIT, 8, 5, 2, 15, 0x7B, 0x7C, 0x7E, false},
	{MXFP_FORMAT_E4M3, SIGN_BIT, 8, 4, 3, 7, 0x7E, 0, 0x7F, false},
	{MXFP_FORMAT_E3M2, SIGN_BIT, 6, 3, 2, 3, 0x1F, 0, 0, false},
	{MXFP_FORMAT_E2M3, SIGN_BIT, 6, 2, 3, 1, 0x1F, 0, 0, false},
	{MXFP_FORMAT_E2M1, SIGN_BIT, 4, 2, 1, 1, 0x07, 0, 0, false},
	{MXFP_FORMAT_INT8, TWOS_COMPLEMENT, 8, 0, 6, 0, 0x7F, 0, 0, false},
	{MXFP_FORMAT_E8M0, UNSIGNED, 8, 8, 0, 127, 0xFE, 0, 0xFF, false},
	{MXFP_FORMAT_UE4M3, UNSIGNED, 7, 4, 3, 7, 0x7E, 0, 0x7F, false},
	{MXFP_FORMAT_E4M3IEEE, SIGN_BIT, 8, 4, 3, 7, 0x77, 0x78, 0x7C, false},
	{MXFP_FORMAT_E3M4, SIGN_BIT, 8, 3, 4, 3, 0x6F, 0x70, 0x78, false},
	{MXFP_FORMAT_E4M3FNUZ, SIGN_BIT, 8, 4, 3, 8, 0x7F, 0, 0x80, false},
	{MXFP_FORMAT_E5M2FNUZ, SIGN_BIT, 8, 5, 2, 16, 0x7F, 0, 0x80, false},
	{MXFP_FORMAT_BF16, SIGN_BIT, 16, 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, true},
	{MXFP_FORMAT_F16, SIGN_BIT, 16, 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00, true},
	{MXFP_FORMAT_TF32, SIGN_BIT, 19, 8, 10, 127, 0x3FBFF, 0x3FC00, 0x3FE00, true},
	{MXFP_FORMAT_F32, SIGN_BIT, 32, 8, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, true},
};

enum { N_SPECS = sizeof specs / sizeof specs[0] };

/* Whether the sign bit alone is NaN, and zero has no sign. */
static inline bool is_fnuz(const struct spec *f)
{
	return f->sign == SIGN_BIT && f->nan == UINT32_C(1) << (f->bits - 1);
}

static inline const struct spec *spec_of(enum mxfp_format format)
{
	for (int i = 0; i < N_SPECS; i++)
		if (specs[i].format == format)
			return &specs[i];
	return 0;
}

/* significand * 2^exponent, significand < 2^24 + 1. */
struct value {
	uint32_t significand;
	int exponent;
};

/* The value of a code without its sign, as if exponents had no upper end. */
static inline struct value value_of(const struct spec *f, uint32_t magnitude)
{
	uint32_t one = UINT32_C(1) << f->significand_bits, field = magnitude >> f->significand_bits;

	if (f->sign == TWOS_COMPLEMENT)
		return (struct value){magnitude, -(int)f->significand_bits};
	if (f->significand_bits == 0)
		return (struct value){1, (int)magnitude - f->bias};
	if (field == 0)
		return (struct value){magnitude, 1 - f->bias - (int)f->significand_bits};
	return (struct value){one + magnitude % one, (int)field - f->bias - (int)f->significand_bits};
}

/* The magnitude of a finite binary32. */
static inline struct value value_of_f32(uint32_t bits)
{
	uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;

	return field == 0 ? (struct value){fraction, -149} : (struct value){0x800000 + fraction, (int)field - 150};
}

/* Whether the number v is at least the value c of a code. */
static inline bool at_least(struct value v, struct value c)
{
	int finer = c.exponent - v.exponent;

	if (finer < 0) { /* v is larger, as its top bit is where a binary32 has it */
		__CPROVER_assert(v.significand >> 23 == 1, "specification: v is normalized");
		return true;
	}
	return finer > 24 ? c.significand == 0 : (uint64_t)c.significand << finer <= v.significand;
}

/* Whether the next code is even; in exponent formats ties go up. */
static inline bool ties_up(const struct spec *f, uint32_t magnitude)
{
	return magnitude % 2 == 1 || f->significand_bits == 0;
}

/* Whether a number in the form of a binary32 and a value are equal. */
static inline bool is_equal(struct value v, struct value c)
{
	int finer = c.exponent - v.exponent;

	return v.significand == 0 || c.significand == 0 ? v.significand == c.significand :
	       finer >= 0 && finer < 24 && (uint64_t)c.significand << finer == v.significand;
}

/*
 * Section 2: whether v, at least the value c and less than the next one, 2^c.exponent above it, rounds to that one. Codes have the
 * order of their values, so a code is even if its last bit is 0; in exponent formats ties go up. v = c + rest / 2^finer units of c.
 */
static inline bool rounds_up(enum mxfp_round mode, bool negative, bool to_next_if_tie, uint32_t random, struct value v, struct value c)
{
	int finer = c.exponent - v.exponent;
	uint32_t rest = finer > 24 ? v.significand : v.significand - (c.significand << finer);
	uint32_t half = finer < 1 ? 0 : finer > 25 ? UINT32_C(1) << 25 : UINT32_C(1) << (finer - 1);

	if (rest == 0)
		return false;
	switch (mode) {
	case MXFP_ROUND_RNE:
		return rest > half || (rest == half && to_next_if_tie);
	case MXFP_ROUND_RNA:
		return rest >= half;
	case MXFP_ROUND_RHZ:
		return rest > half;
	case MXFP_ROUND_RTZ:
		return false;
	case MXFP_ROUND_RTP:
		return !negative;
	case MXFP_ROUND_RTN:
		return negative;
	case MXFP_ROUND_SR: /* random < rest / 2^finer * 2^32 */
		return finer <= 32 ? random < (uint64_t)rest << (32 - finer) : random <= (finer < 64 ? (rest - 1) >> (finer - 32) : 0);
	}
	return false;
}

/* Whether v is at most half a unit from c, or, if `next`, from the value after it. */
static inline bool is_nearest(struct value v, struct value c, bool next)
{
	int finer = c.exponent - v.exponent;

	if (finer > 24)
		return !next; /* c is 0, and v less than half a unit */
	int64_t unit = INT64_C(1) << finer, at = (int64_t)(c.significand + next) * unit, distance = at - (int64_t)v.significand;

	return 2 * distance <= unit && -2 * distance <= unit;
}

#endif
