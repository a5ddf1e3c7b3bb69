/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "conform/number.h"

#include "base/byte_order.h"
#include "mxfp/philox.h"

uint32_t code_load(const struct mxfp_format_info *f, const uint8_t *bytes)
{
	uint32_t code = 0;

	for (unsigned i = 0; i < f->storage_bytes; i++)
		code |= (uint32_t)bytes[i] << 8 * i;
	return code >> (8 * f->storage_bytes > f->bits && f->storage_bytes == 4 ? 8 * f->storage_bytes - f->bits : 0);
}

void code_store(const struct mxfp_format_info *f, uint8_t *bytes, uint32_t code)
{
	code <<= 8 * f->storage_bytes > f->bits && f->storage_bytes == 4 ? 8 * f->storage_bytes - f->bits : 0;
	for (unsigned i = 0; i < f->storage_bytes; i++)
		bytes[i] = (uint8_t)(code >> 8 * i);
}

uint32_t code_sign(const struct mxfp_format_info *f)
{
	return f->kind == MXFP_KIND_FLOAT || f->kind == MXFP_KIND_FIXED ? UINT32_C(1) << (f->bits - 1) : 0;
}

uint32_t code_mask(const struct mxfp_format_info *f)
{
	const unsigned bits = f->kind == MXFP_KIND_EXPONENT ? f->bits : f->bits - 1;

	return (UINT32_C(1) << bits) - 1;
}

uint32_t code_negated(const struct mxfp_format_info *f, uint32_t code)
{
	if (f->kind == MXFP_KIND_FIXED)
		return (0 - code) & 0xFF;
	return is_fnuz(f) && code == 0 ? 0 : code ^ code_sign(f);
}

uint32_t code_decode(const struct mxfp_format_info *f, uint32_t code)
{
	static uint32_t values[MXFP_FORMAT_E5M2FNUZ + 1][256]; /* of the last format */
	static bool known[MXFP_FORMAT_E5M2FNUZ + 1];
	uint8_t bytes[4];
	uint32_t value;

	if (f->bits <= 8 && !known[f->format]) {
		uint8_t codes[256];

		for (int i = 0; i < 256; i++)
			codes[i] = (uint8_t)i;
		must_succeed(mxfp_convert_array(values[f->format], MXFP_FORMAT_F32, codes, f->format, 256, NULL, REFERENCE));
		known[f->format] = true;
	}
	if (f->bits <= 8)
		return values[f->format][code & 0xFF];
	code_store(f, bytes, code);
	little_endian(bytes, 1, f->storage_bytes);
	must_succeed(mxfp_convert_array(&value, MXFP_FORMAT_F32, bytes, f->format, 1, NULL, REFERENCE));
	return value;
}

static uint32_t encode(const struct mxfp_format_info *f, uint32_t x, const struct mxfp_convert_options *options)
{
	uint8_t bytes[4];

	must_succeed(mxfp_convert_array(bytes, f->format, &x, MXFP_FORMAT_F32, 1, options, REFERENCE));
	little_endian(bytes, 1, f->storage_bytes);
	return code_load(f, bytes);
}

uint32_t number_encode(const struct mxfp_format_info *f, uint32_t x, enum mxfp_round round, enum mxfp_overflow overflow)
{
	/* Ways ask for the same codes again and again. */
	static struct { uint32_t x, key, code; } known[1 << 16];
	const struct mxfp_convert_options options = {.size = sizeof options, .round = round, .overflow = overflow};
	const uint32_t key = 1 + (((uint32_t)f->format << 4 | (uint32_t)round) << 4 | (uint32_t)overflow);
	const uint32_t at = ((x ^ key << 8) * UINT32_C(0x9E3779B1)) >> 16;

	if (known[at].x != x || known[at].key != key) {
		known[at].x = x;
		known[at].key = key;
		known[at].code = encode(f, x, &options);
	}
	return known[at].code;
}

static uint32_t through(enum mxfp_format format, uint32_t x)
{
	const struct mxfp_format_info *f = mxfp_format_get_info(format);

	return code_decode(f, number_encode(f, x, MXFP_ROUND_RNE, MXFP_OVERFLOW_OVF));
}

/* A power of two times a number, rounded once more if the result is subnormal. */
static uint32_t scaled(uint32_t x, int exponent)
{
	return f32_is_nan(x) ? x : f32_bits(ldexpf(f32_value(x), exponent));
}

/* A finite number cut by `integer` to so many bits below the last of its code; `low`: only where that is subnormal. */
static uint32_t cut_below(const struct mxfp_format_info *f, uint32_t x, int bits, bool low, double (*integer)(double))
{
	const double v = (double)f32_value(x);
	const int least = 1 - f->bias, exponent = v == 0 ? least : ilogb(v);

	if ((x & F32_INF) == F32_INF || (low && exponent >= least))
		return x;
	const int unit = (exponent > least ? exponent : least) - (int)f->significand_bits - bits;
	return f32_bits((float)ldexp(integer(ldexp(v, -unit)), unit)) | (x & F32_SIGN);
}

/* What quirks do before a number is rounded. */
static uint32_t before(const struct mxfp_format_info *f, uint32_t x, const struct way *way)
{
	const double v = fabs((double)f32_value(x));
	const bool floating = f->kind == MXFP_KIND_FLOAT || f->kind == MXFP_KIND_UFLOAT;

	for (int bits = 1; bits <= 3 && floating; bits++) {
		if (has_quirk(way, QUIRK_CUT_1 + bits - 1))
			x = cut_below(f, x, bits, false, trunc);
		if (has_quirk(way, QUIRK_CUT_1_LOW + bits - 1))
			x = cut_below(f, x, bits, true, trunc);
	}
	if (floating && has_quirk(way, QUIRK_CUT_9))
		x = cut_below(f, x, 9, false, trunc);
	if (floating && has_quirk(way, QUIRK_SHIFT_LOST))
		x = cut_below(f, x, 23 - (int)f->significand_bits, true, trunc);
	if (floating && v < ldexp(1, 1 - f->bias) && v >= 0x1p-126) {
		const int exponent = ilogb(v), unit = exponent - (int)f->significand_bits;

		if (has_quirk(way, QUIRK_ROUND_LOW))
			x = f32_bits((float)ldexp(rint(ldexp(v, -unit)), unit)) | (x & F32_SIGN);
		if (has_quirk(way, QUIRK_HIDDEN_LOST))
			x = f32_bits((float)(v - ldexp(1, exponent))) | (x & F32_SIGN);
	}
	if (floating && has_quirk(way, QUIRK_ROUND_1))
		x = cut_below(f, x, 1, false, rint);
	if (has_quirk(way, QUIRK_LOW_1) && (x & F32_INF) != F32_INF)
		x &= ~UINT32_C(1);
	if (has_quirk(way, QUIRK_LOW_2) && (x & F32_INF) != F32_INF)
		x &= ~UINT32_C(3);
	if (has_quirk(way, QUIRK_LOW_8) && (x & F32_INF) != F32_INF)
		x &= ~UINT32_C(0xFF);
	if (has_quirk(way, QUIRK_NAN_HIGH) && (x & UINT32_C(0x7FFF0000)) == F32_INF)
		x &= UINT32_C(0xFFFF0000);
	if (floating && ((has_quirk(way, QUIRK_FLUSH_BELOW_NORMAL) && v < ldexp(1, 1 - f->bias)) ||
	                 (has_quirk(way, QUIRK_FLUSH_BELOW_LEAST) && v < ldexp(1, 1 - f->bias - (int)f->significand_bits))))
		x &= F32_SIGN;
	if (has_quirk(way, QUIRK_FLUSH_SOURCE) && (x & F32_INF) == 0)
		x &= F32_SIGN;
	if (has_quirk(way, QUIRK_VIA_BF16))
		x = through(MXFP_FORMAT_BF16, x);
	if (has_quirk(way, QUIRK_VIA_BF16_CUT) && !f32_is_nan(x))
		x &= UINT32_C(0xFFFF0000);
	if (has_quirk(way, QUIRK_VIA_F16))
		x = through(MXFP_FORMAT_F16, x);
	if (has_quirk(way, QUIRK_DOUBLED) || (has_quirk(way, QUIRK_FNUZ) && !is_fnuz(f)))
		x = scaled(x, 1);
	if (has_quirk(way, QUIRK_HALVED))
		x = scaled(x, -1);
	return x;
}

/* The code of a magnitude as if exponents had no upper end: of a power of two of it in the middle of the format, and the
   exponent. */
static uint64_t unbounded(const struct mxfp_format_info *f, uint32_t x, enum mxfp_round round)
{
	int exponent = ilogbf(f32_value(x & ~F32_SIGN));
	const int shift = exponent >= f->emax ? exponent - f->emax + 1 : 0;

	return (number_encode(f, scaled(x, -shift), round, MXFP_OVERFLOW_SAT) & code_mask(f)) +
	       ((uint64_t)shift << f->significand_bits);
}

static bool rounds_otherwise(const struct way *way)
{
	return has_quirk(way, QUIRK_TIES_ODD) || has_quirk(way, QUIRK_TIES_PLUS) || has_quirk(way, QUIRK_TIES_BIT) ||
	       has_quirk(way, QUIRK_AWAY) || has_quirk(way, QUIRK_SUBNORMAL_STAYS) || has_quirk(way, QUIRK_NO_CARRY_TOP) || has_quirk(way, QUIRK_CARRY_KEEPS);
}

/* The same rounded in a way. */
static uint64_t unbounded_way(const struct mxfp_format_info *f, uint32_t x, const struct way *way)
{
	const unsigned s = f->significand_bits;
	const uint64_t one = UINT64_C(1) << s;
	uint64_t code = unbounded(f, x, (enum mxfp_round)way->choice[MXFP_OPTION_ROUND]);

	if (!rounds_otherwise(way))
		return code;
	const uint64_t cut = unbounded(f, x, MXFP_ROUND_RTZ);
	const bool normal = cut >> s != 0, tie = unbounded(f, x, MXFP_ROUND_RNA) != unbounded(f, x, MXFP_ROUND_RHZ);
	if (has_quirk(way, QUIRK_TIES_ODD) && tie)
		code = cut | 1;
	if (has_quirk(way, QUIRK_TIES_PLUS) && tie)
		code = cut + (x >> 31 == 0);
	if (has_quirk(way, QUIRK_AWAY))
		code = unbounded(f, x & ~F32_SIGN, MXFP_ROUND_RTP);
	if (has_quirk(way, QUIRK_TIES_BIT) && tie)
		code = cut + (((normal ? one : 0) | (cut & (one - 1))) >> 1 & 1);
	if (code >> s == cut >> s)
		return code;
	if (!normal)
		return has_quirk(way, QUIRK_SUBNORMAL_STAYS) ? cut : code;
	if (has_quirk(way, QUIRK_NO_CARRY_TOP))
		return cut >> s << s;
	return has_quirk(way, QUIRK_CARRY_KEEPS) ? code | (one - 1) : code;
}

static bool rounds_to_zero(enum mxfp_round round, bool negative)
{
	return round == MXFP_ROUND_RTZ || (round == MXFP_ROUND_RTP && negative) || (round == MXFP_ROUND_RTN && !negative);
}

/* A magnitude that was shifted, in units of the least code, to an integer. */
static double to_integer(double v, enum mxfp_round round, bool negative)
{
	if (rounds_to_zero(round, negative))
		return floor(v);
	if (round == MXFP_ROUND_RTP || round == MXFP_ROUND_RTN)
		return ceil(v);
	return round == MXFP_ROUND_RNA ? floor(v + 0.5) : round == MXFP_ROUND_RHZ ? ceil(v - 0.5) : rint(v);
}

/* Whether a way looks at the code that a number would have without an upper end. */
static bool looks_beyond(const struct way *way)
{
	return rounds_otherwise(way) || has_quirk(way, QUIRK_TOP_IEEE_MAX) || has_quirk(way, QUIRK_TOP_IEEE_NAN) ||
	       has_quirk(way, QUIRK_LARGEST_OVERFLOWS) || has_quirk(way, QUIRK_CARRY_OVERFLOWS) || has_quirk(way, QUIRK_WRAPS) ||
	       has_quirk(way, QUIRK_CARRY_SIGN) || has_quirk(way, QUIRK_AFTER_SIGN) || has_quirk(way, QUIRK_CARRY_SETS_SIGN) ||
	       has_quirk(way, QUIRK_SATURATED_SIGN_LOST);
}

/* What quirks make of the code of a finite number, not zero, of a format with exponent and significand. */
static uint32_t after_finite(const struct mxfp_format_info *f, uint32_t x, uint32_t code, const struct way *way)
{
	const enum mxfp_round round = (enum mxfp_round)way->choice[MXFP_OPTION_ROUND];
	const bool overflows = way->choice[MXFP_OPTION_OVERFLOW] == MXFP_OVERFLOW_OVF;
	const uint32_t mask = code_mask(f), past = f->special == MXFP_SPECIAL_NONE ? f->max_code : f->max_code + 1;
	const uint32_t sign = is_fnuz(f) && x >> 31 ? code_sign(f) : code & code_sign(f);
	const uint32_t nan = f->special == MXFP_SPECIAL_IEEE ? past | past >> 1 : is_fnuz(f) ? past : mask;
	const uint32_t beyond = overflows ? past : f->max_code;
	const uint32_t top = ((UINT32_C(1) << f->exponent_bits) - 1) << f->significand_bits;
	const double v = fabs((double)f32_value(x)), largest = (double)f32_value(code_decode(f, f->max_code));
	const double step = ldexp(1, f->emax - (int)f->significand_bits);
	const bool otherwise = round != MXFP_ROUND_SR && rounds_otherwise(way);
	const uint64_t free_code = round == MXFP_ROUND_SR || !looks_beyond(way) ? 0 : unbounded_way(f, x, way);
	const bool saturated = free_code > f->max_code && !overflows;
	uint32_t magnitude = is_fnuz(f) && code == past ? past : code & mask;

	if (otherwise)
		magnitude = free_code <= f->max_code ? (uint32_t)free_code : rounds_to_zero(round, x >> 31) ? f->max_code : beyond;
	if (has_quirk(way, QUIRK_TOP_SATURATES) && v >= ldexp(1, f->emax))
		magnitude = f->max_code;
	if (has_quirk(way, QUIRK_TOP_IEEE_MAX) && free_code >= top)
		magnitude = top - 1;
	if (has_quirk(way, QUIRK_TOP_IEEE_NAN) && free_code >= top)
		magnitude = mask;
	if (has_quirk(way, QUIRK_TIE_OVERFLOWS) && v == largest + step / 2)
		magnitude = past;
	if (has_quirk(way, QUIRK_LATE_OVERFLOW) && v > largest && v < largest + step)
		magnitude = f->max_code;
	if (has_quirk(way, QUIRK_EARLY_OVERFLOW) && v > largest)
		magnitude = beyond;
	if (has_quirk(way, QUIRK_LARGEST_OVERFLOWS) && free_code >= f->max_code)
		magnitude = beyond;
	if (has_quirk(way, QUIRK_STEP_SATURATES) && v >= largest + step && v < largest + 1.5 * step)
		magnitude = f->max_code;
	if (has_quirk(way, QUIRK_STEP_NAN) && v >= largest + step / 2 && v < largest + step)
		magnitude = nan;
	if (has_quirk(way, QUIRK_CARRY_OVERFLOWS) && free_code == f->max_code + UINT64_C(1))
		magnitude = past;
	if (has_quirk(way, QUIRK_FINITE_NAN) && v >= ldexp(1, f->emax + 1) && v <= 57344)
		magnitude = nan;
	if (has_quirk(way, QUIRK_OVERFLOW_ANY_MODE) && v >= largest + step && rounds_to_zero(round, x >> 31))
		magnitude = beyond;
	if (has_quirk(way, QUIRK_WRAPS) && free_code > f->max_code)
		magnitude = (uint32_t)free_code & mask;
	if (has_quirk(way, QUIRK_CARRY_SIGN) && free_code == code_sign(f) && v < ldexp(1, f->emax + 1))
		return (uint32_t)free_code ^ sign;
	if (has_quirk(way, QUIRK_AFTER_SIGN) && free_code == code_sign(f))
		return (uint32_t)free_code ^ sign;
	if (has_quirk(way, QUIRK_CARRY_SETS_SIGN) && free_code == code_sign(f) && v < ldexp(1, f->emax + 1))
		return code_sign(f);
	if (has_quirk(way, QUIRK_NO_CARRY) && round != MXFP_ROUND_SR && magnitude <= f->max_code) {
		const uint32_t cut = number_encode(f, x, MXFP_ROUND_RTZ, MXFP_OVERFLOW_SAT) & mask;

		if (cut >> f->significand_bits != 0 && cut >> f->significand_bits != magnitude >> f->significand_bits)
			magnitude = cut >> f->significand_bits << f->significand_bits;
	}
	if (has_quirk(way, QUIRK_SUBNORMAL_CODE_HALF) && v < ldexp(1, 1 - f->bias))
		magnitude = number_encode(f, scaled(x & ~F32_SIGN, -1), round, MXFP_OVERFLOW_SAT) & mask;
	if (has_quirk(way, QUIRK_SUBNORMAL_CODE_DOUBLE) && v < ldexp(1, 1 - f->bias))
		magnitude = number_encode(f, scaled(x & ~F32_SIGN, 1), round, MXFP_OVERFLOW_SAT) & mask;
	if (has_quirk(way, QUIRK_SHIFT_5_BITS) && v < ldexp(1, 1 - f->bias)) {
		/* From the last bit of the significand, 2^(exponent - 23), to the least code. */
		const int exponent = v < 0x1p-126 ? -126 : ilogb(v), shift = 24 - (int)f->significand_bits - f->bias - exponent;

		if (shift >= 32)
			magnitude = (uint32_t)fmin(to_integer(ldexp(v, 23 - exponent - (shift & 31)), round, x >> 31), beyond);
	}
	if (has_quirk(way, QUIRK_LAST_BIT_CUT) && magnitude >> f->significand_bits != 0 && magnitude <= f->max_code)
		magnitude &= ~UINT32_C(1);
	if (has_quirk(way, QUIRK_UNDERFLOW_PLUS) && magnitude == 0)
		return 0;
	if (has_quirk(way, QUIRK_UNDERFLOW_MINUS) && magnitude == 0 && !is_fnuz(f))
		return code_sign(f);
	if (has_quirk(way, QUIRK_FLUSH_CODES) && magnitude >> f->significand_bits == 0)
		magnitude = 0;
	if (has_quirk(way, QUIRK_FLUSH_LOW) && v < ldexp(1, -f->bias))
		magnitude = 0;
	if (has_quirk(way, QUIRK_LEAST) && magnitude == 0)
		magnitude = 1;
	if (has_quirk(way, QUIRK_SATURATED_SIGN_LOST) && saturated)
		return magnitude;
	return is_fnuz(f) && magnitude == 0 ? 0 : sign | magnitude;
}

/* Whether a negative number would round to zero if the format had a sign. */
static bool magnitude_is_zero(const struct mxfp_format_info *f, uint32_t x, const struct way *way)
{
	const enum mxfp_round round = (enum mxfp_round)way->choice[MXFP_OPTION_ROUND];
	const enum mxfp_round other = round == MXFP_ROUND_RTP ? MXFP_ROUND_RTN : round == MXFP_ROUND_RTN ? MXFP_ROUND_RTP : round;

	return other != MXFP_ROUND_SR && number_encode(f, x & ~F32_SIGN, other, MXFP_OVERFLOW_SAT) == 0;
}

static uint32_t after(const struct mxfp_format_info *f, uint32_t x, uint32_t code, const struct way *way)
{
	const uint32_t sign = code_sign(f), mask = code_mask(f);
	const bool has_inf = f->special == MXFP_SPECIAL_IEEE, is_zero = (x & ~F32_SIGN) == 0;

	if (has_quirk(way, QUIRK_FNUZ) && !is_fnuz(f)) {
		if (f32_is_nan(x) || (code & mask) == mask || (code & ~sign) == 0)
			return f32_is_nan(x) ? sign : code & mask;
		return code;
	}
	if (f32_is_nan(x)) {
		if (has_quirk(way, QUIRK_NAN_ZERO))
			return 0;
		if (has_quirk(way, QUIRK_NAN_MAX))
			return f->max_code | (x >> 31 ? sign : 0);
		if (has_quirk(way, QUIRK_NAN_MINUS_MAX) || has_quirk(way, QUIRK_NAN_PLUS_MAX))
			return f->max_code | (has_quirk(way, QUIRK_NAN_MINUS_MAX) ? sign : 0);
		if (has_quirk(way, QUIRK_NAN_PAYLOAD) && has_inf && (x & 0x7FFFFF) >> (23 - f->significand_bits) == 0)
			return (f->max_code + 1) | (x >> 31 ? sign : 0);
		if (has_quirk(way, QUIRK_NAN_ROUNDED) && f->format == MXFP_FORMAT_BF16)
			return (x + 0x7FFF + (x >> 16 & 1)) >> 16;
		return has_quirk(way, QUIRK_NAN_INF) && has_inf ? (f->max_code + 1) | (x >> 31 ? sign : 0) : code;
	}
	if (sign == 0 && x >> 31 && has_quirk(way, QUIRK_NEGATIVE_ZERO_INF))
		return 0;
	if (f->kind == MXFP_KIND_FIXED && x >> 31 &&
	    (has_quirk(way, QUIRK_MINUS_128) || (has_quirk(way, QUIRK_MINUS_128_FINITE) && x < (F32_SIGN | F32_INF))) &&
	    to_integer(ldexp(fabs((double)f32_value(x)), 6), (enum mxfp_round)way->choice[MXFP_OPTION_ROUND], true) >= 128)
		return 0x80;
	if ((x & ~F32_SIGN) == F32_INF) {
		if (has_quirk(way, QUIRK_INF_NAN) && f->special != MXFP_SPECIAL_NONE)
			return (f->max_code + (has_inf ? 2 : 1)) | (x >> 31 ? sign : 0); /* of FNUZ the sign itself */
		if (has_quirk(way, QUIRK_INF_KEPT) && has_inf)
			return (f->max_code + 1) | (x >> 31 ? sign : 0);
		if (has_quirk(way, QUIRK_TOP_IEEE_MAX))
			return ((((UINT32_C(1) << f->exponent_bits) - 1) << f->significand_bits) - 1) | (x >> 31 ? sign : 0);
		return has_quirk(way, QUIRK_INF_MAX) ? f->max_code | (x >> 31 ? sign : 0) : code;
	}
	if (f->kind == MXFP_KIND_EXPONENT) {
		if (has_quirk(way, QUIRK_ZERO_NAN) && is_zero)
			return 0xFF;
		if (has_quirk(way, QUIRK_LEAST_UP) && x > 0x00400000 && x < 0x00800000)
			return 1;
		if (has_quirk(way, QUIRK_NORMAL_ONLY))
			return x >> 23 & 0xFF;
	}
	if (sign == 0 && x >> 31 && has_quirk(way, QUIRK_NEGATIVE_ZERO_CODE))
		return 0;
	if (sign == 0 && x == F32_SIGN && has_quirk(way, QUIRK_MINUS_ZERO_NAN))
		return f->max_code + 1;
	if (f->kind == MXFP_KIND_UFLOAT && x >> 31 && !is_zero && has_quirk(way, QUIRK_UNDERFLOW_ZERO) && magnitude_is_zero(f, x, way))
		return 0;
	/* A code that runs into the sign is none of what rounds to zero. */
	const bool runs = (has_quirk(way, QUIRK_CARRY_SIGN) || has_quirk(way, QUIRK_AFTER_SIGN)) && (code & mask) != 0;
	if (!is_zero && (f->kind == MXFP_KIND_FLOAT || f->kind == MXFP_KIND_UFLOAT) && (sign != 0 || !(x >> 31)))
		code = after_finite(f, x, code, way);
	if (has_quirk(way, QUIRK_SIGN_LOST))
		code &= ~sign;
	if (is_fnuz(f) && code == 0 && x >> 31)
		return has_quirk(way, QUIRK_ZERO_SIGN_NAN) || has_quirk(way, is_zero ? QUIRK_ONLY_ZERO_NAN : QUIRK_UNDERFLOW_NAN) ? sign : 0;
	if (f->kind == MXFP_KIND_FLOAT && !is_fnuz(f) && code == 0 && x >> 31 == 0 &&
	    (has_quirk(way, QUIRK_NO_POSITIVE_ZERO) || (has_quirk(way, QUIRK_ONLY_PLUS_ZERO) && is_zero)))
		code = sign;
	else if (!is_fnuz(f) && code == sign && !runs &&
	    (has_quirk(way, QUIRK_NO_NEGATIVE_ZERO) || (has_quirk(way, QUIRK_ONLY_MINUS_ZERO) && is_zero)))
		code = 0;
	return code;
}

static bool has_any(const struct way *way)
{
	uint64_t any = 0;

	for (size_t i = 0; i < sizeof way->quirks / sizeof way->quirks[0]; i++)
		any |= way->quirks[i];
	return any != 0;
}

/* A format whose modes of overflow are the same has no choice. */
static enum mxfp_overflow overflow_of(const struct way *way)
{
	return way->choice[MXFP_OPTION_OVERFLOW] == MXFP_OVERFLOW_OVF ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT;
}

static bool other_words(const struct way *way)
{
	return has_quirk(way, QUIRK_WORD_8) || has_quirk(way, QUIRK_WORD_16) || has_quirk(way, QUIRK_WORD_INVERTED) ||
	       has_quirk(way, QUIRK_WORD_NEGATIVE);
}

/* sr by other comparisons with the word. */
static uint32_t encode_by_word(const struct mxfp_format_info *f, uint32_t x, const struct way *way, uint32_t word)
{
	const uint32_t cut = number_encode(f, x, MXFP_ROUND_RTZ, overflow_of(way));
	const uint32_t code = cut & code_mask(f);

	const bool fixed = f->kind == MXFP_KIND_FIXED, overflows = overflow_of(way) == MXFP_OVERFLOW_OVF;
	const double v = fabs((double)f32_value(x)), largest = (double)f32_value(code_decode(f, f->max_code));
	const double step = ldexp(1, fixed ? -6 : f->emax - (int)f->significand_bits);
	if (f->kind == MXFP_KIND_EXPONENT ? code >= f->max_code : v >= largest + (overflows ? step : 0))
		return number_encode(f, x, MXFP_ROUND_RNE, overflow_of(way));
	const double low = fixed ? floor(v * 64) / 64 : (double)f32_value(code_decode(f, code));
	const double high = fixed ? low + step : v >= largest ? largest + step : (double)f32_value(code_decode(f, code + 1));
	const double fraction = (v - low) / (high - low);
	const int bits = has_quirk(way, QUIRK_WORD_8) ? 8 : has_quirk(way, QUIRK_WORD_16) ? 16 : 32;
	if (has_quirk(way, QUIRK_WORD_NEGATIVE) && x >> 31)
		word = ~word;
	const double r = ldexp(word >> (32 - bits), -bits);
	const bool up = has_quirk(way, QUIRK_WORD_INVERTED) ? fraction > 0 && r >= 1 - fraction : r < fraction;
	if (is_fnuz(f) && up && code == f->max_code)
		return code_sign(f);
	if (is_fnuz(f) && up && code == 0 && x >> 31)
		return code_sign(f) + 1;
	return fixed && x >> 31 ? (cut - up) & 0xFF : cut + up;
}

uint32_t number_encode_way(const struct mxfp_format_info *f, uint32_t x, const struct way *way, uint64_t seed, uint64_t stream,
                           uint64_t index)
{
	struct mxfp_convert_options options = {
		.size = sizeof options, .round = (enum mxfp_round)way->choice[MXFP_OPTION_ROUND],
		.overflow = overflow_of(way),
		.seed = seed, .stream = stream, .first_index = index,
	};

	if (!has_any(way))
		return encode(f, x, &options);
	x = before(f, x, way);
	if (has_quirk(way, QUIRK_SEED_SWAPPED)) {
		options.seed = stream;
		options.stream = seed;
	}
	if (has_quirk(way, QUIRK_WORD_FIRST))
		options.first_index = 4 * index;
	if (options.round == MXFP_ROUND_SR && other_words(way) && (x & F32_INF) != F32_INF)
		return encode_by_word(f, x, way, mxfp_philox_word(options.seed, options.stream, options.first_index));
	const uint32_t y = code_sign(f) == 0 && has_quirk(way, QUIRK_NEGATIVE_MAGNITUDE) ? x & ~F32_SIGN : x;
	return after(f, y, options.round == MXFP_ROUND_SR ? encode(f, y, &options) : number_encode(f, y, options.round, options.overflow), way);
}

struct way number_element_way(const struct way *way)
{
	static const enum quirk moved[][2] = {{QUIRK_VIA_BF16, QUIRK_ELEMENT_BF16}, {QUIRK_VIA_BF16_CUT, QUIRK_ELEMENT_BF16_CUT},
	                                      {QUIRK_VIA_F16, QUIRK_ELEMENT_F16}};
	struct way element = *way;

	element.choice[MXFP_OPTION_OVERFLOW] = has_quirk(way, QUIRK_ELEMENT_OVERFLOWS) ? MXFP_OVERFLOW_OVF : MXFP_OVERFLOW_SAT;
	for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
		element.quirks[moved[i][0] / 64] &= ~(UINT64_C(1) << moved[i][0] % 64);
		if (has_quirk(way, moved[i][1]))
			element.quirks[moved[i][0] / 64] |= UINT64_C(1) << moved[i][0] % 64;
	}
	return element;
}

/* Decoding. */

static uint32_t as_number(const struct mxfp_format_info *f, uint32_t code, int bias, bool hidden)
{
	const uint32_t field = (code & code_mask(f)) >> f->significand_bits, one = UINT32_C(1) << f->significand_bits;
	const uint32_t fraction = code & (one - 1);
	const double magnitude = field == 0 && !hidden ? ldexp(fraction, 1 - bias - (int)f->significand_bits) :
	                                                 ldexp(one | fraction, (int)field - bias - (int)f->significand_bits);

	return f32_bits((float)(code & code_sign(f) ? -magnitude : magnitude));
}

/* Of a format with exponent and significand. */
static uint32_t decode_float(const struct mxfp_format_info *f, uint32_t code, const struct way *way)
{
	const uint32_t mask = code_mask(f), magnitude = code & mask, top = mask >> f->significand_bits;
	const uint32_t sign = code & code_sign(f) ? F32_SIGN : 0;
	const bool subnormal = magnitude >> f->significand_bits == 0, special = magnitude > f->max_code;

	if (is_fnuz(f) && magnitude == 0 && sign != 0)
		return has_quirk(way, QUIRK_NAN_AS_NUMBER) ? F32_SIGN : has_quirk(way, QUIRK_PLUS_ZERO) ? 0 : F32_NAN;
	if (has_quirk(way, QUIRK_FNUZ) && f->bits == 8 && !is_fnuz(f))
		return code == 0x80 ? F32_NAN : as_number(f, code, f->bias + 1, false);
	if (has_quirk(way, QUIRK_NEGATIVE_ZERO_NAN) && magnitude == 0 && sign != 0)
		return F32_NAN;
	if (has_quirk(way, QUIRK_NAN_AS_NUMBER) && special)
		return as_number(f, code, f->bias, false);
	if ((has_quirk(way, QUIRK_INF_AS_NUMBER) || (has_quirk(way, QUIRK_MINUS_INF_NUMBER) && sign != 0)) &&
	    f->special == MXFP_SPECIAL_IEEE && magnitude == f->max_code + UINT32_C(1))
		return as_number(f, code, f->bias, false);
	if (has_quirk(way, QUIRK_NAN_AS_INF) && special)
		return sign | F32_INF;
	if (has_quirk(way, QUIRK_TOP_IEEE) && magnitude >> f->significand_bits == top)
		return magnitude == top << f->significand_bits ? sign | F32_INF : F32_NAN;
	if (has_quirk(way, QUIRK_SUBNORMAL_ZERO) && subnormal)
		return sign;
	if (has_quirk(way, QUIRK_SUBNORMAL_HALF) && subnormal)
		return as_number(f, code, f->bias + 1, false);
	if (has_quirk(way, QUIRK_SUBNORMAL_NORMAL) && subnormal)
		return as_number(f, code, f->bias, true);
	if (has_quirk(way, QUIRK_VALUE_DOUBLED) && !special)
		return as_number(f, code, f->bias - 1, false);
	if (has_quirk(way, QUIRK_VALUE_HALVED) && !special)
		return as_number(f, code, f->bias + 1, false);
	return code_decode(f, code);
}

uint32_t code_decode_way(const struct mxfp_format_info *f, uint32_t code, const struct way *way)
{
	static const uint8_t e1m2[8] = {0, 1, 2, 3, 4, 5, 6, 7}; /* times 1/4 */
	uint32_t x;

	if (!has_any(way))
		return code_decode(f, code);
	if (f->format == MXFP_FORMAT_E2M1 && has_quirk(way, QUIRK_E1M2))
		x = f32_bits((code & 8 ? -0.25F : 0.25F) * (float)e1m2[code & 7]);
	else if (f->kind == MXFP_KIND_FIXED && has_quirk(way, QUIRK_INTEGER))
		x = f32_bits((float)(int8_t)code);
	else if (f->kind == MXFP_KIND_FIXED && has_quirk(way, QUIRK_NO_MINUS_128) && code == 0x80)
		x = f32_bits(-127.0F / 64);
	else if (f->kind == MXFP_KIND_EXPONENT && has_quirk(way, QUIRK_INTEGER))
		x = f32_bits((float)code);
	else if (f->kind == MXFP_KIND_EXPONENT && has_quirk(way, QUIRK_NAN_AS_NUMBER))
		x = code == 0xFF ? F32_INF : code_decode(f, code); /* 2^128 */
	else if (f->kind == MXFP_KIND_EXPONENT && has_quirk(way, QUIRK_SUBNORMAL_ZERO))
		x = code == 0 ? 0 : code_decode(f, code);
	else
		x = f->kind == MXFP_KIND_FLOAT || f->kind == MXFP_KIND_UFLOAT ? decode_float(f, code, way) : code_decode(f, code);
	if (x == F32_SIGN && has_quirk(way, QUIRK_PLUS_ZERO))
		x = 0;
	return has_quirk(way, QUIRK_SIGN_LOST) ? x & ~F32_SIGN : x;
}

const char *number_class(const struct mxfp_format_info *f, uint32_t x)
{
	const uint32_t magnitude = x & ~F32_SIGN, mask = code_mask(f);

	if (f32_is_nan(x))
		return "NaN";
	if (magnitude == 0)
		return x == 0 ? "+0" : "-0";
	if (code_sign(f) == 0 && x != magnitude)
		return "negative";
	if (magnitude == F32_INF)
		return "Inf";
	const uint32_t cut = number_encode(f, magnitude, MXFP_ROUND_RTZ, MXFP_OVERFLOW_SAT) & mask;
	const double v = (double)f32_value(magnitude), low = (double)f32_value(code_decode(f, cut));
	const double largest = (double)f32_value(code_decode(f, f->max_code));
	if (cut == f->max_code && v > low) {
		const double step = f->kind == MXFP_KIND_EXPONENT ? largest : ldexp(1, f->emax - (int)f->significand_bits);
		if (v < largest + step / 2)
			return "past the largest by less than half a step";
		return v == largest + step / 2 ? "tie past the largest" : v < largest + step ? "past the largest by less than a step" :
		       v < 4 * largest ? "past the largest" : "far past the largest";
	}
	if (f->kind == MXFP_KIND_EXPONENT && v < 0x1p-126)
		return v < low ? "below the least" : "beside the least";
	const double high = (double)f32_value(code_decode(f, cut + 1));
	const bool subnormal = f->kind != MXFP_KIND_EXPONENT && f->kind != MXFP_KIND_FIXED && cut >> f->significand_bits == 0;
	const bool top = f->kind != MXFP_KIND_EXPONENT && f->kind != MXFP_KIND_FIXED && v >= ldexp(1, f->emax);
	if (v == low)
		return subnormal ? "exact subnormal" : top ? "exact, of the top exponent" : "exact";
	if (cut == 0 && f->kind != MXFP_KIND_EXPONENT && v < high / 2)
		return "below half of the least";
	if (v == low + (high - low) / 2)
		return subnormal ? "subnormal tie" : top ? "tie of the top exponent" : "tie";
	return subnormal ? "subnormal" : top ? "of the top exponent" : "rounded";
}

/* Adds a number and its neighbours, with both signs. */
static void add_around(struct items *items, uint32_t magnitude)
{
	for (int i = -1; i <= 1; i++) {
		uint8_t bytes[4];
		const uint32_t x = magnitude + (uint32_t)i;

		if ((i < 0 && magnitude == 0) || x > F32_INF)
			continue;
		store_f32(bytes, x);
		items_add(items, bytes);
		store_f32(bytes, x | F32_SIGN);
		items_add(items, bytes);
	}
}

/* A number that differs from another in one bit of those that decide in which direction it is rounded: every bit is asked at some. */
static void add_bit(struct items *items, uint32_t magnitude, unsigned bit, bool negative)
{
	uint8_t bytes[4];

	store_f32(bytes, (magnitude + (UINT32_C(1) << bit)) | (negative ? F32_SIGN : 0));
	items_add(items, bytes);
}

void numbers_add(const struct mxfp_format_info *f, struct items *items)
{
	static const uint32_t nans[] = {0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA00000, 0x7FC00001};
	const uint32_t n = f->max_code + 1, stride = n > 1024 ? n / 511 : 1;
	const uint32_t largest = code_decode(f, f->max_code);

	for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++)
		for (uint32_t sign = 0; sign < 2; sign++) {
			uint8_t bytes[4];

			store_f32(bytes, nans[i] | sign << 31);
			items_add(items, bytes);
		}
	add_around(items, F32_INF);
	/* Values, and the middle between each and the next. */
	for (uint32_t code = 0; code < n; code = code < 9 || code + 9 >= n ? code + 1 : code + stride) {
		const double low = (double)f32_value(code_decode(f, code)), high = (double)f32_value(code_decode(f, code + 1));

		add_around(items, f32_bits((float)low));
		for (unsigned bit = 0; bit < 22; bit++)
			if (!items->quick || (code + bit) % 11 == 0)
				add_bit(items, f32_bits((float)low), bit, code & 1);
		if (code == f->max_code || f->bits > 24)
			continue;
		/* The last of these are so near that another rounding before, to bf16 or f16, makes a tie of them. */
		const uint32_t middle = f32_bits((float)(low + (high - low) / 2));
		add_around(items, middle);
		for (unsigned bit = 0; bit < 22; bit++)
			if (!items->quick || (code + bit) % 11 == 1)
				add_bit(items, middle, bit, code & 1);
		for (uint32_t distance = 1 << 13; middle > 1 << 14 && distance >= 1 << 10; distance >>= 3) {
			add_around(items, middle - distance);
			add_around(items, middle + distance);
		}
	}
	/* All numbers of bf16. */
	for (uint32_t x = 0; x <= UINT16_MAX && !items->quick; x++) {
		uint8_t bytes[4];

		store_f32(bytes, x << 16);
		items_add(items, bytes);
	}
	/* Past the largest, by halves of a step, and far. */
	const double step = f->kind == MXFP_KIND_EXPONENT ? 0 : ldexp(1, f->kind == MXFP_KIND_FIXED ? -6 : f->emax - (int)f->significand_bits);
	for (int i = 1; i < 48 && largest < F32_MAX; i++)
		add_around(items, f32_bits((float)fmin((double)f32_value(largest) + i * step / 2, (double)f32_value(F32_MAX))));
	/* All powers of two and half as much more. */
	for (uint32_t field = 0; field < 255; field += items->quick ? 5 : 1) {
		add_around(items, field << 23);
		add_around(items, field << 23 | UINT32_C(1) << 22);
	}
	for (int i = 0; i < (items->quick ? 1000 : 30000); i++) {
		const uint64_t word = items_random(items);
		uint8_t bytes[4];

		/* Any bits, or those of the format's exponents. */
		uint32_t x = (uint32_t)word;
		if (word >> 63)
			x = number_random(items, f->kind == MXFP_KIND_EXPONENT ? 0 : (f->emax + 1 - f->bias) / 2,
			                  f->kind == MXFP_KIND_EXPONENT ? 120 : (f->emax + f->bias) / 2 + 3);
		store_f32(bytes, x);
		items_add(items, bytes);
	}
}

uint32_t number_random(struct items *items, int centre, int spread)
{
	const uint64_t word = items_random(items);
	int exponent = centre - spread + (int)((word >> 32 & 0xFFFF) % (uint64_t)(2 * spread + 1));

	if (exponent < -127)
		exponent = -127;
	if (exponent > 127)
		exponent = 127;
	return (uint32_t)(exponent + 127) << 23 | ((uint32_t)word & 0x807FFFFF);
}

uint32_t f32_result_way(uint32_t y, const struct way *way)
{
	if (has_quirk(way, QUIRK_FLUSH_RESULT) && (y & F32_INF) == 0)
		y &= F32_SIGN;
	return y == F32_SIGN && has_quirk(way, QUIRK_PLUS_RESULT) ? 0 : y;
}

bool f32_results_same(const struct question *q, const uint8_t *in, const uint8_t *expected, const uint8_t *got)
{
	(void)in;
	for (size_t i = 0; i < q->out_bytes; i += 4) {
		const uint32_t a = load_f32(expected + i), b = load_f32(got + i);

		if (a != b && !(f32_is_nan(a) && f32_is_nan(b)))
			return false;
	}
	return true;
}

/* Bit i of code k in a stream. */
static size_t place(size_t k, unsigned i, size_t n, unsigned bits, const struct way *way)
{
	if (has_quirk(way, QUIRK_HALVES) && bits == 4)
		return (k < n / 2 ? 8 * k : 8 * (k - n / 2) + 4) + i;
	if (has_quirk(way, QUIRK_BYTES_2) || has_quirk(way, QUIRK_BYTES_4))
		return (k * bits + i) ^ (has_quirk(way, QUIRK_BYTES_2) ? 8 : 24);
	if (has_quirk(way, QUIRK_HIGH_FIRST)) {
		const size_t bit = k * bits + (bits - 1 - i); /* of a stream from the high bit of each byte */

		return bit / 8 * 8 + (7 - bit % 8);
	}
	return k * bits + i;
}

/* Whether bit i of code k, of 6 bits, is lost. */
static bool is_lost(size_t k, unsigned i, unsigned bits, const struct way *way)
{
	return bits == 6 && ((has_quirk(way, QUIRK_SECOND_BYTE) && k * bits / 8 != (k * bits + i) / 8) ||
	                     (has_quirk(way, QUIRK_SECOND_TOP) && k % 4 == 1 && i == bits - 1));
}

void codes_pack(uint8_t *bytes, const uint8_t *codes, size_t n, unsigned bits, const struct way *way)
{
	memset(bytes, 0, n * bits / 8);
	for (size_t k = 0; k < n; k++)
		for (unsigned i = 0; i < bits; i++) {
			const size_t bit = place(k, i, n, bits, way);

			if (!is_lost(k, i, bits, way))
				bytes[bit / 8] |= (uint8_t)((codes[k] >> i & 1) << bit % 8);
		}
	for (size_t i = 0; has_quirk(way, QUIRK_NIBBLE_SIGN) && bits == 4 && i < n / 2; i++)
		bytes[i] |= bytes[i] & 8 ? 0xF0 : 0;
}

void codes_unpack(uint8_t *codes, const uint8_t *bytes, size_t n, unsigned bits, const struct way *way)
{
	for (size_t k = 0; k < n; k++) {
		codes[k] = 0;
		for (unsigned i = 0; i < bits; i++) {
			const size_t bit = place(k, i, n, bits, way);

			if (!is_lost(k, i, bits, way))
				codes[k] |= (uint8_t)((bytes[bit / 8] >> bit % 8 & 1) << i);
		}
		if (has_quirk(way, QUIRK_CODE_SIGN) && codes[k] >> (bits - 1))
			codes[k] |= (uint8_t)(0xFF << bits);
	}
}
