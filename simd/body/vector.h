/* SPDX-License-Identifier: MIT */
/*
 * Vectors of 32-bit lanes in the vector extensions of gcc and clang: +, -, &, <<, > and casts work as in C, lane by
 * lane, and a comparison gives all ones or all zeros. Each tier's tier.h adds what the extensions lack. It defines
 * VECTOR_BYTES and TIER(name), which names a function of the tier, includes this file, and
 * defines min_u32, max_u32, max_across, shift_left and shift_right (counts from 32 on give 0), any, fma_f32,
 * load_u8, load_u16, store_u8, store_u16, low_bytes, store_nibbles, store_interleaved, halving_sum,
 * fp_enter and fp_leave, for random words struct products, high_halves, low_halves and store_quarters, for products dot_pairs
 * and lookup, for 64-bit lanes fma_f64, max_f64, truncate_f64, floor_f64, widen_f32 and narrow_f64, and for functions EXP_PARTS, exp2_fraction, exp2_scale, widen_lanes, low_words, any_zero_or_beyond, divide_f64 and rsqrt_f64. Beside
 * permute_f32, max_f32, min_f32 and reciprocal_f32, which a tier may have and then defines HAS_PERMUTE, and dot_split, whole,
 * load_half, split_bytes, twice_low_halves and widen_half, likewise with HAS_LANE_PRODUCTS, the files of simd/body use nothing
 * else, so they compile for every tier. A tier that defines no HAS_WIDE_LOOKUP also needs IN_REGISTER, lookup_nibble, with_sign,
 * widen_signed and multiply_bytes. Fast paths that avx512 replaces by its own also need sign_bytes, store_u16_pair, store_f16,
 * load_s8, interleave_bytes, widen_bytes, shift_right_s16 and widen_f16, and with HAS_STOCHASTIC fp_enter_down, floor_f32, join_codes and min_u8,
 * which avx2 and neon define.
 */
#ifndef MXFP_BODY_VECTOR_H
#define MXFP_BODY_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* Hides where a pointer comes from. Without it gcc makes vectors of copies of what it points at, or loads it, once for several uses, and
   has to keep them in memory. */
#define HIDE_ORIGIN(at) __asm__("" : "+r"(at))

/* Defines kernel `name`, which runs `work` in the floating-point state that kernels need. `work` is NOINLINE, so that
   the compiler moves no arithmetic across the change of state. */
#define FP_KERNEL(name, job_type, work) \
	void name(const struct job_type *job) \
	{ \
		struct fp_state state = fp_enter(); \
\
		work(job); \
		fp_leave(state); \
	}

enum { LANES = VECTOR_BYTES / 4 };

typedef uint32_t vu32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vs32 __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vu16 __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t vs16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint8_t vu8 __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t vs8 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t vu64 __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t vs64 __attribute__((vector_size(VECTOR_BYTES)));
typedef double vf64 __attribute__((vector_size(VECTOR_BYTES)));

#define F32_SIGN UINT32_C(0x80000000)
#define F32_INF UINT32_C(0x7F800000)
#define F32_MAX UINT32_C(0x7F7FFFFF)
#define F32_ONE UINT32_C(0x3F800000)
#define F32_NAN UINT32_C(0x7FC00000)
#define F32_QUIET UINT32_C(0x00400000)
#define F32_HIDDEN UINT32_C(0x00800000)

enum { F32_SIGNIFICAND_BITS = 23, F32_BIAS = 127 };

ALWAYS_INLINE vu32 splat(uint32_t x)
{
	return (vu32){0} + x;
}

/* The binary32 with these bits. Code only passes such a scalar on and never computes with it (HACKING.md). */
ALWAYS_INLINE float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

ALWAYS_INLINE vf32 splat_f32(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return (vf32)splat(bits);
}

ALWAYS_INLINE vf64 splat_f64(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	return (vf64)((vu64){0} + bits);
}

/* a + b rounded to odd: a second rounding, to fewer bits, gives what rounding the exact sum would give. */
ALWAYS_INLINE vf64 add_to_odd(vf64 a, vf64 b)
{
	vf64 sum = a + b, b_part = sum - a, rest = (a - (sum - b_part)) + (b - b_part);
	vs64 bits = (vs64)sum, even = (bits & 1) - 1, negative = sum < 0;
	/* Whether the error points away from zero or toward it: neither if it is 0, or NaN because the sum is Inf. */
	vs64 away = (negative & (rest < 0)) | (~negative & (rest > 0));
	vs64 toward = (negative & (rest > 0)) | (~negative & (rest < 0));

	return (vf64)(bits - (away & even) + (toward & even));
}

/* 2^exponent, for exponents from -127 to 127. */
ALWAYS_INLINE float power_of_two(int exponent)
{
	return float_of(exponent > -F32_BIAS ? (uint32_t)(exponent + F32_BIAS) << F32_SIGNIFICAND_BITS : F32_HIDDEN / 2);
}

/* mask ? a : b, lane by lane; a mask's lanes are all ones or all zeros. */
ALWAYS_INLINE vu32 blend(vs32 mask, vu32 a, vu32 b)
{
	return ((vu32)mask & a) | (~(vu32)mask & b);
}

ALWAYS_INLINE vu32 load(const void *at)
{
	vu32 v;

	memcpy(&v, at, sizeof v);
	return v;
}

ALWAYS_INLINE void store(void *at, vu32 v)
{
	memcpy(at, &v, sizeof v);
}

/* Loads the first n lanes; the others are 0. */
ALWAYS_INLINE vu32 load_first(const void *at, size_t n)
{
	vu32 v = {0};

	memcpy(&v, at, n * sizeof v[0]);
	return v;
}

ALWAYS_INLINE uint64_t sum_lanes(vu32 v)
{
	uint64_t sum = 0;

	for (int i = 0; i < LANES; i++)
		sum += v[i];
	return sum;
}

/* Lane numbers 0, 1, 2, ... */
ALWAYS_INLINE vu32 lane_numbers(void)
{
	vu32 v = {0};

	for (uint32_t i = 0; i < LANES; i++)
		v[i] = i;
	return v;
}

/* Lane numbers such that those of every 128 bits are LANES / 4 apart: where store_quarters() puts the lanes. It stores
   lane i of word[w] at at[4 * quarter_numbers()[i] + w]. */
ALWAYS_INLINE vu32 quarter_numbers(void)
{
	vu32 v = {0};

	for (uint32_t i = 0; i < LANES; i++)
		v[i] = i % 4 * (LANES / 4) + i / 4;
	return v;
}

#endif
