/* SPDX-License-Identifier: MIT */
#include "oracle/oracle_function.h"

#include <assert.h>
#include <math.h>

#include "bits.h"

#define F32_NAN UINT32_C(0x7FC00000)
#define F32_ONE UINT32_C(0x3F800000)

enum { MAX_PRECISION = 4096 };

/* As section 8 has them: decimal numbers whose nearest binary64 is meant. */
static const double selu_scale = 1.0507009873554804934193349852946;
static const double selu_alpha = 1.6732632423543772848170429916717;
static const double gelu_cubic = 0.044715;

static bool is_nan(uint32_t x)
{
	return (x & ~F32_SIGN) > F32_INF;
}

static uint32_t sign_of(uint32_t x)
{
	return x & F32_SIGN;
}

uint32_t oracle_function_parameter(enum mxfp_function function)
{
	if (function == MXFP_FUNCTION_LEAKY_RELU)
		return UINT32_C(0x3C23D70A);
	return function == MXFP_FUNCTION_ELU || function == MXFP_FUNCTION_SILU ? F32_ONE : 0;
}

/* The values at zeros and infinities, and where no rounding is needed; false: none of these. */
static bool special(enum mxfp_function function, uint32_t x, uint32_t p, uint32_t *result)
{
	const bool zero = (x & ~F32_SIGN) == 0, inf = (x & ~F32_SIGN) == F32_INF, negative = sign_of(x) != 0;
	const bool no_parameter = (p & ~F32_SIGN) == 0;

	if (is_nan(x)) {
		*result = F32_NAN;
		return true;
	}
	switch (function) {
	case MXFP_FUNCTION_IDENTITY:
		*result = x;
		return true;
	case MXFP_FUNCTION_RELU:
		*result = negative ? 0 : x;
		return true;
	case MXFP_FUNCTION_LEAKY_RELU:
		*result = inf && no_parameter ? F32_NAN : sign_of(x ^ p) | (inf ? F32_INF : 0);
		if (!negative && !zero)
			*result = x;
		return inf || zero || no_parameter || !negative;
	case MXFP_FUNCTION_EXP:
	case MXFP_FUNCTION_EXP2:
		*result = zero ? F32_ONE : negative ? 0 : F32_INF;
		return zero || inf;
	case MXFP_FUNCTION_LOG:
		*result = zero ? F32_SIGN | F32_INF : negative ? F32_NAN : F32_INF;
		return zero || negative || inf;
	case MXFP_FUNCTION_TANH:
		*result = zero ? x : F32_ONE | sign_of(x);
		return zero || inf;
	case MXFP_FUNCTION_SIGMOID:
		*result = zero ? UINT32_C(0x3F000000) : negative ? 0 : F32_ONE;
		return zero || inf;
	case MXFP_FUNCTION_SILU:
		*result = inf && !no_parameter && sign_of(x) != sign_of(p) ? sign_of(x) : x;
		return zero || inf;
	case MXFP_FUNCTION_SOFTPLUS:
		*result = negative ? 0 : x;
		return inf;
	case MXFP_FUNCTION_ELU:
		*result = zero ? sign_of(x ^ p) : p ^ F32_SIGN;
		if (!negative && !zero)
			*result = x;
		return zero || inf || no_parameter || !negative;
	case MXFP_FUNCTION_SELU:
		*result = x;
		return zero || (inf && !negative);
	case MXFP_FUNCTION_GELU:
	case MXFP_FUNCTION_GELU_TANH:
		*result = inf && negative ? F32_SIGN : x;
		return zero || inf;
	case MXFP_FUNCTION_RSQRT:
		*result = zero ? sign_of(x) | F32_INF : negative ? F32_NAN : 0;
		return zero || negative || inf;
	case MXFP_FUNCTION_RECIPROCAL:
		*result = sign_of(x) | (zero ? F32_INF : 0);
		return zero || inf;
	case MXFP_FUNCTION_SIN:
		*result = zero ? x : F32_NAN;
		return zero || inf;
	case MXFP_FUNCTION_COS:
		*result = zero ? F32_ONE : F32_NAN;
		return zero || inf;
	}
	assert(false); /* a function without a definition here */
	return false;
}

/* Functions that MPFR rounds itself. */
static bool by_one_call(enum mxfp_function function, mpfr_ptr x, mpfr_srcptr p, uint32_t *result)
{
	MPFR_DECL_INIT(y, 24);
	bool known = true;
	int ternary = 0;

	oracle_f32_begin();
	switch (function) {
	case MXFP_FUNCTION_LEAKY_RELU:
		ternary = mpfr_mul(y, x, p, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_EXP:
		ternary = mpfr_exp(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_EXP2:
		ternary = mpfr_exp2(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_LOG:
		ternary = mpfr_log(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_TANH:
		ternary = mpfr_tanh(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_RSQRT:
		ternary = mpfr_rec_sqrt(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_RECIPROCAL:
		ternary = mpfr_ui_div(y, 1, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_SIN:
		ternary = mpfr_sin(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_COS:
		ternary = mpfr_cos(y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_SELU: /* a binary64 times x > 0 */
		known = mpfr_sgn(x) > 0;
		if (known) {
			MPFR_DECL_INIT(scale, 53);
			mpfr_set_d(scale, selu_scale, MPFR_RNDN);
			ternary = mpfr_mul(y, x, scale, MPFR_RNDN);
		}
		break;
	default:
		known = false;
	}
	if (known)
		*result = oracle_f32_bits(y, ternary);
	oracle_f32_end();
	return known;
}

/* y = 1 / (1 + e^-t). Four operations of half a unit in the last place each: 2^-precision of the value for each, the first two
   less, as the sum is larger than e^-t. */
static void set_sigmoid(mpfr_ptr y, mpfr_srcptr t)
{
	mpfr_neg(y, t, MPFR_RNDN);
	mpfr_exp(y, y, MPFR_RNDN);
	mpfr_add_ui(y, y, 1, MPFR_RNDN);
	mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

/*
 * Composite functions with intermediate results of the precision of y, whose relative error is then less than 2^(20 -
 * precision): the largest factor is the derivative of e^u or erfc at arguments up to 2^10.
 */
static void set_composite(mpfr_ptr y, enum mxfp_function function, mpfr_srcptr x, mpfr_srcptr p)
{
	mpfr_t t;

	mpfr_init2(t, mpfr_get_prec(y));
	switch (function) {
	case MXFP_FUNCTION_SIGMOID:
		set_sigmoid(y, x);
		break;
	case MXFP_FUNCTION_SILU:
		mpfr_mul(t, x, p, MPFR_RNDN); /* exact */
		set_sigmoid(y, t);
		mpfr_mul(y, y, x, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_SOFTPLUS:
		mpfr_exp(y, x, MPFR_RNDN);
		mpfr_log1p(y, y, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_ELU:
		mpfr_expm1(y, x, MPFR_RNDN);
		mpfr_mul(y, y, p, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_SELU:
		mpfr_expm1(y, x, MPFR_RNDN);
		mpfr_mul_d(y, y, selu_alpha, MPFR_RNDN);
		mpfr_mul_d(y, y, selu_scale, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_GELU: /* erfc has an error of its argument, at most x^2 times as large */
		mpfr_sqrt_ui(t, 2, MPFR_RNDN);
		mpfr_div(t, x, t, MPFR_RNDN);
		mpfr_neg(t, t, MPFR_RNDN);
		mpfr_erfc(y, t, MPFR_RNDN);
		mpfr_mul(y, y, x, MPFR_RNDN);
		mpfr_div_2ui(y, y, 1, MPFR_RNDN);
		break;
	case MXFP_FUNCTION_GELU_TANH: /* 1 + tanh u = 2 / (1 + e^-2u) */
		mpfr_sqr(t, x, MPFR_RNDN);
		mpfr_mul_d(t, t, gelu_cubic, MPFR_RNDN);
		mpfr_add_ui(t, t, 1, MPFR_RNDN);
		mpfr_mul(t, t, x, MPFR_RNDN);
		mpfr_const_pi(y, MPFR_RNDN);
		mpfr_ui_div(y, 8, y, MPFR_RNDN);
		mpfr_sqrt(y, y, MPFR_RNDN);
		mpfr_mul(t, t, y, MPFR_RNDN);
		set_sigmoid(y, t);
		mpfr_mul(y, y, x, MPFR_RNDN);
		break;
	default:
		assert(false);
	}
	mpfr_clear(t);
}

static uint32_t round_to_f32(mpfr_srcptr x)
{
	MPFR_DECL_INIT(y, 24);

	int ternary = mpfr_set(y, x, MPFR_RNDN);
	oracle_f32_begin();
	ternary = mpfr_check_range(y, ternary, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(y, ternary);
	oracle_f32_end();
	return bits;
}

/* Whether both ends of y (1 +- 2^(20 - precision)) round to *result. */
static bool is_settled(mpfr_srcptr y, uint32_t *result)
{
	mpfr_prec_t precision = mpfr_get_prec(y);
	uint32_t low, high;
	mpfr_t end;

	mpfr_init2(end, precision + 4);
	mpfr_div_2si(end, y, precision - 20, MPFR_RNDA);
	mpfr_sub(end, y, end, MPFR_RNDZ);
	low = round_to_f32(end);
	mpfr_div_2si(end, y, precision - 20, MPFR_RNDA);
	mpfr_add(end, y, end, MPFR_RNDA);
	high = round_to_f32(end);
	mpfr_clear(end);
	*result = low;
	return low == high;
}

/*
 * Whether the argument of the exponential is past 2^10 in magnitude, where e^-1024 < 2^-1477 makes the value x, 1 or a zero after
 * rounding. elu and selu have their limits there, and take -2^10 in place of x.
 */
static bool saturated(enum mxfp_function function, uint32_t x, mpfr_srcptr p, uint32_t *result)
{
	MPFR_DECL_INIT(t, 48);

	oracle_set_f32(t, x);
	if (function == MXFP_FUNCTION_SILU)
		mpfr_mul(t, t, p, MPFR_RNDN);
	if (mpfr_cmpabs_ui(t, 1 << 10) <= 0 || function == MXFP_FUNCTION_ELU || function == MXFP_FUNCTION_SELU)
		return false;
	*result = mpfr_sgn(t) > 0 ? (function == MXFP_FUNCTION_SIGMOID ? F32_ONE : x) :
	          function == MXFP_FUNCTION_SIGMOID || function == MXFP_FUNCTION_SOFTPLUS ? 0 : sign_of(x);
	return true;
}

uint32_t oracle_function(enum mxfp_function function, uint32_t x, uint32_t parameter)
{
	bool settled = false;
	uint32_t result;
	mpfr_t y;
	MPFR_DECL_INIT(p, 24);
	MPFR_DECL_INIT(argument, 24);

	if (special(function, x, parameter, &result))
		return result;
	oracle_set_f32(p, parameter);
	oracle_set_f32(argument, x);
	if (by_one_call(function, argument, p, &result) || saturated(function, x, p, &result))
		return result;
	if ((function == MXFP_FUNCTION_ELU || function == MXFP_FUNCTION_SELU) && mpfr_cmp_si(argument, -1024) < 0)
		mpfr_set_si(argument, -1024, MPFR_RNDN);
	if (function == MXFP_FUNCTION_SILU && (parameter & ~F32_SIGN) == 0) { /* x/2, which may be a tie */
		mpfr_init2(y, 24);
		mpfr_div_2ui(y, argument, 1, MPFR_RNDN);
		result = round_to_f32(y);
		mpfr_clear(y);
		return result;
	}
	mpfr_init2(y, 96);
	while (!settled) {
		set_composite(y, function, argument, p);
		settled = is_settled(y, &result);
		assert(settled || mpfr_get_prec(y) < MAX_PRECISION);
		mpfr_set_prec(y, 2 * mpfr_get_prec(y));
	}
	mpfr_clear(y);
	return result;
}

uint32_t oracle_pow(uint32_t x, uint32_t y)
{
	MPFR_DECL_INIT(base, 24);
	MPFR_DECL_INIT(exponent, 24);
	MPFR_DECL_INIT(power, 24);

	oracle_set_f32(base, x);
	oracle_set_f32(exponent, y);
	oracle_f32_begin();
	int ternary = mpfr_pow(power, base, exponent, MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(power, ternary);
	oracle_f32_end();
	return bits;
}

/*
 * A value in binary64 and a bound of its relative error, as a multiple of 2^-53. glibc states at most 5 units in the last place, of
 * 2^-52 each, for the functions used here; a rounding is 1/2. Where an argument t of an exponential is rounded, its error is |t| 2^-53 and
 * becomes a relative one of the result: |t| < 256 wherever the result is not 0 or x anyway, and the square of
 * |x| < 16 twice for erfc. 2^-46 and 2^-40 are at least 4 times all that together.
 */
static double approximate(enum mxfp_function function, double x, double p, double *bound)
{
	*bound = 0x1p-46;
	switch (function) {
	case MXFP_FUNCTION_LEAKY_RELU:
		return x * p;
	case MXFP_FUNCTION_EXP:
		return exp(x);
	case MXFP_FUNCTION_EXP2:
		return exp2(x);
	case MXFP_FUNCTION_LOG:
		return log(x);
	case MXFP_FUNCTION_TANH:
		return tanh(x);
	case MXFP_FUNCTION_SIGMOID:
		return 1 / (1 + exp(-x));
	case MXFP_FUNCTION_SILU: /* the product is exact */
		return x / (1 + exp(-x * p));
	case MXFP_FUNCTION_SOFTPLUS:
		return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
	case MXFP_FUNCTION_ELU:
		return p * expm1(x);
	case MXFP_FUNCTION_SELU:
		return x > 0 ? selu_scale * x : selu_scale * (selu_alpha * expm1(x));
	case MXFP_FUNCTION_GELU:
		*bound = 0x1p-40;
		return x / 2 * erfc(x * -0x1.6a09e667f3bcdp-1); /* 1 / sqrt 2 */
	case MXFP_FUNCTION_GELU_TANH:
		*bound = 0x1p-40;
		return x / (1 + exp(-0x1.9884533d43651p+0 * x * (1 + gelu_cubic * (x * x)))); /* 2 sqrt(2 / pi) */
	case MXFP_FUNCTION_RSQRT:
		return 1 / sqrt(x);
	case MXFP_FUNCTION_RECIPROCAL:
		return 1 / x;
	case MXFP_FUNCTION_SIN:
		return sin(x);
	case MXFP_FUNCTION_COS:
		return cos(x);
	default:
		return (double)NAN;
	}
}

bool oracle_function_filter(enum mxfp_function function, uint32_t x, uint32_t parameter, uint32_t *result)
{
	double bound, y = approximate(function, (double)mxfp_f32_from_bits(x), (double)mxfp_f32_from_bits(parameter), &bound);
	uint32_t low, high;

	if (isinf(y) || y == 0) { /* past 2^1023, or less than 2^-1074 */
		*result = mxfp_f32_bits((float)y);
		return true;
	}
	low = mxfp_f32_bits((float)(y - y * bound));
	high = mxfp_f32_bits((float)(y + y * bound));
	*result = low;
	return low == high && !is_nan(low);
}

uint32_t oracle_function_fast(enum mxfp_function function, uint32_t x, uint32_t parameter, uint64_t *undecided)
{
	uint32_t result;

	if (special(function, x, parameter, &result) || oracle_function_filter(function, x, parameter, &result))
		return result;
	if (undecided != NULL)
		++*undecided;
	return oracle_function(function, x, parameter);
}
