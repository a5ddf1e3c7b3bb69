/* SPDX-License-Identifier: MIT */
#include "oracle/oracle_mx.h"

#include <assert.h>
#include <string.h>

#include "mxfp/philox.h"

static const struct mxfp_rounding rne = {.mode = MXFP_ROUND_RNE};

/* e of |x| = m * 2^e, 1 <= m < 2. */
static int exponent_of(mpfr_srcptr x)
{
	return (int)mpfr_get_exp(x) - 1;
}

/* Whether amax = m * 2^e has m >= 2 - 2^-(bits + 1). */
static bool rounds_to_two(mpfr_srcptr amax, unsigned bits)
{
	MPFR_DECL_INIT(threshold, 24);

	mpfr_set_ui_2exp(threshold, (1UL << (bits + 2)) - 1, -(mpfr_exp_t)bits - 1, MPFR_RNDN);
	mpfr_mul_2si(threshold, threshold, exponent_of(amax), MPFR_RNDN);
	return mpfr_greaterequal_p(amax, threshold);
}

/* The smallest s with amax <= largest * 2^s. */
static int least_that_holds(const struct oracle *element, mpfr_srcptr amax)
{
	MPFR_DECL_INIT(bound, 64);
	int s = exponent_of(amax) - exponent_of(element->magnitude[element->n - 1]) - 4;

	do
		mpfr_mul_2si(bound, element->magnitude[element->n - 1], ++s, MPFR_RNDN);
	while (mpfr_greater_p(amax, bound));
	return s;
}

/* The smallest s under which amax * 2^-s does not saturate by rne. */
static int least_that_fits(const struct oracle *element, mpfr_srcptr amax)
{
	MPFR_DECL_INIT(scaled, 64);
	struct mxfp_counts counts = {.size = sizeof counts};
	int s = exponent_of(amax) - exponent_of(element->magnitude[element->n - 1]) - 4;

	do {
		counts.saturated = 0;
		mpfr_mul_2si(scaled, amax, -++s, MPFR_RNDN);
		oracle_round(element, scaled, &rne, 0, &counts);
	} while (counts.saturated != 0);
	return s;
}

/* amax / largest */
static void quotient(mpfr_ptr to, const struct oracle *element, mpfr_srcptr amax)
{
	mpfr_div(to, amax, element->magnitude[element->n - 1], MPFR_RNDN);
}

/* The power of two nearest to amax / largest, the upper of two. The quotient is cut at 256 bits, far behind any tie. */
static int nearest_power(const struct oracle *element, mpfr_srcptr amax)
{
	MPFR_DECL_INIT(x, 256);
	MPFR_DECL_INIT(below, 256);
	MPFR_DECL_INIT(above, 256);

	quotient(x, element, amax);
	int s = exponent_of(x);
	mpfr_set_ui_2exp(below, 1, s, MPFR_RNDN);
	mpfr_set_ui_2exp(above, 1, s + 1, MPFR_RNDN);
	mpfr_sub(below, x, below, MPFR_RNDN);
	mpfr_sub(above, above, x, MPFR_RNDN);
	return mpfr_lessequal_p(above, below) ? s + 1 : s;
}

/* The integer nearest to log2(amax / largest); no half is one's logarithm, as a root of 2 is irrational. */
static int nearest_logarithm(const struct oracle *element, mpfr_srcptr amax)
{
	MPFR_DECL_INIT(x, 256);

	quotient(x, element, amax);
	mpfr_log2(x, x, MPFR_RNDN);
	mpfr_round(x, x);
	return (int)mpfr_get_si(x, MPFR_RNDN);
}

int oracle_scale_unclamped(enum mxfp_rule rule, const struct oracle *element, uint32_t amax_bits)
{
	int emax = exponent_of(element->magnitude[element->n - 1]);
	MPFR_DECL_INIT(amax, 24);

	oracle_set_f32(amax, amax_bits);
	int e = exponent_of(amax), is_power = mpfr_cmp_ui_2exp(amax, 1, e) == 0;
	switch (rule) {
	case MXFP_RULE_MSE:
	case MXFP_RULE_FLOOR:
		return e - emax;
	case MXFP_RULE_CEIL:
		return (is_power ? e : e + 1) - emax;
	case MXFP_RULE_EVEN:
		return e + rounds_to_two(amax, element->format->significand_bits) - emax;
	case MXFP_RULE_EVEN_M1:
		return e + rounds_to_two(amax, 1) - emax;
	case MXFP_RULE_RCEIL:
		return least_that_holds(element, amax);
	case MXFP_RULE_FIT:
		return least_that_fits(element, amax);
	case MXFP_RULE_TRN3:
		return e - (emax - 1);
	case MXFP_RULE_RNE:
		return nearest_power(element, amax);
	case MXFP_RULE_LOG_NEAREST:
		return nearest_logarithm(element, amax);
	}
	assert(0);
	return 0;
}

int oracle_scale_clamp(int s)
{
	return s < -127 ? -127 : s > 127 ? 127 : s;
}

/* fl32(fl32(x * 2^-s0) - decode(q) * 2^(s - s0)), q the rne code of x * 2^-s. */
static uint32_t difference(const struct oracle *element, uint32_t x, int s, int s0)
{
	struct mxfp_counts counts = {.size = sizeof counts};
	uint32_t q = oracle_encode(element, x, s, &rne, 0, &counts);
	MPFR_DECL_INIT(y, 24);
	MPFR_DECL_INIT(decoded, 24);

	oracle_set_f32(y, x);
	oracle_set_f32(decoded, oracle_decode(element->format, q));
	mpfr_mul_2si(decoded, decoded, s - s0, MPFR_RNDN);
	oracle_f32_begin();
	mpfr_subnormalize(y, mpfr_mul_2si(y, y, -s0, MPFR_RNDN), MPFR_RNDN);
	uint32_t bits = oracle_f32_bits(y, mpfr_sub(y, y, decoded, MPFR_RNDN));
	oracle_f32_end();
	return bits;
}

static uint32_t add(uint32_t a, uint32_t b)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(y, 24);

	oracle_set_f32(x, a);
	oracle_set_f32(y, b);
	return oracle_f32_bits(x, mpfr_add(x, x, y, MPFR_RNDN));
}

/* fma(high, high, fl32(low * low)) */
static uint32_t lane_of(uint32_t low_bits, uint32_t high_bits)
{
	MPFR_DECL_INIT(low, 24);
	MPFR_DECL_INIT(high, 24);

	oracle_set_f32(low, low_bits);
	oracle_set_f32(high, high_bits);
	mpfr_subnormalize(low, mpfr_sqr(low, low, MPFR_RNDN), MPFR_RNDN);
	return oracle_f32_bits(low, mpfr_fma(low, high, high, low, MPFR_RNDN));
}

uint32_t oracle_squared_error(const uint32_t *d, int n)
{
	uint32_t lane[MX_BLOCK / 2];

	oracle_f32_begin();
	for (int j = 0; j < n / 2; j++)
		lane[j] = lane_of(d[j], d[j + n / 2]);
	for (int j = 0; n == MX_BLOCK && j < 8; j++)
		lane[j] = add(lane[j], lane[j + 8]);
	for (int j = 0; j < 4; j++)
		lane[j] = add(lane[j], lane[j + 4]);
	for (int j = 0; j < 2; j++)
		lane[j] = add(lane[j], lane[j + 2]);
	lane[0] = add(lane[0], lane[1]);
	oracle_f32_end();
	return lane[0];
}

/* The squared error of a block at 2^s. Not negative, so its bits are ordered as it is. */
static uint32_t error_at(const struct oracle *element, const uint32_t x[MX_BLOCK], int s, int s0)
{
	uint32_t d[MX_BLOCK];

	for (int i = 0; i < MX_BLOCK; i++)
		d[i] = difference(element, x[i], s, s0);
	return oracle_squared_error(d, MX_BLOCK);
}

/* s of any rule for a block of finite numbers that are not all zero. */
static int oracle_scale(enum mxfp_rule rule, const struct oracle *element, const uint32_t x[MX_BLOCK])
{
	uint32_t amax = 0;

	for (int i = 0; i < MX_BLOCK; i++)
		amax = (x[i] & ~F32_SIGN) > amax ? x[i] & ~F32_SIGN : amax;
	int s = oracle_scale_unclamped(rule, element, amax);
	if (rule != MXFP_RULE_MSE)
		return oracle_scale_clamp(s);
	int s0 = oracle_scale_clamp(s), s1 = oracle_scale_clamp(s + 1);
	return error_at(element, x, s0, s0) < error_at(element, x, s1, s0) ? s0 : s1;
}

/* A finite number from the tie between the largest of bf16, (2 - 2^-7) 2^127, and 2^128 on. */
static bool overflows_bf16(uint32_t bits)
{
	MPFR_DECL_INIT(x, 24);
	MPFR_DECL_INIT(tie, 24);

	oracle_set_f32(x, bits);
	mpfr_set_ui_2exp(tie, (1 << 9) - 1, 127 - 8, MPFR_RNDN);
	return mpfr_number_p(x) && mpfr_cmpabs(x, tie) >= 0;
}

/* An element as the block sees it: rounded to bf16 if that is asked for, then Inf replaced. */
static uint32_t seen(uint32_t x, const struct oracle *bf16, const struct mxfp_quantize_options *o)
{
	struct mxfp_counts counts = {.size = sizeof counts};

	if (o->via_bf16)
		x = oracle_decode(bf16->format, oracle_encode(bf16, x, 0, &rne, 0, &counts));
	if (o->non_finite == MXFP_NON_FINITE_SATURATE && (x & ~F32_SIGN) == F32_INF)
		x = (x & F32_SIGN) | F32_MAX;
	return x;
}

/* fl32(x * x) */
static uint32_t squared(uint32_t bits)
{
	MPFR_DECL_INIT(x, 24);

	oracle_set_f32(x, bits);
	return oracle_f32_bits(x, mpfr_sqr(x, x, MPFR_RNDN));
}

/* The sum from row and column (i, j) of every `step`-th number of a square, by the definition as a recursion. */
static uint32_t sum_of_every(uint32_t d[MX_BLOCK][MX_BLOCK], int i, int j, int step)
{
	if (step == MX_BLOCK)
		return squared(d[i][j]);
	const int next = 2 * step;
	const uint32_t kept = add(sum_of_every(d, i, j, next), sum_of_every(d, i + step, j + step, next));

	return add(kept, add(sum_of_every(d, i, j + step, next), sum_of_every(d, i + step, j, next)));
}

uint32_t oracle_square_error(uint32_t d[MX_BLOCK][MX_BLOCK])
{
	oracle_f32_begin();
	const uint32_t sum = sum_of_every(d, 0, 0, 1);
	oracle_f32_end();
	return sum;
}

uint8_t oracle_square_scale(const struct oracle *element, const struct oracle *bf16, const struct oracle_source *rows,
                            size_t n_rows, const struct mxfp_quantize_options *o)
{
	uint32_t in[MX_BLOCK][MX_BLOCK] = {{0}}, amax = 0, error[2], d[MX_BLOCK][MX_BLOCK];

	for (size_t i = 0; i < n_rows; i++)
		for (size_t j = 0; j < rows[i].n; j++) {
			in[i][j] = seen(rows[i].x[j], bf16, o);
			if ((in[i][j] & ~F32_SIGN) > amax)
				amax = in[i][j] & ~F32_SIGN;
		}
	if (amax >= F32_INF)
		return 0xFF;
	if (amax == 0)
		return 0;
	const int s = oracle_scale_unclamped(o->rule, element, amax);
	const int s0 = oracle_scale_clamp(s), s1 = oracle_scale_clamp(s + 1);
	if (o->rule != MXFP_RULE_MSE)
		return (uint8_t)(s0 + 127);
	for (int up = 0; up < 2; up++) {
		for (int i = 0; i < MX_BLOCK * MX_BLOCK; i++)
			d[i / MX_BLOCK][i % MX_BLOCK] = difference(element, in[i / MX_BLOCK][i % MX_BLOCK], up ? s1 : s0, s0);
		error[up] = oracle_square_error(d);
	}
	return (uint8_t)((error[0] < error[1] ? s0 : s1) + 127);
}

void oracle_block(struct oracle_block *block, const struct oracle *element, const struct oracle *bf16,
                  const struct oracle_source *source, const struct mxfp_quantize_options *o,
                  struct mxfp_counts *counts)
{
	const struct mxfp_rounding r = {o->round, MXFP_OVERFLOW_SAT, o->no_negative_zero, 0, 0};
	uint32_t in[MX_BLOCK] = {0}, any = 0, nan = 0;
	uint64_t flushed = 0;

	memset(block, 0, sizeof *block);
	for (size_t i = 0; i < source->n; i++) {
		in[i] = seen(source->x[i], bf16, o);
		any |= in[i] & ~F32_SIGN;
		nan += (in[i] & ~F32_SIGN) >= F32_INF;
		flushed += (in[i] & ~F32_SIGN) == 0 && (source->x[i] & ~F32_SIGN) != 0;
		counts->nan += (source->x[i] & ~F32_SIGN) > F32_INF;
		counts->inf += (source->x[i] & ~F32_SIGN) == F32_INF;
		counts->overflowed += o->via_bf16 && overflows_bf16(source->x[i]);
	}
	if (nan != 0 || (source->given != NULL && *source->given == 0xFF)) {
		block->scale = 0xFF;
		return;
	}
	int s = source->given != NULL ? *source->given - 127 : any == 0 ? -127 : oracle_scale(o->rule, element, in);
	block->scale = (uint8_t)(s + 127);
	counts->flushed += flushed;
	for (size_t i = 0; i < source->n; i++) {
		uint32_t random = o->round == MXFP_ROUND_SR ? mxfp_philox_word(o->seed, o->stream, source->index + i) : 0;
		block->codes[i] = (uint8_t)oracle_encode(element, in[i], s, &r, random, counts);
	}
}
