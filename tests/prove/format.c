/* SPDX-License-Identifier: MIT */
/* Sections 1 and 2 of doc/numerics.md: decoding and encoding one number. -DFORMAT=E4M3 names the format. */
#include "minifloat.h"
#include "spec.h"

#define JOINED(a, b) a##b
#define NUMBER(id) JOINED(MXFP_FORMAT_, id)

/* What a code's magnitude bits are; the sign is returned apart. */
static uint32_t magnitude_of(const struct spec *f, uint32_t code, bool *negative)
{
	uint64_t low = code % (UINT64_C(1) << f->bits), half = UINT64_C(1) << (f->bits - 1);

	*negative = f->sign != UNSIGNED && low >= half && !(is_fnuz(f) && low == half);
	if (!*negative)
		return (uint32_t)low;
	return (uint32_t)(f->sign == TWOS_COMPLEMENT ? 2 * half - low : low - half);
}

/* Whether what is past the largest value becomes Inf or NaN, and the code of it. */
static bool becomes_inf(const struct spec *f, const struct mxfp_rounding *r)
{
	return f->nan != 0 && (f->wide || r->overflow == MXFP_OVERFLOW_OVF);
}

static uint32_t past_largest(const struct spec *f)
{
	return f->inf != 0 ? f->inf : f->nan;
}

/* Whether -0 has a code, and is what is wanted. */
static bool keeps_minus_zero(const struct spec *f, bool no_negative_zero)
{
	return f->sign == SIGN_BIT && !is_fnuz(f) && !no_negative_zero;
}

static uint32_t code_of(const struct spec *f, uint32_t magnitude, bool negative)
{
	if (!negative)
		return magnitude;
	return f->sign == TWOS_COMPLEMENT ? (UINT32_C(1) << f->bits) - magnitude : magnitude | UINT32_C(1) << (f->bits - 1);
}

static bool is_nan(const struct spec *f, uint32_t magnitude)
{
	return f->nan != 0 && (f->inf != 0 ? magnitude > f->inf : magnitude == f->nan);
}

static bool is_inf(const struct spec *f, uint32_t magnitude)
{
	return f->inf != 0 && magnitude == f->inf;
}

/* What mxfp_f32_unpack() promises, and, in the place of it elsewhere, any number that keeps the promise. */
static struct mxfp_exact unpacked;

void f32_unpack(void)
{
	uint32_t x = nondet_word(), absolute = x & 0x7FFFFFFF;

	INPUT(x);
	ASSUME(absolute > 0 && absolute < 0x7F800000);
	struct mxfp_exact v = mxfp_f32_unpack(x);
	struct value is = value_of_f32(absolute);

	PROVE(v.negative == x >> 31, "the sign is that of the number");
	PROVE(v.significand >> 23 == 1, "bit 23 is the top bit");
	PROVE(v.exponent >= -172 && v.exponent <= 104, "the exponent is that of a binary32");
	PROVE(is_equal((struct value){(uint32_t)v.significand, v.exponent}, is), "the value is that of the number");
	REACHED();
}

static struct mxfp_exact any_number(bool negative, int exponent_min, int exponent_max)
{
	uint32_t fraction = nondet_word();
	int exponent = nondet_int();

	INPUT(fraction);
	INPUT(exponent);
	ASSUME(fraction < 0x800000 && exponent >= exponent_min && exponent <= exponent_max);
	return (struct mxfp_exact){negative, exponent, 0x800000 | fraction};
}

struct mxfp_exact any_unpacked(uint32_t x)
{
	return unpacked = any_number(x >> 31, -172, 104);
}

/* Every code, spare bits included. */
void decode(void)
{
	const struct spec *f = spec_of(NUMBER(FORMAT));
	uint32_t code = nondet_word();

	INPUT(code);
	bool negative;
	uint32_t magnitude = magnitude_of(f, code, &negative);
	uint32_t x = mxfp_minifloat_decode(mxfp_format_get_info(NUMBER(FORMAT)), code);

	PROVE(x >> 31 == negative, "decoding keeps the sign");
	x &= 0x7FFFFFFF;
	if (is_nan(f, magnitude)) {
		uint32_t payload = f->wide ? magnitude << (23 - f->significand_bits) & 0x7FFFFF : 0;

		PROVE(x == (0x7FC00000 | payload), "NaN decodes to a quiet NaN with its payload");
	} else if (is_inf(f, magnitude)) {
		PROVE(x == 0x7F800000, "Inf decodes to Inf");
	} else {
		PROVE(x < 0x7F800000, "a finite code decodes to a finite number");
		PROVE(is_equal(value_of_f32(x), value_of(f, magnitude)), "decoding is exact");
	}
	REACHED();
}

/* Every code, in every mode. */
void round_trip(void)
{
	const struct spec *f = spec_of(NUMBER(FORMAT));
	const struct mxfp_format_info *format = mxfp_format_get_info(NUMBER(FORMAT));
	struct mxfp_rounding r = {.mode = (enum mxfp_round)nondet_int(), .overflow = MXFP_OVERFLOW_OVF};
	struct mxfp_counts counts = {0};
	uint32_t code = nondet_word(), random = nondet_word();
	int mode = r.mode;

	INPUT(code);
	INPUT(mode);
	INPUT(random);
	ASSUME(mode >= MXFP_ROUND_RNE && mode <= MXFP_ROUND_SR);
	ASSUME(f->bits == 32 || code < UINT32_C(1) << f->bits);
	ASSUME(f->sign != TWOS_COMPLEMENT || code != 0x80);
	bool negative;
	uint32_t magnitude = magnitude_of(f, code, &negative);
	uint32_t back = mxfp_minifloat_encode(format, mxfp_minifloat_decode(format, code), 0, &r, random, &counts);

	if (is_nan(f, magnitude))
		PROVE(back == code_of(f, f->wide ? magnitude | f->nan : f->nan, negative), "a NaN comes back as the canonical one");
	else
		PROVE(back == code, "encoding a decoded code is the identity");
	PROVE(counts.saturated + counts.overflowed + counts.flushed == 0, "nothing is lost, so nothing is counted");
	REACHED();
}

/* Every number that a binary32 * 2^-shift may be, with every option. */
void rounding(void)
{
	const struct spec *f = spec_of(NUMBER(FORMAT));
	const struct mxfp_format_info *format = mxfp_format_get_info(NUMBER(FORMAT));
	const bool negative = nondet_bool(), overflows = nondet_bool(), no_negative_zero = nondet_bool();
	const uint32_t random = nondet_word();
	const int mode = nondet_int();

	INPUT(negative);
	INPUT(overflows);
	INPUT(no_negative_zero);
	INPUT(random);
	INPUT(mode);
	ASSUME(mode >= MXFP_ROUND_RNE && mode <= MXFP_ROUND_SR);
	const struct mxfp_exact x = any_number(negative, -172 - 127, 104 + 127);
	struct mxfp_rounding r = {.mode = (enum mxfp_round)mode, .no_negative_zero = no_negative_zero,
	                          .overflow = overflows ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT};
	struct mxfp_counts counts = {0};
	uint32_t code = mxfp_minifloat_round(format, x, &r, random, &counts);
	bool code_negative;
	uint32_t magnitude = magnitude_of(f, code, &code_negative);
	struct value v = {(uint32_t)x.significand, x.exponent}, largest = value_of(f, f->largest);
	bool is_past = at_least(v, largest) && (at_least(v, value_of(f, f->largest + 1)) ||
	                                        rounds_up(r.mode, negative, ties_up(f, f->largest), random, v, largest));
	bool never_away = mode == MXFP_ROUND_RTZ || mode == (negative ? MXFP_ROUND_RTP : MXFP_ROUND_RTN);
	bool overflowed = is_past && becomes_inf(f, &r) && !never_away;

	PROVE(f->bits == 32 || code < UINT32_C(1) << f->bits, "a code has no spare bits");
	if (f->sign == UNSIGNED && negative) {
		PROVE(code == f->nan, "a negative number has no code");
		PROVE(counts.overflowed == 1 && counts.saturated + counts.flushed == 0, "and is counted as overflowed");
		return;
	}
	PROVE(code_negative == (negative && !(is_fnuz(f) && magnitude == f->nan) && (magnitude != 0 || keeps_minus_zero(f, no_negative_zero))),
	      "the sign stays");
	if (is_past) {
		PROVE(magnitude == (overflowed ? past_largest(f) : f->largest), "overflow gives what the policy says");
	} else if (f->format == MXFP_FORMAT_E8M0 && !at_least(v, value_of(f, 0))) {
		PROVE(code == 0, "what is below 2^-127 becomes 2^-127");
	} else {
		uint32_t lower = at_least(v, value_of(f, magnitude)) ? magnitude : magnitude - 1;

		PROVE(magnitude <= f->largest, "what rounds to a finite value becomes a finite code");
		PROVE(at_least(v, value_of(f, lower)) && !at_least(v, value_of(f, lower + 1)), "the code is one of the two neighbours");
		PROVE((magnitude != lower) == rounds_up(r.mode, negative, ties_up(f, lower), random, v, value_of(f, lower)),
		      "of the two it is the one that the mode takes");
		PROVE(mode > MXFP_ROUND_RHZ || is_nearest(v, value_of(f, lower), magnitude != lower), "it is within half a unit");
	}
	PROVE(counts.overflowed == overflowed, "overflow is counted");
	PROVE(counts.saturated == (is_past && !overflowed), "saturation is counted");
	PROVE(counts.flushed == (magnitude == 0 && f->format != MXFP_FORMAT_E8M0), "flushing is counted");
	PROVE(counts.nan + counts.inf == 0, "nothing else is counted");
	REACHED();
}

/* In the place of mxfp_minifloat_round(), what rounding() has proved: here only what it is given matters. */
static struct {
	const struct mxfp_format_info *format;
	struct mxfp_exact x;
	const struct mxfp_rounding *rounding;
	uint32_t random, code;
	struct mxfp_counts *counts;
	int calls;
} rounded;

uint32_t any_rounded(const struct mxfp_format_info *format, struct mxfp_exact x, const struct mxfp_rounding *rounding, uint32_t random,
                     struct mxfp_counts *counts)
{
	rounded.format = format;
	rounded.x = x;
	rounded.rounding = rounding;
	rounded.random = random;
	rounded.counts = counts;
	rounded.calls++;
	return rounded.code = nondet_word();
}

/* Every binary32 and 2^-shift, with every option. */
void encode(void)
{
	const struct spec *f = spec_of(NUMBER(FORMAT));
	const struct mxfp_format_info *format = mxfp_format_get_info(NUMBER(FORMAT));
	uint32_t x = nondet_word(), random = nondet_word();
	int shift = nondet_int(), mode = nondet_int();
	bool overflows = nondet_bool(), no_negative_zero = nondet_bool();

	INPUT(x);
	INPUT(shift);
	INPUT(mode);
	INPUT(overflows);
	INPUT(no_negative_zero);
	ASSUME(shift >= -127 && shift <= 127);
	ASSUME(mode >= MXFP_ROUND_RNE && mode <= MXFP_ROUND_SR);
	struct mxfp_rounding r = {.mode = (enum mxfp_round)mode, .no_negative_zero = no_negative_zero,
	                          .overflow = overflows ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT};
	struct mxfp_counts counts = {0};
	uint32_t code = mxfp_minifloat_encode(format, x, shift, &r, random, &counts);
	bool negative = x >> 31, code_negative;
	uint32_t absolute = x & 0x7FFFFFFF, magnitude = magnitude_of(f, code, &code_negative);

	PROVE(rounded.calls == (absolute > 0 && absolute < 0x7F800000), "finite numbers but 0 are rounded, once");
	PROVE(counts.nan == (absolute > 0x7F800000), "NaN is counted");
	PROVE(counts.inf == (absolute == 0x7F800000), "Inf is counted");
	PROVE(counts.overflowed + counts.flushed == 0, "nothing else is counted but by rounding");
	if (absolute > 0x7F800000) {
		uint32_t payload = f->wide ? (absolute & 0x7FFFFF) >> (23 - f->significand_bits) : 0;

		PROVE(code == (f->nan == 0 ? f->largest : f->sign == UNSIGNED ? f->nan : code_of(f, f->nan | payload, negative)),
		      "NaN becomes the canonical one, or the largest value");
	} else if (absolute == 0x7F800000) {
		bool clamped = !becomes_inf(f, &r) && !(f->sign == UNSIGNED && negative);

		if (f->sign == UNSIGNED && negative)
			PROVE(code == f->nan, "-Inf has no code");
		else
			PROVE(code == code_of(f, clamped ? f->largest : past_largest(f), negative), "Inf becomes what the policy says");
		PROVE(counts.saturated == clamped, "and is counted if it became the largest value");
	} else if (absolute == 0) {
		PROVE(magnitude == 0 && code_negative == (negative && keeps_minus_zero(f, no_negative_zero)), "a zero stays");
		PROVE(counts.saturated == 0, "a zero is not counted");
	} else {
		PROVE(rounded.format == format && rounded.rounding == &r && rounded.random == random && rounded.counts == &counts &&
		      code == rounded.code, "the options are those of rounding, and its code is the result");
		PROVE(rounded.x.negative == negative && rounded.x.exponent == unpacked.exponent - shift &&
		      rounded.x.significand == unpacked.significand, "what is rounded is x * 2^-shift");
		PROVE(counts.saturated == 0, "rounding counts");
	}
	REACHED();
}

/* Two magnitudes, one sign, mode and random word. */
void monotone(void)
{
	const struct spec *f = spec_of(NUMBER(FORMAT));
	const struct mxfp_format_info *format = mxfp_format_get_info(NUMBER(FORMAT));
	uint32_t random = nondet_word();
	int mode = nondet_int();
	bool overflows = nondet_bool(), negative = nondet_bool(), code_negative;
	struct mxfp_counts counts = {0};

	INPUT(mode);
	INPUT(overflows);
	INPUT(negative);
	INPUT(random);
	ASSUME(mode >= MXFP_ROUND_RNE && mode <= MXFP_ROUND_SR);
	struct mxfp_rounding r = {.mode = (enum mxfp_round)mode, .overflow = overflows ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT};
	struct mxfp_exact a = any_number(negative, -172 - 127, 104 + 127), b = any_number(negative, -172 - 127, 104 + 127);

	ASSUME(a.exponent < b.exponent || (a.exponent == b.exponent && a.significand <= b.significand));
	uint32_t less = magnitude_of(f, mxfp_minifloat_round(format, a, &r, random, &counts), &code_negative);
	uint32_t more = magnitude_of(f, mxfp_minifloat_round(format, b, &r, random, &counts), &code_negative);

	PROVE(less <= more, "a larger magnitude has no smaller code");
	REACHED();
}
