/* SPDX-License-Identifier: MIT */
/*
 * What avx2 and avx512 share: operations whose intrinsics differ only in their prefix (MM(add_ps) is _mm256_add_ps or
 * _mm512_add_ps), and the floating-point state. A kernel that computes in floating point calls fp_enter(), then a
 * function that is not inlined (so that the compiler moves no arithmetic across), then fp_leave(), which restores the
 * control bits and the sticky flags.
 */
#ifndef MXFP_BODY_X86_H
#define MXFP_BODY_X86_H

#include <immintrin.h>

/* Round to nearest, keep subnormals, trap no exception: the state in which a process starts. */
enum { MXCSR_DEFAULT = 0x1F80, MXCSR_DOWN = 0x2000 };

struct fp_state {
	uint32_t mxcsr;
};

ALWAYS_INLINE struct fp_state fp_enter(void)
{
	struct fp_state state = {_mm_getcsr()};

	_mm_setcsr(MXCSR_DEFAULT);
	return state;
}

/* The same, but rounding is down. */
ALWAYS_INLINE struct fp_state fp_enter_down(void)
{
	struct fp_state state = {_mm_getcsr()};

	_mm_setcsr(MXCSR_DEFAULT | MXCSR_DOWN);
	return state;
}

ALWAYS_INLINE void fp_leave(struct fp_state state)
{
	_mm_setcsr(state.mxcsr);
}

ALWAYS_INLINE vu32 min_u32(vu32 a, vu32 b)
{
	return (vu32)MM(min_epu32)((MM_INT)a, (MM_INT)b);
}

ALWAYS_INLINE vu32 max_u32(vu32 a, vu32 b)
{
	return (vu32)MM(max_epu32)((MM_INT)a, (MM_INT)b);
}

ALWAYS_INLINE vu32 shift_left(vu32 v, vu32 count)
{
	return (vu32)MM(sllv_epi32)((MM_INT)v, (MM_INT)count);
}

ALWAYS_INLINE vu32 shift_right(vu32 v, vu32 count)
{
	return (vu32)MM(srlv_epi32)((MM_INT)v, (MM_INT)count);
}

/* Of numbers. */
ALWAYS_INLINE vf32 max_f32(vf32 a, vf32 b)
{
	return (vf32)MM(max_ps)((MM_F32)a, (MM_F32)b);
}

ALWAYS_INLINE vf32 min_f32(vf32 a, vf32 b)
{
	return (vf32)MM(min_ps)((MM_F32)a, (MM_F32)b);
}

ALWAYS_INLINE vf32 fma_f32(vf32 a, vf32 b, vf32 c)
{
	return (vf32)MM(fmadd_ps)((MM_F32)a, (MM_F32)b, (MM_F32)c);
}

ALWAYS_INLINE vf64 fma_f64(vf64 a, vf64 b, vf64 c)
{
	return (vf64)MM(fmadd_pd)((MM_F64)a, (MM_F64)b, (MM_F64)c);
}

/* Neither is NaN. */
ALWAYS_INLINE vf64 max_f64(vf64 a, vf64 b)
{
	return (vf64)MM(max_pd)((MM_F64)a, (MM_F64)b);
}

/* The first half of store_interleaved(): quarter[i] holds lane i of every 128-bit part, its four words in order. */
ALWAYS_INLINE void interleave_quarters(MM_INT quarter[4], const vu32 word[4])
{
	MM_INT low01 = MM(unpacklo_epi32)((MM_INT)word[0], (MM_INT)word[1]);
	MM_INT high01 = MM(unpackhi_epi32)((MM_INT)word[0], (MM_INT)word[1]);
	MM_INT low23 = MM(unpacklo_epi32)((MM_INT)word[2], (MM_INT)word[3]);
	MM_INT high23 = MM(unpackhi_epi32)((MM_INT)word[2], (MM_INT)word[3]);

	quarter[0] = MM(unpacklo_epi64)(low01, low23);
	quarter[1] = MM(unpackhi_epi64)(low01, low23);
	quarter[2] = MM(unpacklo_epi64)(high01, high23);
	quarter[3] = MM(unpackhi_epi64)(high01, high23);
}

/* Of lanes, the even and the odd ones. */
struct products {
	MM_INT even, odd;
};

ALWAYS_INLINE struct products products(vu32 a, uint32_t b)
{
	return (struct products){
		MM(mul_epu32)((MM_INT)a, (MM_INT)splat(b)),
		MM(mul_epu32)(MM(srli_epi64)((MM_INT)a, 32), (MM_INT)splat(b)),
	};
}

/* Lanes 1 and 2 of every 128 bits are exchanged: one instruction, where the order of the factors would take two. */
ALWAYS_INLINE vu32 high_halves(struct products p)
{
	return (vu32)MM(shuffle_ps)((MM_F32)p.even, (MM_F32)p.odd, 0xDD);
}

ALWAYS_INLINE vu32 low_halves(struct products p)
{
	return (vu32)MM(shuffle_ps)((MM_F32)p.even, (MM_F32)p.odd, 0x88);
}

ALWAYS_INLINE void store_quarters(uint32_t *at, const vu32 word[4])
{
	MM_INT quarter[4];

	interleave_quarters(quarter, word);
	for (int i = 0; i < 4; i++)
		store(at + i * LANES, (vu32)quarter[i]);
}

#endif
