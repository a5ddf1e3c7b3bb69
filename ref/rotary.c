/* SPDX-License-Identifier: MIT */
/*
 * Frequencies of rotary positions: doc/numerics.md, section 9. The steps are those of transformers' modeling_rope_utils with
 * PyTorch on a CPU: what Python computes is binary64, what is a tensor is binary32, and a number over a tensor is its
 * reciprocal times the number.
 */
#include <string.h>

#include "f32.h"
#include "f64.h"
#include "kernels.h"
#include "wide.h"

#define F32_ONE UINT32_C(0x3F800000)
#define F64_PI UINT64_C(0x400921FB54442D18)
#define F64_TENTH UINT64_C(0x3FB999999999999A)      /* 0.1 */
#define F64_THOUSANDTH UINT64_C(0x3F50624DD2F1A9FC) /* 0.001 */

enum { LIMBS = 4 };

/* log((1 + t) / (1 - t)) = 2 (t + t^3 / 3 + t^5 / 5 + ...), t at most 1/3. */
static void log_ratio(struct wide *sum, const struct wide *t)
{
	struct wide square, power = *t, term;

	mxfp_wide_set(sum, 0, 0, LIMBS);
	mxfp_wide_mul(&square, t, t, LIMBS);
	for (uint32_t i = 1; !mxfp_wide_is_zero(&power, LIMBS); i += 2) {
		mxfp_wide_div_small(&term, &power, i, LIMBS);
		mxfp_wide_add(sum, sum, &term, LIMBS);
		mxfp_wide_mul(&power, &power, &square, LIMBS);
	}
	mxfp_wide_shift_left(sum, sum, 1, LIMBS);
}

/*
 * log x of a positive normal number, to nearest even: x = 2^k w, w from 1 to 2. Of 256 bits of fraction only the last dozen are
 * wrong, and the hardest binary64 logarithms that Lefevre and Muller found need less than half of the others.
 */
static uint64_t f64_log(uint64_t x)
{
	const int k = (int)(x >> 52) - 1023;
	const uint64_t w = (x & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52, one = UINT64_C(1) << 52;
	struct wide t, sum, ln2;
	int exponent;

	mxfp_wide_set(&t, w + one, -52, LIMBS);
	mxfp_wide_reciprocal(&t, &t, LIMBS);
	mxfp_wide_set(&sum, w - one, -52, LIMBS);
	mxfp_wide_mul(&t, &t, &sum, LIMBS);
	log_ratio(&sum, &t);
	mxfp_wide_set(&t, 1, 0, LIMBS);
	mxfp_wide_div_small(&t, &t, 3, LIMBS);
	log_ratio(&ln2, &t);
	mxfp_wide_mul_small(&ln2, &ln2, (uint64_t)(k < 0 ? -k : k), LIMBS);
	if (k < 0)
		mxfp_wide_sub(&sum, &ln2, &sum, LIMBS);
	else
		mxfp_wide_add(&sum, &ln2, &sum, LIMBS);
	if (mxfp_wide_is_zero(&sum, LIMBS))
		return 0;
	const uint64_t top = mxfp_f64_from_u64(mxfp_wide_top(&sum, LIMBS, &exponent));
	return mxfp_f64_mul(top, (uint64_t)(exponent + 1023) << 52) | (k < 0 ? MXFP_F64_SIGN : 0);
}

/* The largest integer that is not greater. */
static uint64_t f64_floor(uint64_t x)
{
	const int exponent = (int)(x >> 52 & 0x7FF) - 1023;
	const bool negative = x >> 63 != 0;

	if (exponent >= 52 || mxfp_f64_is_zero(x))
		return x;
	if (exponent < 0)
		return negative ? MXFP_F64_ONE | MXFP_F64_SIGN : 0;
	const uint64_t fraction = (UINT64_C(1) << (52 - exponent)) - 1;
	return (x & fraction) != 0 && negative ? mxfp_f64_sub(x & ~fraction, MXFP_F64_ONE) : x & ~fraction;
}

static uint64_t f64_ceil(uint64_t x)
{
	return f64_floor(x ^ MXFP_F64_SIGN) ^ MXFP_F64_SIGN;
}

static uint64_t twice(uint64_t x)
{
	return mxfp_f64_add(x, x);
}

static uint32_t reciprocal(uint32_t x)
{
	return mxfp_f32_div(F32_ONE, x);
}

/* The number of a frequency, not an integer, at which a position turns `rotations` times over all original positions. */
static uint64_t correction_dim(const struct mxfp_rotary *r, uint64_t rotations)
{
	const uint64_t turn = mxfp_f64_mul(twice(rotations), F64_PI);
	const uint64_t log_turns = f64_log(mxfp_f64_div(mxfp_f64_from_u64(r->original_positions), turn));

	return mxfp_f64_div(mxfp_f64_mul(mxfp_f64_from_u64(r->cols), log_turns), twice(f64_log(r->base)));
}

/* Where the ramp of YaRN begins, and how long it is. */
struct ramp {
	uint32_t low, length;
};

static struct ramp yarn_ramp(const struct mxfp_rotary *r)
{
	const uint64_t last = mxfp_f64_from_u64(r->cols - 1);
	uint64_t low = correction_dim(r, r->beta_fast), high = correction_dim(r, r->beta_slow);

	if (!r->no_truncate) {
		low = f64_floor(low);
		high = f64_ceil(high);
	}
	low = mxfp_f64_compare(low, 0) < 0 ? 0 : low;
	high = mxfp_f64_compare(high, last) > 0 ? last : high;
	if (mxfp_f64_compare(low, high) == 0)
		high = mxfp_f64_add(high, F64_THOUSANDTH);
	return (struct ramp){mxfp_f64_to_f32(low), mxfp_f64_to_f32(mxfp_f64_sub(high, low))};
}

static uint32_t yarn(const struct mxfp_rotary *r, const struct ramp *ramp, uint32_t power, uint32_t k)
{
	const uint32_t whole = reciprocal(power), scaled = reciprocal(mxfp_f32_mul(mxfp_f64_to_f32(r->factor), power));
	uint32_t share = mxfp_f32_div(mxfp_f32_sub(mxfp_f64_to_f32(mxfp_f64_from_u64(k)), ramp->low), ramp->length);

	if (mxfp_f32_compare(share, 0) < 0)
		share = 0;
	if (mxfp_f32_compare(share, F32_ONE) > 0)
		share = F32_ONE;
	share = mxfp_f32_sub(F32_ONE, share);
	return mxfp_f32_add(mxfp_f32_mul(scaled, mxfp_f32_sub(F32_ONE, share)), mxfp_f32_mul(whole, share));
}

static uint32_t llama3(const struct mxfp_rotary *r, uint32_t frequency)
{
	const uint64_t positions = mxfp_f64_from_u64(r->original_positions);
	const uint32_t longest = mxfp_f64_to_f32(mxfp_f64_div(positions, r->low_freq_factor));
	const uint32_t shortest = mxfp_f64_to_f32(mxfp_f64_div(positions, r->high_freq_factor));
	const uint32_t factor = mxfp_f64_to_f32(r->factor), low = mxfp_f64_to_f32(r->low_freq_factor);
	const uint32_t span = mxfp_f64_to_f32(mxfp_f64_sub(r->high_freq_factor, r->low_freq_factor));
	const uint32_t wavelength = mxfp_f32_mul(reciprocal(frequency), mxfp_f64_to_f32(twice(F64_PI)));

	if (mxfp_f32_compare(wavelength, longest) > 0)
		return mxfp_f32_div(frequency, factor);
	if (mxfp_f32_compare(wavelength, shortest) < 0)
		return frequency;
	const uint32_t turns = mxfp_f32_mul(reciprocal(wavelength), mxfp_f64_to_f32(positions));
	const uint32_t smooth = mxfp_f32_div(mxfp_f32_sub(turns, low), span);
	const uint32_t scaled = mxfp_f32_div(mxfp_f32_mul(mxfp_f32_sub(F32_ONE, smooth), frequency), factor);
	return mxfp_f32_add(scaled, mxfp_f32_mul(smooth, frequency));
}

/* 0.1 * weight * log(factor) + 1; 1 if the factor is at most 1. */
static uint64_t magnitude(uint64_t factor, uint64_t weight)
{
	if (mxfp_f64_compare(factor, MXFP_F64_ONE) <= 0)
		return MXFP_F64_ONE;
	return mxfp_f64_add(mxfp_f64_mul(mxfp_f64_mul(F64_TENTH, weight), f64_log(factor)), MXFP_F64_ONE);
}

uint32_t mxfp_rotary_attention_ref(const struct mxfp_rotary *r)
{
	if (r->scaling != MXFP_ROTARY_YARN)
		return F32_ONE;
	if (mxfp_f64_is_zero(r->mscale) || mxfp_f64_is_zero(r->mscale_all_dim))
		return mxfp_f64_to_f32(magnitude(r->factor, MXFP_F64_ONE));
	return mxfp_f64_to_f32(mxfp_f64_div(magnitude(r->factor, r->mscale), magnitude(r->factor, r->mscale_all_dim)));
}

void mxfp_rotary_frequencies_ref(const struct mxfp_rotary *r, float *frequencies)
{
	const uint32_t cols = mxfp_f64_to_f32(mxfp_f64_from_u64(r->cols)), base = mxfp_f64_to_f32(r->base);
	struct ramp ramp = {0};

	if (r->scaling == MXFP_ROTARY_YARN)
		ramp = yarn_ramp(r);
	for (uint32_t k = 0; k < r->cols / 2; k++) {
		const uint32_t exponent = mxfp_f32_div(mxfp_f64_to_f32(mxfp_f64_from_u64(2 * (uint64_t)k)), cols);
		const uint32_t power = mxfp_pow_ref(base, exponent);
		uint32_t frequency = reciprocal(power);

		if (r->scaling == MXFP_ROTARY_YARN)
			frequency = yarn(r, &ramp, power, k);
		else if (r->scaling == MXFP_ROTARY_LLAMA3)
			frequency = llama3(r, frequency);
		memcpy(frequencies + k, &frequency, sizeof frequency);
	}
}
