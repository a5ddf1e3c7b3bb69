/* SPDX-License-Identifier: MIT */
#include "oracle/oracle.h"

#include <assert.h>
#include <stdlib.h>

enum { PRECISION = 64 };

#define F32_NAN UINT32_C(0x7FC00000)

/* A code's parts: the sign, and the bits without it. */
static uint32_t magnitude_mask(const struct mxfp_format_info *f)
{
	return (UINT32_C(1) << (f->exponent_bits + f->significand_bits)) - 1;
}

/* The magnitude of a code as if its exponent field had no upper end and no special values. */
static void set_magnitude(mpfr_ptr x, const struct mxfp_format_info *f, uint32_t magnitude)
{
	uint32_t fraction = magnitude & ((UINT32_C(1) << f->significand_bits) - 1);
	int exponent = (int)(magnitude >> f->significand_bits), m = (int)f->significand_bits;

	if (f->kind == MXFP_KIND_FIXED)
		mpfr_set_ui_2exp(x, magnitude, -m, MPFR_RNDN);
	else if (f->kind == MXFP_KIND_EXPONENT)
		mpfr_set_ui_2exp(x, 1, (int)magnitude - f->bias, MPFR_RNDN);
	else if (exponent == 0)
		mpfr_set_ui_2exp(x, fraction, 1 - f->bias - m, MPFR_RNDN);
	else
		mpfr_set_ui_2exp(x, fraction + (1UL << m), exponent - f->bias - m, MPFR_RNDN);
}

void oracle_init(struct oracle *o, enum mxfp_format format)
{
	o->format = mxfp_format_get_info(format);
	o->n = format == MXFP_FORMAT_F32 ? 0 : o->format->max_code + 1;
	/* Significands in one piece: as many allocations as there are magnitudes take the leak sanitizer, which looks at all of them at
	   the end of each test's process, longer than the tests. */
	const size_t bytes = mpfr_custom_get_size(PRECISION);
	o->magnitude = malloc((o->n + 1) * sizeof *o->magnitude);
	o->significands = malloc((o->n + 1) * bytes);
	assert(o->magnitude != NULL && o->significands != NULL);
	for (uint32_t c = 0; c <= o->n; c++) {
		mpfr_custom_init(o->significands + c * bytes, PRECISION);
		mpfr_custom_init_set(o->magnitude[c], MPFR_ZERO_KIND, 0, PRECISION, o->significands + c * bytes);
		set_magnitude(o->magnitude[c], o->format, c);
		assert(c == 0 || mpfr_greater_p(o->magnitude[c], o->magnitude[c - 1]));
	}
}

void oracle_clear(struct oracle *o)
{
	free(o->magnitude);
	free(o->significands);
}

void oracle_set_f32(mpfr_ptr x, uint32_t bits)
{
	uint32_t magnitude = bits & ~F32_SIGN;

	if (magnitude > F32_INF)
		mpfr_set_nan(x);
	else if (magnitude == F32_INF)
		mpfr_set_inf(x, 1);
	else
		set_magnitude(x, mxfp_format_get_info(MXFP_FORMAT_F32), magnitude);
	mpfr_setsign(x, x, (bits & F32_SIGN) != 0, MPFR_RNDN);
}

/* The bits of a number, zero or Inf that binary32 holds. */
static uint32_t f32_of(mpfr_srcptr x)
{
	uint32_t sign = mpfr_signbit(x) ? F32_SIGN : 0, magnitude;
	MPFR_DECL_INIT(integer, 24);

	if (mpfr_zero_p(x))
		return sign;
	if (mpfr_inf_p(x))
		return sign | F32_INF;
	/* x = s * 2^e with 2^23 <= s < 2^24, or e = -149 in a subnormal: then the bits are s + (e + 149) * 2^23. */
	mpfr_exp_t e = mpfr_get_exp(x) - 24;
	e = e < -149 ? -149 : e;
	int inexact = mpfr_mul_2si(integer, x, -e, MPFR_RNDN);
	assert(inexact == 0 && mpfr_integer_p(integer));
	mpfr_abs(integer, integer, MPFR_RNDN);
	magnitude = (uint32_t)mpfr_get_ui(integer, MPFR_RNDN) + ((uint32_t)(e + 149) << 23);
	(void)inexact;
	return sign | magnitude;
}

/* A NaN of a format that keeps payloads, as binary32; of one that does not, 7FC00000; with its sign. */
static uint32_t decode_nan(const struct mxfp_format_info *f, bool negative, uint32_t magnitude)
{
	uint32_t nan = F32_NAN | (negative ? F32_SIGN : 0);

	if (f->bits > 8)
		nan |= (magnitude & ((UINT32_C(1) << f->significand_bits) - 1)) << (23 - f->significand_bits);
	return nan;
}

uint32_t oracle_decode(const struct mxfp_format_info *f, uint32_t code)
{
	if (f->format == MXFP_FORMAT_TF32)
		code >>= 32 - f->bits;
	uint32_t magnitude = code & magnitude_mask(f);
	uint32_t infinity = ((UINT32_C(1) << f->exponent_bits) - 1) << f->significand_bits;
	bool sign_bit = (code >> (f->bits - 1) & 1) != 0;
	bool negative = sign_bit && f->kind != MXFP_KIND_UFLOAT && f->kind != MXFP_KIND_EXPONENT;
	MPFR_DECL_INIT(x, PRECISION);

	if (f->special == MXFP_SPECIAL_IEEE && magnitude >= infinity)
		return magnitude == infinity ? F32_INF | (negative ? F32_SIGN : 0) : decode_nan(f, negative, magnitude);
	if (f->special == MXFP_SPECIAL_NAN && magnitude == magnitude_mask(f))
		return decode_nan(f, negative, magnitude);
	if (f->special == MXFP_SPECIAL_FNUZ && sign_bit && magnitude == 0)
		return F32_NAN;
	if (f->kind == MXFP_KIND_FIXED)
		mpfr_set_si_2exp(x, (long)(code & 0xFF) - (sign_bit ? 256 : 0), -(int)f->significand_bits, MPFR_RNDN);
	else
		set_magnitude(x, f, magnitude);
	if (negative && f->kind == MXFP_KIND_FLOAT)
		mpfr_neg(x, x, MPFR_RNDN);
	return f32_of(x);
}

/* MPFR's exponents are those of significands in [1/2, 1): 2^-149 has -148, the largest finite number 128. */
void oracle_f32_begin(void)
{
	mpfr_set_emin(-148);
	mpfr_set_emax(128);
}

void oracle_f32_end(void)
{
	mpfr_set_emin(mpfr_get_emin_min());
	mpfr_set_emax(mpfr_get_emax_max());
}

uint32_t oracle_f32_bits(mpfr_ptr y, int ternary)
{
	assert(mpfr_get_prec(y) == 24);
	if (mpfr_nan_p(y))
		return F32_NAN;
	/* mpfr_subnormalize() rounds results below 2^-126 again, to multiples of 2^-149, and by `ternary` does not
	   round twice. It takes the least normal exponent from emin. */
	mpfr_subnormalize(y, ternary, MPFR_RNDN);
	return f32_of(y);
}
