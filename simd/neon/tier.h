/* SPDX-License-Identifier: MIT */
/* Tier neon under body/vector.h: 4 lanes. */
#ifndef MXFP_NEON_TIER_H
#define MXFP_NEON_TIER_H

#define TIER(name) mxfp_##name##_neon
#define TIER_NAME "neon"
#define VECTOR_BYTES 16

/* The micro-kernels of simd/body: the ids of their panels, rows of a panel of A, vectors of columns of a panel of W. */
enum {
	CHAIN_ID = 0x0601, CHAIN_MR = 6, CHAIN_VECTORS = 4,
	CHAIN_BLOCKS_ID = 0x0613, CHAIN_SUMS = 16, /* vectors of sums of few rows at once */
	INT16_MR = 6, INT16_VECTORS = 4,
	FP4_ID = 0x0609,
	FP8_ID = 0x0628,
	INT16_CODES_ID = 0x0629
};

/* Parts of an octave that powers of two are reduced to: a table of roots would need single loads here. */
enum { EXP_PARTS = 1 };

#include "body/vector.h"

#include <arm_neon.h>

#include "neon/fp.h"

/* Makes a compiler have a value here, as on avx2. */
#define IN_REGISTER(v) __asm__("" : "+w"(v))

/* An instruction multiplies by any lane of another vector, and 16-bit lanes to 32 bits, the first four or the others. */
#define HAS_LANE_PRODUCTS

ALWAYS_INLINE vu32 min_u32(vu32 a, vu32 b)
{
	return (vu32)vminq_u32((uint32x4_t)a, (uint32x4_t)b);
}

ALWAYS_INLINE vu32 max_u32(vu32 a, vu32 b)
{
	return (vu32)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

ALWAYS_INLINE uint32_t max_across(vu32 v)
{
	return vmaxvq_u32((uint32x4_t)v);
}

/* USHL reads the low byte of each count as a signed number, negative to the right. Counts up to 127 are safe, and those
   above 31 give 0. */
ALWAYS_INLINE vu32 clamp_count(vu32 count)
{
	return min_u32(count, splat(32));
}

ALWAYS_INLINE vu32 shift_left(vu32 v, vu32 count)
{
	return (vu32)vshlq_u32((uint32x4_t)v, (int32x4_t)clamp_count(count));
}

ALWAYS_INLINE vu32 shift_right(vu32 v, vu32 count)
{
	return (vu32)vshlq_u32((uint32x4_t)v, (int32x4_t)(-clamp_count(count)));
}

ALWAYS_INLINE bool any(vs32 mask)
{
	return vmaxvq_u32((uint32x4_t)mask) != 0;
}

ALWAYS_INLINE vf32 fma_f32(vf32 a, vf32 b, vf32 c)
{
	return (vf32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

ALWAYS_INLINE vf64 fma_f64(vf64 a, vf64 b, vf64 c)
{
	return (vf64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}

/* Neither is NaN. */
ALWAYS_INLINE vf64 max_f64(vf64 a, vf64 b)
{
	return (vf64)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
}

/* Toward zero. */
ALWAYS_INLINE vf64 truncate_f64(vf64 v)
{
	return (vf64)vrndq_f64((float64x2_t)v);
}

ALWAYS_INLINE vf64 floor_f64(vf64 v)
{
	return (vf64)vrndmq_f64((float64x2_t)v);
}

/* Loads LANES / 2 numbers and widens them. */
ALWAYS_INLINE vf64 widen_f32(const void *at)
{
	float32x2_t two;

	memcpy(&two, at, sizeof two);
	return (vf64)vcvt_f64_f32(two);
}

/* Rounds to nearest even; the lanes of `low` come first. */
ALWAYS_INLINE vf32 narrow_f64(vf64 low, vf64 high)
{
	return (vf32)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)low), (float64x2_t)high);
}

ALWAYS_INLINE void widen_lanes(vf32 v, vf64 to[2])
{
	to[0] = (vf64)vcvt_f64_f32(vget_low_f32((float32x4_t)v));
	to[1] = (vf64)vcvt_high_f64_f32((float32x4_t)v);
}

/* The low 32 bits of all lanes, in no particular order. */
ALWAYS_INLINE vu32 low_words(vf64 a, vf64 b)
{
	return (vu32)vuzp1q_u32((uint32x4_t)a, (uint32x4_t)b);
}

/* Whether a lane has v & bits == 0 or x > most. */
ALWAYS_INLINE bool any_zero_or_beyond(vu32 v, vu32 bits, vu32 x, vu32 most)
{
	return any((vs32)((v & bits) == splat(0)) | (vs32)(x > most));
}

/* 2^(n - floor n) by the table of 2^(i/16), n a multiple of 1 / EXP_PARTS, `shifted` n with its units in the lowest bits. */
ALWAYS_INLINE vf64 exp2_fraction(const double root[16], vf64 shifted)
{
	(void)root;
	(void)shifted;
	return splat_f64(1);
}

/* v * 2^floor(n). */
ALWAYS_INLINE vf64 exp2_scale(vf64 v, vf64 n, vf64 shifted)
{
	(void)n;
	return (vf64)((vu64)v + ((vu64)shifted << 52));
}

ALWAYS_INLINE vf64 divide_f64(vf64 a, vf64 b)
{
	return a / b;
}

ALWAYS_INLINE vf64 rsqrt_f64(vf64 x)
{
	return splat_f64(1) / (vf64)vsqrtq_f64((float64x2_t)x);
}

/* Bytes table[index], index below 16; 0 if it is 128 or more. */
ALWAYS_INLINE vu8 lookup(const int8_t table[16], vu8 index)
{
	return (vu8)vqtbl1q_s8(vld1q_s8(table), (uint8x16_t)index);
}

/* The same by the lower four bits of each index, whose bit 7 is 0. */
ALWAYS_INLINE vu8 lookup_nibble(const int8_t table[16], vu8 index)
{
	return lookup(table, index & (vu8)splat(0x0F0F0F0F));
}

/* Negates bytes where bit 7 of `signs` is set; where `signs` are 0, they must be. */
ALWAYS_INLINE vu8 with_sign(vu8 bytes, vu8 signs)
{
	return (vu8)vbslq_s8(vcltzq_s8((int8x16_t)signs), vnegq_s8((int8x16_t)bytes), (int8x16_t)bytes);
}

/* The products of the first eight bytes, those of b with signs and those of a, below 2^7, without, and of the others. */
ALWAYS_INLINE void multiply_bytes(vu8 a, vu8 b, vs16 to[2])
{
	to[0] = (vs16)vmull_s8(vget_low_s8((int8x16_t)a), vget_low_s8((int8x16_t)b));
	to[1] = (vs16)vmull_high_s8((int8x16_t)a, (int8x16_t)b);
}

/* a - b, at least 0. */
ALWAYS_INLINE vu8 subtract_saturated(vu8 a, vu8 b)
{
	return (vu8)vqsubq_u8((uint8x16_t)a, (uint8x16_t)b);
}

/* Keeps a vector whole whose lanes multiply: gcc would load each of them, and spread it. */
ALWAYS_INLINE vu32 whole(vu32 v)
{
	__asm__("" : "+w"(v));
	return v;
}

/* Loads the first half of the lanes; the others are 0. */
ALWAYS_INLINE vu32 load_half(const void *at)
{
	uint32x2_t two;

	memcpy(&two, at, sizeof two);
	return (vu32)vcombine_u32(two, vdup_n_u32(0));
}

/* sum + first * b[i] + second * b[i + 4] for lane i: b has split pairs (body/gemm_pairs.h). */
ALWAYS_INLINE vs32 dot_split(vs32 sum, int16_t first, int16_t second, vs16 b)
{
	const int32x4_t part = vmlal_s16((int32x4_t)sum, vget_low_s16((int16x8_t)b), vdup_n_s16(first));

	return (vs32)vmlal_high_s16(part, (int16x8_t)b, vdupq_n_s16(second));
}

/* The same of a vector of equal pairs. gcc does not take lane 0 by its number. */
ALWAYS_INLINE vs32 dot_pairs(vs32 sum, vs16 a, vs16 b)
{
	return dot_split(sum, a[2], a[3], b);
}

/* The bytes 4 i, 4 i + 2, 4 i + 1 and 4 i + 3 of each lane i, from one lane to the next. */
ALWAYS_INLINE vu8 split_bytes(vu8 v)
{
	static const uint8_t from[16] = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};

	return (vu8)vqtbl1q_u8((uint8x16_t)v, vld1q_u8(from));
}

/* The first eight bytes, which have signs, and the others. */
ALWAYS_INLINE void widen_signed(vu8 v, vs16 to[2])
{
	to[0] = (vs16)vmovl_s8(vget_low_s8((int8x16_t)v));
	to[1] = (vs16)vmovl_high_s8((int8x16_t)v);
}

/* The low halves of lanes, twice. */
ALWAYS_INLINE vs16 twice_low_halves(vu32 v)
{
	return (vs16)vuzp1q_u16((uint16x8_t)v, (uint16x8_t)v);
}

/* The first or the other lanes, widened. */
ALWAYS_INLINE vs32 widen_half(vs16 v, bool other)
{
	return (vs32)(other ? vmovl_high_s16((int16x8_t)v) : vmovl_s16(vget_low_s16((int16x8_t)v)));
}

/* Of lanes, the first two and the others. */
struct products {
	uint64x2_t first, last;
};

ALWAYS_INLINE struct products products(vu32 a, uint32_t b)
{
	const uint32x4_t factor = vdupq_n_u32(b);

	return (struct products){
		vmull_u32(vget_low_u32((uint32x4_t)a), vget_low_u32(factor)),
		vmull_high_u32((uint32x4_t)a, factor),
	};
}

ALWAYS_INLINE vu32 high_halves(struct products p)
{
	return (vu32)vuzp2q_u32(vreinterpretq_u32_u64(p.first), vreinterpretq_u32_u64(p.last));
}

ALWAYS_INLINE vu32 low_halves(struct products p)
{
	return (vu32)vuzp1q_u32(vreinterpretq_u32_u64(p.first), vreinterpretq_u32_u64(p.last));
}

ALWAYS_INLINE vu32 load_u8(const uint8_t *at)
{
	uint32_t four;

	memcpy(&four, at, sizeof four);
	return (vu32)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}

ALWAYS_INLINE vs32 load_s8(const uint8_t *at)
{
	uint32_t four;

	memcpy(&four, at, sizeof four);
	return (vs32)vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four))));
}

ALWAYS_INLINE vu32 load_u16(const void *at)
{
	uint64_t four;

	memcpy(&four, at, sizeof four);
	return (vu32)vmovl_u16(vcreate_u16(four));
}

/* Stores the low halves of lanes, which are at most 0xFFFF. */
ALWAYS_INLINE void store_u16(void *at, vu32 v)
{
	uint64_t four = vget_lane_u64(vreinterpret_u64_u16(vmovn_u32((uint32x4_t)v)), 0);

	memcpy(at, &four, sizeof four);
}

/* Stores the low bytes of lanes, which are at most 0xFF. */
ALWAYS_INLINE void store_u8(uint8_t *at, vu32 v)
{
	uint16x4_t words = vmovn_u32((uint32x4_t)v);
	uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);

	memcpy(at, &four, sizeof four);
}

/* Stores lane i of word[w] at at[4 * i + w]. */
ALWAYS_INLINE void store_interleaved(uint32_t *at, const vu32 word[4])
{
	vst4q_u32(at, ((uint32x4x4_t){{(uint32x4_t)word[0], (uint32x4_t)word[1], (uint32x4_t)word[2],
	                               (uint32x4_t)word[3]}}));
}

ALWAYS_INLINE void store_quarters(uint32_t *at, const vu32 word[4])
{
	store_interleaved(at, word);
}

/* Packs the lanes of 4 vectors, each at most 0xFF, in order. */
ALWAYS_INLINE vu8 low_bytes(const vu32 v[4])
{
	uint16x8_t low = vuzp1q_u16((uint16x8_t)v[0], (uint16x8_t)v[1]);
	uint16x8_t high = vuzp1q_u16((uint16x8_t)v[2], (uint16x8_t)v[3]);

	return (vu8)vuzp1q_u8((uint8x16_t)low, (uint8x16_t)high);
}

/* Bytes whose top bits are the signs of the lanes of 4 vectors, in order; the other bits are undefined. */
ALWAYS_INLINE vs8 sign_bytes(const vu32 v[4])
{
	uint16x8_t low = vuzp2q_u16((uint16x8_t)v[0], (uint16x8_t)v[1]);
	uint16x8_t high = vuzp2q_u16((uint16x8_t)v[2], (uint16x8_t)v[3]);

	return (vs8)vuzp2q_u8((uint8x16_t)low, (uint8x16_t)high);
}

/* Converts to binary32, rounded down in the state of fp_enter_down(). */
ALWAYS_INLINE vf32 floor_f32(vu32 v)
{
	return (vf32)vcvtq_f32_u32((uint32x4_t)v);
}

/* Stochastic rounding of body/stochastic.h. */
#define HAS_STOCHASTIC
/* The codes (exponent field - first) * 2^M + n of 4 vectors of binary32 numbers with n in their low 16 bits. */
ALWAYS_INLINE vu8 join_codes(const vu32 v[4], unsigned significand_bits, uint32_t first)
{
	const unsigned up = 7 - significand_bits; /* the upper half is the field times 2^7 */
	vu16 codes[2];

	for (int i = 0; i < 2; i++) {
		const uint16x8_t a = (uint16x8_t)v[2 * i], b = (uint16x8_t)v[2 * i + 1];

		codes[i] = ((vu16)vuzp2q_u16(a, b) >> up) + (vu16)vuzp1q_u16(a, b) - (uint16_t)(first << significand_bits);
	}
	return (vu8)vuzp1q_u8((uint8x16_t)codes[0], (uint8x16_t)codes[1]);
}

ALWAYS_INLINE vu8 min_u8(vu8 a, vu8 b)
{
	return (vu8)vminq_u8((uint8x16_t)a, (uint8x16_t)b);
}

/* Stores the low halves of the lanes of a, then of b, which are at most 0xFFFF. */
ALWAYS_INLINE void store_u16_pair(void *at, vu32 a, vu32 b)
{
	store(at, (vu32)vuzp1q_u16((uint16x8_t)a, (uint16x8_t)b));
}

/* Rounds to binary16, to nearest even, and stores. */
ALWAYS_INLINE void store_f16(void *at, vf32 v)
{
	uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v));

	memcpy(at, &half, sizeof half);
}

ALWAYS_INLINE void widen_bytes(vu8 v, vu16 to[2])
{
	to[0] = (vu16)vmovl_u8(vget_low_u8((uint8x16_t)v));
	to[1] = (vu16)vmovl_high_u8((uint8x16_t)v);
}

/* Pairs of bytes of a and b: of the first 8 bytes, and of the others. */
ALWAYS_INLINE void interleave_bytes(vu8 a, vu8 b, vu16 to[2])
{
	to[0] = (vu16)vzip1q_u8((uint8x16_t)a, (uint8x16_t)b);
	to[1] = (vu16)vzip2q_u8((uint8x16_t)a, (uint8x16_t)b);
}

/* v >> n, n from 1 on, which may vary. */
ALWAYS_INLINE vs16 shift_right_s16(vs16 v, int n)
{
	return (vs16)vshlq_s16((int16x8_t)v, vdupq_n_s16((int16_t)-n));
}

/* binary16 to binary32. */
ALWAYS_INLINE void widen_f16(vu16 v, vf32 to[2])
{
	to[0] = (vf32)vcvt_f32_f16(vget_low_f16((float16x8_t)v));
	to[1] = (vf32)vcvt_high_f32_f16((float16x8_t)v);
}

/* Stores 4-bit codes, two per byte. */
ALWAYS_INLINE void store_nibbles(uint8_t *at, vu8 codes)
{
	uint8x8_t low = vmovn_u16((uint16x8_t)codes), high = vshrn_n_u16((uint16x8_t)codes, 4);

	vst1_u8(at, vorr_u8(low, high));
}

/* Adds the second half of the lanes to the first until one is left. Returns its bits. */
ALWAYS_INLINE uint32_t halving_sum(vf32 v)
{
	float32x2_t two = vadd_f32(vget_low_f32((float32x4_t)v), vget_high_f32((float32x4_t)v));

	return vget_lane_u32(vreinterpret_u32_f32(vpadd_f32(two, two)), 0);
}

#endif
